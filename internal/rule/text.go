package rule

import (
	"strconv"
	"strings"

	"github.com/kerfdev/kerf/internal/model"
)

// list writes names as prose, at most four of them.
func list(names []string) string {
	const most = 4
	switch n := len(names); {
	case n == 0:
		return ""
	case n == 1:
		return names[0]
	case n > most:
		return strings.Join(names[:most-1], ", ") + " and " + strconv.Itoa(n-most+1) + " more"
	default:
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// nodesOf names the nodes of pools: "nodes of pool gpu", "nodes of pools gpu and gpu-shared".
func nodesOf(pools []string) string {
	return "nodes of " + plural(len(pools), "pool ", "pools ") + list(pools)
}

// yamlTolerations writes tolerations as one line of YAML that can be pasted.
func yamlTolerations(tols []model.Toleration) string {
	items := make([]string, len(tols))
	for i, t := range tols {
		var fields []string
		add := func(name, value string) {
			if value != "" {
				fields = append(fields, name+": "+yamlString(value))
			}
		}
		add("key", t.Key)
		add("operator", t.Operator)
		add("value", t.Value)
		add("effect", t.Effect)
		items[i] = "{" + strings.Join(fields, ", ") + "}"
	}
	return "tolerations: [" + strings.Join(items, ", ") + "]"
}

// yamlString quotes what YAML would read as something else than a string, or
// what could be.
func yamlString(s string) string {
	plain := strings.IndexFunc(s, func(r rune) bool {
		return !(r == '/' || r == '.' || r == '-' || r == '_' || (r >= 'a' && r <= 'z') || (r >= 'A' && r <= 'Z') || (r >= '0' && r <= '9'))
	}) < 0
	switch strings.ToLower(s) {
	case "true", "false", "yes", "no", "on", "off", "null", "y", "n":
		plain = false
	}
	if _, err := strconv.ParseFloat(s, 64); err == nil || !plain {
		return strconv.Quote(s)
	}
	return s
}
