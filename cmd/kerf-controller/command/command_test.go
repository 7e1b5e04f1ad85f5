package command

import (
	"bytes"
	"strings"
	"testing"
)

func TestFlagsThatCannotBe(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	t.Setenv("HOME", t.TempDir())
	t.Setenv("CLUSTER_NAME", "")
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"help":                   {[]string{"--help"}, exitOK, "  kerf-controller --cloud aws --cluster-name prod"},
		"no cloud":               {nil, exitUnusable, "error no cloud is named\n      -> --cloud aws, or --cloud simulated"},
		"a cloud that is none":   {[]string{"--cloud", "gcp"}, exitUnusable, `error unknown cloud "gcp"`},
		"a flag that is none":    {[]string{"--clod", "aws"}, exitUnusable, "unknown flag: --clod"},
		"an argument":            {[]string{"--cloud", "simulated", "run"}, exitUnusable, `takes no argument "run"`},
		"aws without a cluster":  {[]string{"--cloud", "aws"}, exitUnusable, "cluster-name"},
		"batches that never end": {[]string{"--cloud", "simulated", "--batch-idle", "5s"}, exitUnusable, "--batch-idle 5s is longer than --batch-max 1s"},
		"a level that is none":   {[]string{"--cloud", "simulated", "--log-level", "loud"}, exitUnusable, `unknown log level "loud"`},
		"no cluster to be seen":  {[]string{"--cloud", "simulated"}, exitUnusable, "error no cluster is configured, and this is not a pod of one\n      -> --kubeconfig FILE"},
		"an exempt nobody":       {[]string{"--cloud", "simulated", "--guard", "--guard-exempt", "a:b"}, exitUnusable, `names no rule "b"`},
		"a guard without TLS":    {[]string{"--cloud", "simulated", "--guard", "--guard-url", "http://a"}, exitUnusable, "--guard-url http://a is no https://host:port"},
		"a kubeconfig not there": {[]string{"--cloud", "simulated", "--kubeconfig", "no/such"}, exitUnusable, "no/such"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if code := Main(c.args, &out); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			if !strings.Contains(out.String(), c.want) {
				t.Errorf("said %q, which lacks %q", out.String(), c.want)
			}
		})
	}
}
