package cli

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

const widgets = `---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object}}
`

// The lab is started as from a shell, used through the kubeconfig that it
// prints, and told to stop.
func TestRunAnnouncesAClusterThatCanBeUsedUntilItIsToldToStop(t *testing.T) {
	crd := filepath.Join(t.TempDir(), "crd.yaml")
	if err := os.WriteFile(crd, []byte(widgets), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	out, said := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := Run(ctx, Config{CRDs: []string{crd}, Assets: os.Getenv("KUBEBUILDER_ASSETS")}, said)
		ended <- err
		said.CloseWithError(io.EOF)
	}()

	kubeconfig, text := readUntil(t, out, regexp.MustCompile(`export KUBECONFIG=(.*)\n`))
	go io.Copy(io.Discard, out)
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	definitions := client.Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"))
	for _, name := range []string{"nodepools.karpenter.sh", "nodeclaims.karpenter.sh", "nodeoverlays.karpenter.sh", "kwoknodeclasses.karpenter.kwok.sh", "ec2nodeclasses.karpenter.k8s.aws", "widgets.example.com"} {
		if _, err := definitions.Get(ctx, name, metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	}

	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Dir(kubeconfig)); !os.IsNotExist(err) {
		t.Errorf("the temporary folder is still there: %v", err)
	}
}

// readUntil reads until the text matches, and returns the first group.
func readUntil(t *testing.T, r io.Reader, want *regexp.Regexp) (group, text string) {
	t.Helper()
	var all bytes.Buffer
	chunk := make([]byte, 1024)
	for {
		n, err := r.Read(chunk)
		all.Write(chunk[:n])
		if m := want.FindStringSubmatch(all.String()); m != nil {
			return m[1], all.String()
		}
		if err != nil {
			t.Fatalf("%v; it said:\n%s", err, all.String())
		}
	}
}

func TestMainSaysWhatIsWrongWithItsArguments(t *testing.T) {
	dir := t.TempDir()
	pod := filepath.Join(dir, "pod.yaml")
	if err := os.WriteFile(pod, []byte("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"an argument":          {[]string{"up"}, `kerf-lab: argument "up"; expected demo, or flags only, see --help`},
		"a flag that is none":  {[]string{"--prot=1"}, "kerf-lab: unknown flag: --prot"},
		"a file that is none":  {[]string{"--crd", filepath.Join(dir, "none.yaml")}, "none.yaml: no such file or directory"},
		"a file without a CRD": {[]string{"--crd", pod}, "pod.yaml: document 1: v1 Pod; expected apiextensions.k8s.io/v1 CustomResourceDefinition"},
		"a port out of range":  {[]string{"--dir", dir, "--port", "70000"}, "kerf-lab: plane: port 70000; expected 0 for a free one, or 1 to 65535"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			code := Main(c.args, Streams{Out: &out, Err: &errs, Getenv: func(string) string { return "" }})
			if code != 1 || !strings.Contains(errs.String(), c.want) {
				t.Errorf("exit code %d, said %q; want 1, %q", code, errs.String(), c.want)
			}
		})
	}
}

func TestHelpShowsAnExampleAndSucceeds(t *testing.T) {
	var out, errs bytes.Buffer
	code := Main([]string{"--help"}, Streams{Out: &out, Err: &errs, Getenv: func(string) string { return "" }})
	if code != 0 || !strings.Contains(out.String(), "kerf-lab --dir ~/lab") {
		t.Errorf("exit code %d, said %q and %q", code, out.String(), errs.String())
	}
}
