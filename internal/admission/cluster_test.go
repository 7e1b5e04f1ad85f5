package admission

import (
	"errors"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kerfdev/kerf/internal/guard"
)

// A pod may follow its namespace so closely that the cache has not heard of it:
// the namespace's labels count all the same.
func TestFactsThatTheCacheDoesNotHaveYet(t *testing.T) {
	s := scheme(t)
	if err := nodev1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{guard.LabelMode: "warn"}
	a := APIServer{
		Cached: fake.NewClientBuilder().WithScheme(s).Build(),
		Direct: fake.NewClientBuilder().WithScheme(s).WithObjects(
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "new", Labels: labels}},
			&nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Handler: "nvidia"},
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "new", Name: "settings"}, Data: map[string]string{"A": "b"}},
		).Build(),
	}
	from := []guard.EnvFrom{{Kind: "ConfigMap", Name: "settings"}, {Kind: "ConfigMap", Name: "absent"}, {Kind: "Secret", Name: "settings"}}
	got, err := a.Facts(t.Context(), &guard.Pod{Namespace: "new", RuntimeClass: "fast", Containers: []guard.Container{{EnvFrom: from}}})
	if err != nil {
		t.Fatal(err)
	}
	want := &guard.Facts{
		Labels: labels, Handlers: map[string]string{"fast": "nvidia"}, ConfigMaps: map[string]map[string]string{"settings": {"A": "b"}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("facts (-want +got):\n%s", d)
	}
	if got, err := a.Facts(t.Context(), &guard.Pod{Namespace: "nowhere", RuntimeClass: "none"}); err != nil || len(got.Labels) > 0 {
		t.Errorf("of what does not exist: %+v, %v", got, err)
	}
}

// Who takes variables from everywhere is refused rather than read: the review
// would take longer than a webhook has.
func TestVariablesFromTooManyPlaces(t *testing.T) {
	many := map[string]string{}
	for i := range 2000 {
		many[strconv.Itoa(i)] = ""
	}
	c := fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "many"}, Data: many},
	).Build()
	a := APIServer{Cached: c, Direct: c}
	from := func(n int, name func(int) string) *guard.Pod {
		p := &guard.Pod{Namespace: "a", Containers: []guard.Container{{}}}
		for i := range n {
			p.Containers[0].EnvFrom = append(p.Containers[0].EnvFrom, guard.EnvFrom{Kind: "ConfigMap", Name: name(i), Prefix: strconv.Itoa(i)})
		}
		return p
	}
	one := func(int) string { return "many" }
	for name, tc := range map[string]struct {
		pod     *guard.Pod
		tooMany bool
	}{
		"one ConfigMap, fifty times":         {from(50, one), false},
		"one ConfigMap, fifty-one times":     {from(51, one), true},
		"a hundred ConfigMaps":               {from(100, strconv.Itoa), false},
		"one more than a hundred":            {from(101, strconv.Itoa), true},
		"Secrets, which are not read at all": {&guard.Pod{Namespace: "a", Containers: []guard.Container{{EnvFrom: slices.Repeat([]guard.EnvFrom{{Kind: "Secret", Name: "s"}}, 200)}}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := a.Facts(t.Context(), tc.pod); errors.Is(err, errTooMany) != tc.tooMany || (err != nil && !tc.tooMany) {
				t.Errorf("facts: %v", err)
			}
		})
	}
}
