package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kerfdev/kerf/internal/model"
)

// most is how many values of a list are written out.
const most = 6

// few writes a list, a long one with a count: "a, b, c, d, e and 14 more".
func few(values []string) string {
	if len(values) <= most {
		return strings.Join(values, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(values[:most-1], ", "), len(values)-most+1)
}

// either writes alternatives: "1 or 4", "a, b or c".
func either(values []string) string {
	if len(values) < 2 || len(values) > most {
		return few(values)
	}
	last := len(values) - 1
	return strings.Join(values[:last], ", ") + " or " + values[last]
}

// after puts text behind a lead and before a tail, and is "" without a text.
func after(lead, text string, tail ...string) string {
	if text == "" {
		return ""
	}
	return lead + text + strings.Join(tail, "")
}

// join writes a key and what is said of it, the key once.
func join(key, detail string) string {
	switch {
	case detail == "" || key == "":
		return strings.TrimSuffix(key+detail, ".")
	case strings.Contains(detail, key):
		return strings.TrimSuffix(detail, ".")
	}
	return key + ": " + strings.TrimSuffix(detail, ".")
}

// plural counts things: "1 slice", "2 slices".
func plural(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// operators are those of requirements, for telling them from values.
var operators = []string{
	string(model.In), string(model.NotIn), string(model.Exists), string(model.DoesNotExist),
	string(model.Gt), string(model.Lt), string(model.Gte), string(model.Lte),
}

// condition writes what a requirement wants: "In [x, y]". The first value may
// be the operator, or the whole condition as it was written; values alone are In.
func condition(wanted []string) string {
	if len(wanted) == 0 {
		return ""
	}
	first, rest, more := strings.Cut(wanted[0], " ")
	switch {
	case !slices.Contains(operators, first):
		return "In [" + few(wanted) + "]"
	case more:
		return first + " " + rest
	case len(wanted) == 1:
		return first
	case first != string(model.In) && first != string(model.NotIn):
		return first + " " + wanted[1]
	}
	return first + " [" + few(wanted[1:]) + "]"
}

// but says what the pool or the node has in place of what is wanted.
func but(v model.Verdict) string {
	sets, offers, lacks := "the pool sets", "the pool offers", "the pool does not set it"
	switch {
	case v.Node != "":
		sets, offers, lacks = "the node has", "the node has", "the node does not have this label"
	case v.Pool == "":
		sets, offers, lacks = "there is only", "there are only", "nothing here sets it"
	}
	switch {
	case len(v.Offered) == 1:
		return " but " + sets + " " + v.Key + "=" + v.Offered[0]
	case len(v.Offered) > 1:
		return " but " + offers + " " + few(v.Offered)
	case v.Detail != "":
		return ": " + v.Detail
	}
	return " but " + lacks
}

var effects = []string{model.NoSchedule, model.PreferNoSchedule, model.NoExecute}

// written is a taint as kubectl writes it: "key=value:effect". Offered holds
// the whole, or the value and the effect, or either.
func written(v model.Verdict) string {
	value, effect := parts(v)
	return v.Key + after("=", value) + after(":", effect)
}

// parts are the value and the effect of a verdict's taint, "" when not known.
func parts(v model.Verdict) (value, effect string) {
	for _, o := range v.Offered {
		whole, tail, ok := strings.Cut(strings.TrimPrefix(o, v.Key), ":")
		switch {
		case slices.Contains(effects, o):
			effect = o
		case ok && slices.Contains(effects, tail):
			value, effect = strings.TrimPrefix(whole, "="), tail
		case o != v.Key:
			value = strings.TrimPrefix(o, v.Key+"=")
		}
	}
	return value, effect
}
