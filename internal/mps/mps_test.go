package mps

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kerfdev/kerf/api/deviceconfig"
	"github.com/kerfdev/kerf/internal/gpu"
	"github.com/kerfdev/kerf/internal/nvml"
)

func plans(t *testing.T, recording string, resources ...deviceconfig.Resource) []Plan {
	t.Helper()
	inv, err := nvml.Recording(recording)
	if err != nil {
		t.Fatal(err)
	}
	served, err := gpu.Serve(inv.Node(), deviceconfig.Config{MPS: &deviceconfig.Replicated{Resources: resources}})
	if err != nil {
		t.Fatal(err)
	}
	return Plans(inv.Node(), served)
}

func TestLimits(t *testing.T) {
	for name, test := range map[string]struct {
		recording string
		resources []deviceconfig.Resource
		want      map[string][]string // commands by resource
		warnings  int
	}{
		"ten clients of each GPU": {
			recording: "mock", resources: []deviceconfig.Resource{{Name: "nvidia.com/gpu", Replicas: 10}},
			want: map[string][]string{"nvidia.com/gpu": {
				"set_default_device_pinned_mem_limit 0 4096M", "set_default_device_pinned_mem_limit 1 4096M", "set_default_active_thread_percentage 10",
			}},
		},
		"each GPU its own number": {
			recording: "mock", resources: []deviceconfig.Resource{
				{Name: "nvidia.com/gpu", Replicas: 4, Devices: deviceconfig.Devices{List: []string{"0"}}},
				{Name: "nvidia.com/gpu", Replicas: 3, Devices: deviceconfig.Devices{List: []string{"1"}}},
			},
			want: map[string][]string{"nvidia.com/gpu": {
				"set_default_device_pinned_mem_limit 0 10240M", "set_default_device_pinned_mem_limit 1 13653M", "set_default_active_thread_percentage 33",
			}},
		},
		"a daemon for each name": {
			recording: "mock", resources: []deviceconfig.Resource{
				{Name: "nvidia.com/gpu", Rename: "nvidia.com/gpu.large", Replicas: 2, Devices: deviceconfig.Devices{List: []string{"0"}}},
				{Name: "nvidia.com/gpu", Rename: "nvidia.com/gpu.small", Replicas: 48, Devices: deviceconfig.Devices{List: []string{"1"}}},
			},
			want: map[string][]string{
				"nvidia.com/gpu.large": {"set_default_device_pinned_mem_limit 0 20480M", "set_default_active_thread_percentage 50"},
				"nvidia.com/gpu.small": {"set_default_device_pinned_mem_limit 1 853M", "set_default_active_thread_percentage 2"},
			},
		},
		"a whole GPU beside it has no daemon": {
			recording: "mock", resources: []deviceconfig.Resource{{Name: "nvidia.com/gpu", Replicas: 2, Devices: deviceconfig.Devices{Count: 1}}},
			want: map[string][]string{"nvidia.com/gpu": {"set_default_device_pinned_mem_limit 0 20480M", "set_default_active_thread_percentage 50"}},
		},
		"memory that is not known": {
			recording: "gb10", resources: []deviceconfig.Resource{{Name: "nvidia.com/gpu", Replicas: 4}},
			want: map[string][]string{"nvidia.com/gpu": {"set_default_active_thread_percentage 25"}}, warnings: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, warnings := map[string][]string{}, 0
			for _, p := range plans(t, test.recording, test.resources...) {
				commands, w := p.Limits()
				got[p.Resource] = commands
				warnings += len(w)
			}
			if diff := cmp.Diff(test.want, got); diff != "" || warnings != test.warnings {
				t.Errorf("%d warnings, commands (-want +got):\n%s", warnings, diff)
			}
		})
	}
}

func TestTimeSlicingNeedsNoDaemon(t *testing.T) {
	inv, err := nvml.Recording("t4")
	if err != nil {
		t.Fatal(err)
	}
	cfg := deviceconfig.Config{TimeSlicing: &deviceconfig.Replicated{Resources: []deviceconfig.Resource{{Name: "nvidia.com/gpu", Replicas: 4}}}}
	served, err := gpu.Serve(inv.Node(), cfg)
	if p := Plans(inv.Node(), served); err != nil || p != nil {
		t.Errorf("%v, %v", p, err)
	}
}

