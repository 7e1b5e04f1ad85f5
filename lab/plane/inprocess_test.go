//go:build !prebuilt

package plane

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTheAPIServerIsReadyAndSaysItsVersion(t *testing.T) {
	outside(t)
	c := client(t)
	if err := c.RESTClient().Get().AbsPath("/readyz").Do(t.Context()).Error(); err != nil {
		t.Error(err)
	}
	v, err := c.Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	got := []string{v.GitVersion, v.Major, v.Minor}
	if diff := cmp.Diff([]string{"v1.37.2", "1", "37"}, got); diff != "" {
		t.Errorf("version (-want +got):\n%s", diff)
	}
}

func TestOneProcessRunsOnePlane(t *testing.T) {
	outside(t)
	second, err := Start(t.Context(), Config{Dir: t.TempDir()})
	if err == nil {
		t.Fatal(errors.Join(errors.New("a second plane was started"), second.Stop()))
	}
	if want := "this process runs a control plane already"; !strings.Contains(err.Error(), want) {
		t.Errorf("error:\nwant %s\ngot  %v", want, err)
	}
}

// outside skips a test where prebuilt programs are used.
func outside(t *testing.T) {
	t.Helper()
	if running.config.Assets != "" {
		t.Skip("KUBEBUILDER_ASSETS is set: the control plane is not the one that is linked in")
	}
}
