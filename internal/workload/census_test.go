package workload

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// Every field of the API types has a fate, and no other name has one; whatever
// is not modelled says why.
func TestCensus(t *testing.T) {
	for name, c := range map[string]struct {
		api   reflect.Type
		table map[string]fate
	}{
		"PodSpec":   {reflect.TypeFor[corev1.PodSpec](), podFields},
		"Container": {reflect.TypeFor[corev1.Container](), containerFields},
	} {
		fields := map[string]bool{}
		for i := range c.api.NumField() {
			tag, _, _ := strings.Cut(c.api.Field(i).Tag.Get("json"), ",")
			fields[tag] = true
			fate, ok := c.table[tag]
			if !ok {
				t.Errorf("%s.%s has no fate: say whether it is modelled, irrelevant, noted or refused", name, tag)
			}
			if ok && fate.kind != modelled && fate.why == "" {
				t.Errorf("%s.%s is not modelled, and the table does not say why", name, tag)
			}
		}
		for tag := range c.table {
			if !fields[tag] {
				t.Errorf("the table has %s.%s, which the API does not", name, tag)
			}
		}
	}
}

func TestFieldsThatAreNotModelledAreNamedOnce(t *testing.T) {
	spec := "  schedulingGroup: {podGroupName: g}\n  containers: [{name: c, image: i}]\n"
	_, notes := read(t, pod(spec)+"---\n"+strings.Replace(pod(spec), "name: p", "name: q", 1))
	got := say(with(notes, "not-modelled"))
	if len(got) != 1 || !strings.HasPrefix(got[0], "warning not-modelled in.yaml:5 spec.schedulingGroup: ") || !strings.HasSuffix(got[0], "; so in 1 more place") {
		t.Errorf("got %q", got)
	}
}