// programs are shell scripts in the place of the driver's: nvidia-smi keeps each
// GPU's mode in a file; the control daemon is a file beside its pipe.
func programs(t *testing.T) (Exec, string) {
	t.Helper()
	dir := t.TempDir()
	for name, script := range map[string]string{
		"nvidia-smi": `[ -e "$0.broken" ] && { echo "Unable to set the compute mode" >&2; exit 3; }
echo "$4" >"$0.$2"`,
		"nvidia-cuda-mps-control": `d=$CUDA_MPS_PIPE_DIRECTORY/daemon
if [ "$1" = -d ]; then
  [ -e "$0.broken" ] && { echo "An instance of this daemon is already running" >&2; exit 1; }
  echo started >>"$0.log"; : >"$d"; exit; fi
[ -e "$d" ] || { echo "Cannot find MPS control daemon process" >&2; exit 1; }
read -r line; echo "$line" >>"$0.log"
case $line in quit) rm "$d";; get_*) echo 10.0;; esac`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return Exec{Dir: dir}, dir
}

func text(t *testing.T, parts ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(parts...))
	if errors.Is(err, os.ErrNotExist) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

func exists(parts ...string) bool {
	_, err := os.Stat(filepath.Join(parts...))
	return err == nil
}

// The whole life of a daemon with real processes.
func TestSupervisor(t *testing.T) {
	runner, dir := programs(t)
	root := t.TempDir()
	s := NewSupervisor(root, runner, slog.New(slog.DiscardHandler))
	ten := plans(t, "mock", deviceconfig.Resource{Name: "nvidia.com/gpu", Replicas: 10})
	first := ten[0].GPUs[0].UUID
	if err := s.Apply(t.Context(), ten); err != nil {
		t.Fatal(err)
	}
	want := "started\nset_default_device_pinned_mem_limit 0 4096M\nset_default_device_pinned_mem_limit 1 4096M\n" +
		"set_default_active_thread_percentage 10\nget_default_active_thread_percentage"
	if diff := cmp.Diff(want, text(t, dir, "nvidia-cuda-mps-control.log")); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
	if mode := text(t, dir, "nvidia-smi."+first); mode != "EXCLUSIVE_PROCESS" || s.Ready() != nil {
		t.Errorf("mode %s, ready: %v", mode, s.Ready())
	}
	if !exists(root, ".ready") || !exists(root, "nvidia.com/gpu/.started") || !exists(root, "nvidia.com/gpu/log") {
		t.Error("the files by which others see that it runs are missing")
	}
	if shm, err := os.Stat(filepath.Join(root, "shm")); err != nil || shm.Mode() != os.ModeDir|os.ModeSticky|0o777 {
		t.Errorf("clients of any user are to share memory: %v, %v", shm, err)
	}
	started := func() int { return strings.Count(text(t, dir, "nvidia-cuda-mps-control.log"), "started") }
	if err := s.Apply(t.Context(), ten); err != nil || started() != 1 {
		t.Errorf("the same plans: %v, started %d times", err, started())
	}
	five := plans(t, "mock", deviceconfig.Resource{Name: "nvidia.com/gpu", Replicas: 5})
	if err := s.Apply(t.Context(), five); err != nil || started() != 2 || !strings.HasSuffix(text(t, dir, "nvidia-cuda-mps-control.log"), "20\nget_default_active_thread_percentage") {
		t.Errorf("other limits: %v, started %d times", err, started())
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if mode := text(t, dir, "nvidia-smi."+first); mode != "DEFAULT" || exists(root, ".ready") || exists(root, "nvidia.com/gpu/.started") || exists(root, "nvidia.com/gpu/pipe/daemon") {
		t.Errorf("mode %s; something is left of the daemon", mode)
	}
}

// A daemon that cannot be had leaves the GPUs as they were.
func TestSupervisorUndoesWhatFails(t *testing.T) {
	runner, dir := programs(t)
	if err := os.WriteFile(filepath.Join(dir, "nvidia-cuda-mps-control.broken"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	s := NewSupervisor(root, runner, slog.New(slog.DiscardHandler))
	ten := plans(t, "mock", deviceconfig.Resource{Name: "nvidia.com/gpu", Replicas: 10})
	err := s.Apply(t.Context(), ten)
	want := "start the MPS daemon of nvidia.com/gpu: nvidia-cuda-mps-control: exit status 1: An instance of this daemon is already running"
	if err == nil || err.Error() != want || s.Ready() == nil {
		t.Errorf("error %v, want %s; ready: %v", err, want, s.Ready())
	}
	if mode := text(t, dir, "nvidia-smi."+ten[0].GPUs[0].UUID); mode != "DEFAULT" || exists(root, ".ready") {
		t.Errorf("mode %s", mode)
	}
	if err := os.Remove(filepath.Join(dir, "nvidia-cuda-mps-control.broken")); err != nil {
		t.Fatal(err)
	}
	s.look(t.Context())
	if s.Ready() != nil || !exists(root, ".ready") {
		t.Errorf("it is not tried again: %v", s.Ready())
	}
}

func TestSupervisorNeedsARoot(t *testing.T) {
	s := NewSupervisor("", Exec{}, slog.New(slog.DiscardHandler))
	err := s.Apply(t.Context(), plans(t, "t4", deviceconfig.Resource{Name: "nvidia.com/gpu", Replicas: 2}))
	if err == nil || !strings.Contains(err.Error(), "--mps-root") {
		t.Errorf("error %v", err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestMissingProgram(t *testing.T) {
	_, err := Exec{Dir: t.TempDir()}.Run(t.Context(), Command{Path: smi})
	if err == nil || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

// dying answers once after each start, and then no more.
type dying struct {
	mu             sync.Mutex
	alive          bool
	starts, looked int
}

func (r *dying) Run(_ context.Context, c Command) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case len(c.Args) > 0 && c.Args[0] == "-d":
		r.starts++
		r.alive = true
	case strings.HasPrefix(c.Stdin, "get_"):
		r.looked++
		if !r.alive {
			return "", errors.New("no daemon")
		}
		r.alive = false
		return "10", nil
	}
	return "", nil
}

// A daemon that died is started anew within one round.
func TestRunRestartsADaemon(t *testing.T) {
	root := t.TempDir()
	plan := plans(t, "t4", deviceconfig.Resource{Name: "nvidia.com/gpu", Replicas: 2})
	synctest.Test(t, func(t *testing.T) {
		r := &dying{}
		s := NewSupervisor(root, r, slog.New(slog.DiscardHandler))
		if err := s.Apply(t.Context(), plan); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { s.Run(ctx); close(done) }()
		time.Sleep(every + time.Second)
		synctest.Wait()
		if r.starts != 2 || s.Ready() != nil {
			t.Errorf("%d starts, ready: %v", r.starts, s.Ready())
		}
		cancel()
		<-done
	})
}
