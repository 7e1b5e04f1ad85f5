package nodeconfig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/kerfdev/kerf/api/deviceconfig"
	"github.com/kerfdev/kerf/internal/gpu"
	"github.com/kerfdev/kerf/internal/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// folder makes configs by name; each shares GPUs by the length of its name.
func folder(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, n := range names {
		text := fmt.Sprintf("sharing: {timeSlicing: {resources: [{name: gpu, replicas: %d}]}}\n", len(n)+1)
		if err := os.WriteFile(filepath.Join(dir, n), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "a folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"..data": ".", "gone": "..data/nowhere"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestSelect(t *testing.T) {
	label := func(name string) map[string]string { return map[string]string{model.LabelDeviceConfig: name} }
	for name, test := range map[string]struct {
		source  Source
		configs []string
		labels  map[string]string
		want    string
		err     string
	}{
		"the label decides":                      {configs: []string{"default", "shared_gpu"}, labels: label("shared_gpu"), want: "shared_gpu"},
		"a label of one's own":                   {source: Source{Label: "team/gpus"}, configs: []string{"default", "b"}, labels: map[string]string{"team/gpus": "b"}, want: "b"},
		"no label: the default that is named":    {source: Source{Default: "b"}, configs: []string{"default", "b"}, want: "b"},
		"no default: the one called so":          {configs: []string{"b", "default"}, want: "default"},
		"the only one":                           {configs: []string{"b"}, want: "b"},
		"an empty label is none":                 {configs: []string{"default", "b"}, labels: label(""), want: "default"},
		"no fallback but single":                 {source: Source{Fallbacks: []string{"single"}}, configs: []string{"default", "b"}, err: "of the device configs b, default none is the default, and no label nvidia.com/device-plugin.config chooses one"},
		"the only one, by single alone":          {source: Source{Fallbacks: []string{"single"}}, configs: []string{"default"}, want: "default"},
		"named before single":                    {source: Source{Fallbacks: []string{"named", "single"}}, configs: []string{"default"}, want: "default"},
		"empty when nothing else is there":       {source: Source{Fallbacks: []string{"named", "empty"}}, configs: []string{"a", "b"}, want: ""},
		"a label counts before every fallback":   {source: Source{Fallbacks: []string{"empty"}}, configs: []string{"a", "b"}, labels: label("a"), want: "a"},
		"a default counts before every fallback": {source: Source{Default: "a", Fallbacks: []string{"empty"}}, configs: []string{"a", "b"}, want: "a"},
		"none of several":                        {configs: []string{"a", "b"}, err: "of the device configs a, b none is the default, and no label nvidia.com/device-plugin.config chooses one"},
		"no configs: nothing is shared":          {configs: nil, want: ""},
		"a label that names none":                {configs: []string{"a"}, labels: label("typo"), err: `label nvidia.com/device-plugin.config names the device config "typo", which does not exist; the only device config is a`},
		"a default that is missing":              {source: Source{Default: "x"}, configs: []string{"a"}, err: `the default device config "x" does not exist; the only device config is a`},
		"folders and links to nowhere are none":  {configs: []string{"a"}, labels: label("a folder"), err: `label nvidia.com/device-plugin.config names the device config "a folder", which does not exist; the only device config is a`},
	} {
		t.Run(name, func(t *testing.T) {
			test.source.Dir = folder(t, test.configs...)
			got, err := test.source.Select(test.labels)
			if test.err != "" || err != nil {
				var typed *gpu.ConfigError
				if err == nil || err.Error() != test.err || !errors.As(err, &typed) {
					t.Fatalf("error %v, want %s", err, test.err)
				}
				return
			}
			if got.Name != test.want {
				t.Errorf("chose %q, want %q", got.Name, test.want)
			}
			if shared := got.Config.TimeSlicing; test.want != "" && (shared == nil || shared.Resources[0].Replicas != int64(len(test.want)+1)) {
				t.Errorf("%s holds %+v", test.want, got.Config)
			}
		})
	}
}

// The planner predicts by gpu.Select which config a node gets.
func TestSelectAgreesWithThePlanner(t *testing.T) {
	for _, configs := range [][]string{nil, {"a"}, {"default"}, {"a", "b"}, {"a", "default"}} {
		for _, label := range []string{"", "a", "default", "x"} {
			for _, byDefault := range []string{"", "a", "x"} {
				labels := map[string]string{model.LabelDeviceConfig: label}
				sharing := model.Sharing{Default: byDefault, Configs: map[string]deviceconfig.Config{}}
				for _, c := range configs {
					sharing.Configs[c] = deviceconfig.Config{}
				}
				want, _, wantErr := gpu.Select(sharing, labels)
				got, err := Source{Dir: folder(t, configs...), Default: byDefault}.Select(labels)
				if got.Name != want || fmt.Sprint(err) != fmt.Sprint(wantErr) {
					t.Errorf("configs %v, default %q, label %q: node %q %v, planner %q %v", configs, byDefault, label, got.Name, err, want, wantErr)
				}
			}
		}
	}
}

func TestSelectOfASingleFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	if _, err := (Source{File: file}).Select(nil); err == nil || !strings.Contains(err.Error(), "config.yaml: no such file") {
		t.Errorf("a missing file: %v", err)
	}
	if err := os.WriteFile(file, []byte("flags: {migStrategy: mixed}"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Source{File: file}.Select(map[string]string{model.LabelDeviceConfig: "typo"})
	if err != nil || got.Config.Flags.MIGStrategy != "mixed" || got.Title() != file {
		t.Errorf("read %+v, %v", got, err)
	}
	if got, err := (Source{}).Select(nil); err != nil || got.Title() != "(none)" {
		t.Errorf("no source gives %+v, %v", got, err)
	}
	if err := (Source{Fallbacks: []string{"named", "nmaed"}}).Check(); err == nil || err.Error() != `unknown fallback strategy "nmaed"; known: named, single, empty` {
		t.Errorf("an unknown fallback: %v", err)
	}
}

// Strict and lenient reading of the same text.
func TestDecode(t *testing.T) {
	for name, test := range map[string]struct {
		text            string
		strict, lenient []string // errors when strict, warnings when lenient; nil for none
		warns           []string // when strict, beside no error
	}{
		"nothing":                              {},
		"a good config":                        {text: "version: v1\nsharing:\n  timeSlicing:\n    resources:\n    - {name: gpu, replicas: 2}\n"},
		"what only NVIDIA's plugin objects to": {text: "sharing:\n  timeSlicing:\n    resources:\n    - {name: gpu, rename: gpu.a, devices: [0], replicas: 2}\n    - {name: gpu, devices: [1], replicas: 1}\n"},
		"an unknown key": {
			text: "flags:\n  migstrategie: mixed\n", strict: []string{"f:2: flags.migstrategie: unknown key migstrategie, which the plugin ignores; read as migStrategy; write migStrategy"},
			lenient: []string{"f:2: flags.migstrategie: unknown key migstrategie, which the plugin ignores; read as migStrategy; write migStrategy"},
		},
		"a key in another case": {
			text: "flags:\n  migstrategy: mixed\n", warns: []string{"f:2: flags.migstrategy: migstrategy is spelt migStrategy in the schema; the plugin reads it whatever the case; write migStrategy"},
			lenient: []string{"f:2: flags.migstrategy: migstrategy is spelt migStrategy in the schema; the plugin reads it whatever the case; write migStrategy"},
		},
		"several mistakes": {
			text:    "version: v3\nimex: {channelIDs: [2]}\n",
			strict:  []string{`f:1: version: unknown version the string "v3"; the device plugin knows v1 only; write version: v1`, "f:2: imex.channelIDs: channelIDs can be [] or [0] only, found a list; write [] or [0]"},
			lenient: []string{`f:1: version: unknown version the string "v3"; the device plugin knows v1 only; write version: v1`, "f:2: imex.channelIDs: channelIDs can be [] or [0] only, found a list; write [] or [0]"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, warns, err := Decode("f", []byte(test.text), false)
			var invalid *InvalidError
			errors.As(err, &invalid)
			if invalid == nil {
				invalid = &InvalidError{}
			}
			if diff := cmp.Diff(test.strict, invalid.Lines); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.warns, warns); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			_, warns, err = Decode("f", []byte(test.text), true)
			if err != nil {
				t.Errorf("lenient, and yet %v", err)
			}
			if diff := cmp.Diff(test.lenient, warns); diff != "" {
				t.Errorf("warnings when lenient (-want +got):\n%s", diff)
			}
		})
	}
	if _, _, err := Decode("f", []byte("a: ["), true); err == nil || !strings.HasPrefix(err.Error(), "f:1:") {
		t.Errorf("what is no YAML gives %v", err)
	}
	if _, _, err := Decode("f", []byte("version: v2\nflags: {migStrategy: x}\n"), false); err == nil || !strings.HasPrefix(err.Error(), "f has 2 errors:\n  f:1: ") {
		t.Errorf("two errors read as %v", err)
	}
}

func TestResolvePrecedence(t *testing.T) {
	cfg := deviceconfig.Config{Flags: deviceconfig.Flags{MIGStrategy: "single", Other: map[string]string{
		"plugin.deviceListStrategy": "envvar,cdi-annotations", "gdsEnabled": "true", "plugin.nvidiaCTKPath": "/file", "nvidiaDriverRoot": "/run/driver",
	}}, IMEX: deviceconfig.IMEX{ChannelIDs: []int{0}, Required: true}}
	env := func(set map[string]string) func(string) (string, bool) {
		return func(name string) (string, bool) { v, ok := set[name]; return v, ok }
	}
	for name, test := range map[string]struct {
		given, env map[string]string
		cfg        deviceconfig.Config
		want       func(*Settings)
		err        string
	}{
		"defaults": {want: func(*Settings) {}},
		"the config before the defaults": {cfg: cfg, want: func(s *Settings) {
			s.MIGStrategy, s.ListStrategies, s.GDS, s.CDIHook = "single", []string{"envvar", "cdi-annotations"}, true, "/file"
			s.DriverRoot, s.DevRoot, s.IMEXChannels, s.IMEXRequired = "/run/driver", "/run/driver", []int{0}, true
		}},
		"the environment before the config": {
			env: map[string]string{"MIG_STRATEGY": "mixed", "DEVICE_LIST_STRATEGY": "cdi-cri", "GDS_ENABLED": "false", "NVIDIA_CTK_PATH": "/env", "NVIDIA_DEV_ROOT": "/d", "IMEX_CHANNEL_IDS": "", "IMEX_REQUIRED": "false"},
			cfg: cfg, want: func(s *Settings) {
				s.MIGStrategy, s.ListStrategies, s.CDIHook, s.DriverRoot, s.DevRoot, s.IMEXChannels = "mixed", []string{"cdi-cri"}, "/env", "/run/driver", "/d", []int{0}
			},
		},
		"a flag before the environment": {
			given: map[string]string{"mig-strategy": "none", "imex-channel-ids": "", "device-id-strategy": "index"}, env: map[string]string{"MIG_STRATEGY": "mixed", "DEVICE_ID_STRATEGY": "uuid", "SHARED_DEVICES_ALLOCATION_POLICY": "packed"},
			cfg: deviceconfig.Config{IMEX: cfg.IMEX}, want: func(s *Settings) { s.ByIndex, s.Packed, s.IMEXRequired = true, true, true },
		},
		"the first name of a variable counts": {env: map[string]string{"NVIDIA_CDI_HOOK_PATH": "/a", "NVIDIA_CTK_PATH": "/b"}, want: func(s *Settings) { s.CDIHook = "/a" }},
		"an empty variable counts for the kubelet's socket only": {
			env: map[string]string{"KUBELET_SOCKET": "", "MIG_STRATEGY": "", "CDI_DISABLE_HOOKS": "all", "CDI_FEATURE_FLAGS": "a,b"},
			want: func(s *Settings) {
				s.KubeletSocket, s.CDIDisableHooks, s.CDIFeatureFlags = "", []string{"all"}, []string{"a", "b"}
			},
		},
		"MPS needs a root":         {cfg: deviceconfig.Config{MPS: &deviceconfig.Replicated{}}, err: "using MPS requires --mps-root to be specified (MPS_ROOT, or flags.mpsRoot in the config)"},
		"MPS with a root":          {cfg: deviceconfig.Config{MPS: &deviceconfig.Replicated{}}, env: map[string]string{"MPS_ROOT": "/run/nvidia/mps"}, want: func(s *Settings) { s.MPSRoot = "/run/nvidia/mps" }},
		"an unknown MIG strategy":  {given: map[string]string{"mig-strategy": "bogus"}, err: "invalid --mig-strategy option on the command line: unknown MIG strategy: bogus; known: none, single, mixed"},
		"an unknown list strategy": {env: map[string]string{"DEVICE_LIST_STRATEGY": "envvar,foo"}, err: "invalid --device-list-strategy option in DEVICE_LIST_STRATEGY: invalid strategy: foo; known: envvar, volume-mounts, cdi-annotations, cdi-cri"},
		"an unknown id strategy":   {given: map[string]string{"device-id-strategy": "name"}, err: "invalid --device-id-strategy option on the command line: invalid strategy: name; known: uuid, index"},
		"an unknown policy":        {given: map[string]string{"shared-devices-allocation-policy": "x"}, err: "invalid --shared-devices-allocation-policy option on the command line: invalid policy: x; known: distributed, packed"},
		"a channel that is not 0":  {given: map[string]string{"imex-channel-ids": "2"}, err: "invalid --imex-channel-ids option on the command line: invalid IMEX config: channels 2; known: none, or 0"},
		"what is no boolean":       {env: map[string]string{"GDS_ENABLED": "yes"}, err: `invalid --gds-enabled option in GDS_ENABLED: expected true or false, found "yes"`},
		"an unknown discovery":     {env: map[string]string{"DEVICE_DISCOVERY_STRATEGY": "vfio"}, err: "invalid --device-discovery-strategy option in DEVICE_DISCOVERY_STRATEGY: invalid device discovery strategy: vfio; known: auto, nvml, tegra"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Resolve(test.given, env(test.env), test.cfg)
			if test.err != "" || err != nil {
				if err == nil || err.Error() != test.err {
					t.Fatalf("error %v, want %s", err, test.err)
				}
				return
			}
			want := Settings{
				MIGStrategy: "none", FailOnInitError: true, DriverRoot: "/", DevRoot: "/", CDIPrefix: "cdi.k8s.io/", CDIHook: "/usr/bin/nvidia-ctk",
				ContainerRoot: "/driver-root", DiscoveryStrategy: "auto", KubeletSocket: "/var/lib/kubelet/device-plugins/kubelet.sock",
			}
			test.want(&want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
		})
	}
}

// Every flag of a config file is one that the decoder knows.
func TestFlagsAreThoseOfTheSchema(t *testing.T) {
	for _, f := range Flags() {
		if f.Path == "" {
			continue
		}
		value := map[Kind]string{Text: "x", Bool: "true", List: "envvar"}[f.Kind]
		switch f.Name {
		case "mig-strategy":
			value = "single"
		case "device-id-strategy":
			value = "index"
		case "shared-devices-allocation-policy":
			value = "packed"
		case "device-discovery-strategy":
			value = "nvml"
		}
		text := "flags:\n"
		indent := "  "
		path := strings.Split(f.Path, ".")
		for _, p := range path[:len(path)-1] {
			text += indent + p + ":\n"
			indent += "  "
		}
		text += indent + path[len(path)-1] + ": " + value + "\n"
		cfg, warns, err := Decode("f", []byte(text), false)
		if err != nil || len(warns) > 0 {
			t.Errorf("%s: %v %v", f.Path, err, warns)
		}
		if got, from := f.value(nil, os.LookupEnv, cfg); got != value || from != " in the config" {
			t.Errorf("%s reads %q%s from a config that says %q", f.Path, got, from, value)
		}
	}
}

func TestWatchFilesNoticesASwap(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "configs")
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	changes, done := make(chan struct{}, 100), make(chan struct{})
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(done)
		Source{Dir: dir}.WatchFiles(ctx, slog.New(slog.DiscardHandler), func() { changes <- struct{}{} })
	}()
	defer func() { cancel(); <-done }()
	for i := range 3 { // again until the watch has begun; then each swap is noticed
		tmp := filepath.Join(dir, "..data_tmp")
		for noticed := false; !noticed; {
			if err := errors.Join(os.Symlink(fmt.Sprint("..v", i), tmp), os.Rename(tmp, filepath.Join(dir, "..data"))); err != nil {
				t.Fatal(err)
			}
			select {
			case <-changes:
				noticed = true
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
				t.Fatal("no change was noticed")
			}
		}
	}
}

