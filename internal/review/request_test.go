package review

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/kerfdev/kerf/internal/guard"
	"github.com/kerfdev/kerf/internal/model"
)

// cluster is one whose NodePool "a" has a taint.
type cluster struct{}

func (cluster) Facts(context.Context, *guard.Pod) (*guard.Facts, error) { return &guard.Facts{}, nil }
func (cluster) AddsTolerations() bool                                   { return false }
func (cluster) Taints(_ context.Context, pool string) ([]model.Taint, error) {
	return map[string][]model.Taint{"a": {{Key: "b", Effect: model.NoSchedule}}}[pool], nil
}

// An answered is an answer as whoever asked reads it.
type answered struct {
	APIVersion, Kind string
	Response         *response
}

func answerOf(t *testing.T, text []byte) response {
	t.Helper()
	var out answered
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatalf("the answer is not JSON: %v: %.200s", err, text)
	}
	if out.APIVersion != apiVersion || out.Kind != kind || out.Response == nil {
		t.Fatalf("the answer is no review: %.200s", text)
	}
	return *out.Response
}

// Parts of reviews. The pod asks for GPUs by the side door.
const (
	head  = `"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"`
	asked = `"uid":"7","kind":{"version":"v1","kind":"Pod"},"operation":"CREATE","namespace":"team-a"`
	good  = `{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"name":"a","env":[{"name":"NVIDIA_VISIBLE_DEVICES","value":"void"}]}]}}`
	bad   = `{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"name":"a","env":[{"name":"NVIDIA_VISIBLE_DEVICES","value":"all"}]}]}}`
)

// One review says one thing to everybody. What does not is refused, by its UID
// wherever it has one, so that no failure policy lets the object in.
func TestEnvelopes(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 600) + "1" + strings.Repeat("}", 600)
	for name, c := range map[string]struct {
		body string
		code int
		says string
		uid  string
	}{
		"an honest pod":                {`{` + head + `,"request":{` + asked + `,"object":` + good + `}}`, ok, "", "7"},
		"a thief":                      {`{` + head + `,"request":{` + asked + `,"object":` + bad + `}}`, forbidden, "env-visible-devices", "7"},
		"what later versions may add":  {`{` + head + `,"more":[{}],"request":{"new":{"uid":8},` + asked + `,"object":` + good + `},"response":null}`, ok, "", "7"},
		"space around it":              {"\n {" + head + `, "request": {` + asked + `, "object": ` + good + " } }\n ", ok, "", "7"},
		"v1beta1":                      {`{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","request":{` + asked + `,"object":` + good + `}}`, badRequest, "v1beta1", "7"},
		"no version":                   {`{"request":{` + asked + `,"object":` + good + `}}`, badRequest, `"" of ""`, "7"},
		"a list":                       {`[]`, badRequest, "admission.k8s.io/v1", ""},
		"only space":                   {" \n", badRequest, "no object", ""},
		"no request":                   {`{` + head + `}`, badRequest, "no UID", ""},
		"no UID":                       {`{` + head + `,"request":{"operation":"CREATE","object":` + good + `}}`, badRequest, "no UID", ""},
		"a UID that is a number":       {`{` + head + `,"request":{"uid":7,"object":` + good + `}}`, badRequest, "uid of the request is a number, not a string", ""},
		"a request that is a list":     {`{` + head + `,"request":[{` + asked + `}]}`, badRequest, "request of the review is a list, not a map", ""},
		"two objects":                  {`{` + head + `,"request":{` + asked + `,"object":` + bad + `,"object":` + good + `}}`, badRequest, "object 2 times", "7"},
		"two requests":                 {`{` + head + `,"request":{` + asked + `,"object":` + bad + `},"request":{` + asked + `,"object":` + good + `}}`, badRequest, "request 2 times", "7"},
		"two UIDs":                     {`{` + head + `,"request":{` + asked + `,"uid":"8","object":` + good + `}}`, badRequest, "uid 2 times", "7"},
		"two operations":               {`{` + head + `,"request":{` + asked + `,"operation":"DELETE","object":` + bad + `}}`, badRequest, "operation 2 times", "7"},
		"the same name by an escape":   {`{` + head + `,"request":{` + asked + `,"object":` + bad + `,"\u006fbject":` + good + `}}`, badRequest, "object 2 times", "7"},
		"another object in upper case": {`{` + head + `,"request":{` + asked + `,"object":` + bad + `,"Object":` + good + `,"OBJECT":` + good + `}}`, forbidden, "env-visible-devices", "7"},
		"an object in upper case only": {`{` + head + `,"request":{` + asked + `,"Object":` + good + `}}`, badRequest, "no object", "7"},
		"a long s in the operation":    {`{` + head + `,"request":{"uid":"7","operation":"CREATE","namespace":"a","namepace":"b","name\u017fpace":"kube-system","object":` + bad + `}}`, forbidden, "env-visible-devices", "7"},
		"nested too deep":              {`{` + head + `,"request":{` + asked + `,"object":{"spec":` + deep + `}}}`, badRequest, "nested more than", "7"},
		"cut off":                      {`{` + head + `,"request":{` + asked + `,"object":{"spec":`, badRequest, "the text ends", "7"},
		"cut off before its UID":       {`{` + head + `,"request":{"object":{"spec":`, badRequest, "the text ends", ""},
		"more behind it":               {`{` + head + `,"request":{` + asked + `,"object":` + good + `}} {}`, badRequest, "read the review", "7"},
		"a deletion of anything":       {`{` + head + `,"request":{"uid":"7","operation":"DELETE","oldObject":` + bad + `}}`, ok, "", "7"},
	} {
		t.Run(name, func(t *testing.T) {
			g := &Guard{Cluster: cluster{}}
			r := answerOf(t, g.Validate(t.Context(), []byte(c.body)))
			if r.Status.Code != c.code || r.UID != c.uid || !strings.Contains(r.Status.Message, c.says) || r.Allowed != (c.code == ok) {
				t.Errorf("answer %+v, want code %d, uid %q and a message with %q", r, c.code, c.uid, c.says)
			}
			if m := answerOf(t, g.Mutate(t.Context(), []byte(c.body))); c.code == badRequest && (m.UID != r.UID || m.Status != r.Status) {
				t.Errorf("the repair answers %+v, the verdict is %+v", m, r)
			}
		})
	}
}

