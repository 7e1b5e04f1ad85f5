package world

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestWritesAreNamedByWhatTheyChange(t *testing.T) {
	for name, c := range map[string]struct {
		method, path string
		want         Write
	}{
		"a cluster-wide object":   {http.MethodPost, "/apis/karpenter.sh/v1/nodeclaims", "create nodeclaims"},
		"its status":              {http.MethodPatch, "/apis/karpenter.sh/v1/nodeclaims/a/status", "patch nodeclaims/status"},
		"an object":               {http.MethodDelete, "/api/v1/nodes/a", "delete nodes"},
		"one of a namespace":      {http.MethodPost, "/api/v1/namespaces/team/events", "create events"},
		"a subresource of a pod":  {http.MethodPost, "/api/v1/namespaces/team/pods/p/eviction", "create pods/eviction"},
		"a namespace itself":      {http.MethodDelete, "/api/v1/namespaces/team", "delete namespaces"},
		"a lease that is renewed": {http.MethodPut, "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/a", "update leases"},
		"a read":                  {http.MethodGet, "/api/v1/nodes", ""},
		"what is no object":       {http.MethodPost, "/version", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := http.NewRequest(c.method, "https://127.0.0.1"+c.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got, ok := writeOf(r); got != c.want || ok != (c.want != "") {
				t.Errorf("%q, %t; want %q", got, ok, c.want)
			}
		})
	}
}

func TestDocumentsAreReadOneByOne(t *testing.T) {
	objects, err := Decode([]byte("# a comment\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: b}\n"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range objects {
		got = append(got, o.GetKind()+" "+o.GetName())
	}
	if diff := cmp.Diff([]string{"ConfigMap a", "Pod b"}, got); diff != "" {
		t.Error(diff)
	}
	_, err = Decode([]byte("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Pod\n"))
	if err == nil || !strings.Contains(err.Error(), "document 2: no kind or no metadata.name") {
		t.Errorf("error %v", err)
	}
}

func TestAClockCanBeMoved(t *testing.T) {
	c := &Clock{hurry: 10}
	before := time.Now()
	c.Ahead(time.Hour)
	if d := c.Since(before); d < time.Hour || d > time.Hour+time.Minute {
		t.Errorf("an hour later it is %v later", d)
	}
}

func TestTheNodeClassIsTheProviders(t *testing.T) {
	crd, err := NodeClassCRD()
	if err != nil {
		t.Fatal(err)
	}
	spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	if len(spec.XValidations) == 0 || len(spec.Properties["amiSelectorTerms"].Items.Schema.Properties) == 0 {
		t.Error("the schema lacks what the provider's has")
	}
}