// An API server that ends watches, fails and answers for another node.
func TestWatchNode(t *testing.T) {
	type step struct {
		code int
		body []any
	}
	object := func(label string) any {
		return map[string]any{
			"metadata": map[string]any{"name": "here", "labels": map[string]string{"l": label}, "resourceVersion": "7"},
			"status":   map[string]any{"nodeInfo": map[string]any{"kubeletVersion": "v1.37.2", "containerRuntimeVersion": "containerd://2.1.4"}},
		}
	}
	list := func(items ...any) any {
		return map[string]any{"metadata": map[string]any{"resourceVersion": "7"}, "items": items}
	}
	other := map[string]any{"metadata": map[string]any{"name": "there"}}
	steps := []step{
		{403, []any{map[string]any{"message": "nodes is forbidden"}}},
		{200, []any{list()}},
		{200, []any{list(object("a"))}},
		{200, []any{
			map[string]any{"type": "BOOKMARK", "object": object("x")},
			map[string]any{"type": "MODIFIED", "object": object("b")},
			map[string]any{"type": "MODIFIED", "object": other},
			map[string]any{"type": "DELETED", "object": object("y")},
			map[string]any{"type": "ERROR", "object": map[string]any{"message": "too old resource version"}},
		}},
		{200, []any{list(object("c"))}},
		{200, []any{map[string]any{"type": "MODIFIED", "object": object("d")}}}, // and the watch ends
		{200, []any{list(object("e"))}},
	}
	var queries []string
	next := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if next >= len(steps) {
			<-q.Context().Done()
			return
		}
		queries = append(queries, q.URL.RawQuery)
		s := steps[next]
		next++
		w.WriteHeader(s.code)
		for _, b := range s.body {
			_ = json.NewEncoder(w).Encode(b)
		}
	}))
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer server.Close()
	defer cancel()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	var log strings.Builder
	api := API{HTTP: client, Server: server.URL + "/", Node: "here", Log: slog.New(slog.NewTextHandler(&log, nil)), pause: time.Millisecond}
	var seen []string
	api.Watch(ctx, func(n Node) {
		seen = append(seen, n.Labels["l"])
		if n.Kubelet != "v1.37.2" || n.Runtime != "containerd://2.1.4" || n.Name != "here" {
			t.Errorf("saw %+v", n)
		}
		if n.Labels["l"] == "e" {
			cancel()
		}
	})
	if diff := cmp.Diff([]string{"a", "b", "c", "d", "e"}, seen); diff != "" {
		t.Errorf("seen (-want +got):\n%s", diff)
	}
	for _, want := range []string{"nodes is forbidden", "there is no node here; is NODE_NAME", "too old resource version"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %q:\n%s", want, &log)
		}
	}
	if !strings.Contains(queries[3], "resourceVersion=7") || !strings.Contains(queries[3], "watch=true") || !strings.Contains(queries[3], "fieldSelector=metadata.name%3Dhere") {
		t.Errorf("watched with %s", queries[3])
	}
}