// unable is a cluster that cannot be asked.
type unable struct{ cluster }

func (unable) Facts(context.Context, *guard.Pod) (*guard.Facts, error) {
	return nil, errors.New("away")
}

func TestEveryReviewIsCountedOnce(t *testing.T) {
	review := func(object string) string { return `{` + head + `,"request":{` + asked + `,"object":` + object + `}}` }
	for name, c := range map[string]struct {
		body             string
		cluster          Cluster
		verdict, repairs string
	}{
		"an honest pod":   {review(good), cluster{}, "allowed", ""},
		"one to repair":   {review(`{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"name":"a"}]}}`), cluster{}, "allowed", "repaired"},
		"a thief":         {review(bad), cluster{}, "denied", ""},
		"no object":       {review("null"), cluster{}, "failed", "failed"},
		"not a review":    {"GPU", cluster{}, "failed", "failed"},
		"nobody to ask":   {review(good), unable{}, "failed", "failed"},
		"a list of lists": {review("[[]]"), cluster{}, "failed", "failed"},
	} {
		t.Run(name, func(t *testing.T) {
			var counted []string
			g := &Guard{Cluster: c.cluster, Count: func(verdict string, _ []guard.Finding) { counted = append(counted, verdict) }}
			g.Validate(t.Context(), []byte(c.body))
			if got := strings.Join(counted, " "); got != c.verdict {
				t.Errorf("the verdict is counted as %q, want %q", got, c.verdict)
			}
			counted = nil
			g.Mutate(t.Context(), []byte(c.body))
			if got := strings.Join(counted, " "); got != c.repairs {
				t.Errorf("the repair is counted as %q, want %q", got, c.repairs)
			}
		})
	}
}
