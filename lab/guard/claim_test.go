package guard

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/guard"
	"github.com/kerfdev/kerf/internal/source"
)

// plurals are the kinds of the corpus that admission is asked about.
var plurals = map[string]string{
	"Pod": "pods", "Deployment": "deployments", "StatefulSet": "statefulsets", "ReplicaSet": "replicasets", "DaemonSet": "daemonsets", "Job": "jobs", "CronJob": "cronjobs",
	"ResourceQuota": "resourcequotas", "LimitRange": "limitranges", "ResourceClaim": "resourceclaims", "ResourceClaimTemplate": "resourceclaimtemplates",
}

// A claim is a file of internal/guard's corpus; the README there says what
// stands at its head.
type claim struct {
	name      string
	head      map[string]string
	docs      []manifest.Document
	inventory guard.Inventory
	exempt    guard.Exemptions
}

// corpus reads the claims. Those that need objects of their own in the cluster
// get namespaces of their own, so that all can be tried side by side.
func corpus(t *testing.T) []claim {
	t.Helper()
	files, err := filepath.Glob("../../internal/guard/testdata/corpus/*.yaml")
	if err != nil || len(files) < 150 {
		t.Fatalf("the corpus has %d files: %v", len(files), err)
	}
	var out []claim
	for i, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, readClaim(t, filepath.Base(file), apart(string(data), i)))
	}
	return out
}

var (
	needy   = regexp.MustCompile(`(?m)^kind: (Namespace|ConfigMap|Secret)$|^# exempt: |^  ephemeralContainers:`)
	renamed = regexp.MustCompile(`\b(namespace|name|exempt): (team-a|team-b|monitoring)\b`)
)

func apart(text string, i int) string {
	if !needy.MatchString(text) {
		return text
	}
	return renamed.ReplaceAllString(text, "${1}: ${2}-"+strconv.Itoa(i))
}

func readClaim(t *testing.T, file, text string) claim {
	t.Helper()
	docs, notes := source.Parse(source.File{Name: file, Data: []byte(text)})
	if len(notes) > 0 {
		t.Fatalf("%s: %v", file, notes)
	}
	c := claim{name: strings.TrimSuffix(file, ".yaml"), head: map[string]string{}, docs: docs, inventory: guard.Read(docs)}
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "# "), ": ")
		if !strings.HasPrefix(line, "# ") || !ok {
			break
		}
		c.head[key] = value
	}
	if e, ok := c.head["exempt"]; ok {
		x, err := guard.ParseExemption(e)
		if err != nil {
			t.Fatal(err)
		}
		c.exempt = guard.Exemptions{x}
	}
	if name, most, ok := strings.Cut(c.head["max-request"], " "); ok {
		n, err := strconv.ParseInt(most, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		c.inventory.MaxRequest = map[string]int64{name: n}
	}
	return c
}

// rules are those at the head under a key; ok is false without the key.
func (c *claim) rules(key string) (list []string, ok bool) {
	text, ok := c.head[key]
	list = strings.Fields(strings.TrimPrefix(text, "none"))
	slices.Sort(list)
	return list, ok
}

// exemptions are the default ones and those of all claims, which name each
// another namespace.
func exemptions(claims []claim) guard.Exemptions {
	out := guard.DefaultExemptions()
	for _, c := range claims {
		out = append(out, c.exempt...)
	}
	return out
}

// settle creates what the objects of claims refer to, and the pods that debug
// containers are to be added to.
func settle(t *testing.T, u *user, claims []claim) {
	t.Helper()
	accounts, classes := map[string][]string{"default": nil}, map[string]string{}
	for _, c := range claims {
		for _, p := range c.inventory.Pods {
			accounts[p.Namespace] = append(accounts[p.Namespace], p.ServiceAccount)
			if p.RuntimeClass != "" {
				classes[p.RuntimeClass] = cmp.Or(c.inventory.Facts(p.Namespace).Handlers[p.RuntimeClass], p.RuntimeClass)
			}
		}
		for _, d := range c.docs {
			accounts[cmp.Or(d.Namespace, "default")] = accounts[cmp.Or(d.Namespace, "default")]
		}
	}
	for namespace, list := range accounts {
		slices.Sort(list)
		u.namespace(t, namespace, labelsOf(claims, namespace), slices.Compact(list)...)
	}
	for name, handler := range classes {
		_, err := u.NodeV1().RuntimeClasses().Create(t.Context(), &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Handler: handler}, metav1.CreateOptions{})
		must(t, err)
	}
	for _, c := range claims {
		for _, d := range c.docs {
			switch d.Kind {
			case "ConfigMap":
				_, err := u.CoreV1().ConfigMaps(d.Namespace).Create(t.Context(), as[corev1.ConfigMap](t, d), metav1.CreateOptions{})
				must(t, err)
			case "Secret":
				_, err := u.CoreV1().Secrets(d.Namespace).Create(t.Context(), as[corev1.Secret](t, d), metav1.CreateOptions{})
				must(t, err)
			case "Pod":
				if debugs(d) {
					base := as[corev1.Pod](t, d)
					base.Spec.EphemeralContainers = nil
					_, err := u.CoreV1().Pods(d.Namespace).Create(t.Context(), base, metav1.CreateOptions{})
					must(t, err)
				}
			}
		}
	}
}

// labelsOf are those that a claim gives a namespace.
func labelsOf(claims []claim, namespace string) map[string]string {
	for _, c := range claims {
		if labels := c.inventory.Facts(namespace).Labels; len(labels) > 0 {
			return labels
		}
	}
	return nil
}

// debugs reports whether a document is a pod with debug containers.
func debugs(d manifest.Document) bool { return d.Root.At("spec", "ephemeralContainers") != nil }

func as[T any](t *testing.T, d manifest.Document) *T {
	t.Helper()
	out := new(T)
	if err := json.Unmarshal(d.Root.JSON(), out); err != nil {
		t.Fatal(err)
	}
	return out
}

// submit asks the API server to store an object of a claim, in a dry run.
func (u *user) submit(t *testing.T, d manifest.Document) error {
	t.Helper()
	dry := []string{metav1.DryRunAll}
	if debugs(d) {
		stored, err := u.CoreV1().Pods(d.Namespace).Get(t.Context(), d.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		stored.Spec.EphemeralContainers = as[corev1.Pod](t, d).Spec.EphemeralContainers
		_, err = u.CoreV1().Pods(d.Namespace).UpdateEphemeralContainers(t.Context(), d.Name, stored, metav1.UpdateOptions{DryRun: dry})
		return err
	}
	gv, err := schema.ParseGroupVersion(d.APIVersion)
	if err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{Object: *as[map[string]any](t, d)}
	_, err = u.any.Resource(gv.WithResource(plurals[d.Kind])).Namespace(cmp.Or(d.Namespace, "default")).Create(t.Context(), object, metav1.CreateOptions{DryRun: dry})
	return err
}

// named lists the rules that the texts of warnings or refusals name.
func named(texts ...string) []string {
	var out []string
	for _, text := range texts {
		for _, r := range guard.Rules() {
			if at := strings.Index(text, r.Name+": "); at >= 0 && (at == 0 || text[at-1] == ' ') {
				out = append(out, r.Name)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func describe(d manifest.Document, err error, warnings []string) string {
	return fmt.Sprintf("%s: %v\nwarnings: %s", d.Title(), err, strings.Join(warnings, "\n  "))
}
