package catalog

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kerfdev/kerf/internal/model"
)

func TestAllocatableWithoutSettingsIsTheBooks(t *testing.T) {
	for _, region := range []string{"us-east-1", "us-central1", "eastus", "cn-beijing"} {
		for _, it := range load(t, region).Types {
			if diff := cmp.Diff(it.Allocatable, Allocatable(it, model.Kubelet{})); diff != "" {
				t.Errorf("%s: -want +got\n%s", it.Name, diff)
			}
			// Settings that repeat the defaults change nothing either.
			k := model.Kubelet{MaxPods: it.Capacity[model.Pods], SystemReserved: model.Resources{model.CPU: 0}}
			if diff := cmp.Diff(it.Allocatable, Allocatable(it, k)); diff != "" {
				t.Errorf("%s: defaults repeated: -want +got\n%s", it.Name, diff)
			}
		}
	}
}

func TestAllocatable(t *testing.T) {
	// g4dn.xlarge: 15155 MiB reach the node; 255 + 11*29 = 574 MiB and 100 MiB are kept.
	it := typeOf(t, load(t, "us-east-1"), "g4dn.xlarge")
	tests := map[string]struct {
		kubelet model.Kubelet
		name    string
		want    int64
	}{
		"maxPods":                                    {model.Kubelet{MaxPods: 110}, model.Pods, 110},
		"maxPods leaves the memory as it is":         {model.Kubelet{MaxPods: 110}, model.Memory, 14481 * mi},
		"podsPerCore lowers":                         {model.Kubelet{PodsPerCore: 5}, model.Pods, 20},
		"podsPerCore does not raise":                 {model.Kubelet{PodsPerCore: 50}, model.Pods, 29},
		"podsPerCore lowers maxPods":                 {model.Kubelet{MaxPods: 110, PodsPerCore: 10}, model.Pods, 40},
		"kubeReserved cpu replaces the steps":        {model.Kubelet{KubeReserved: model.Resources{model.CPU: 200}}, model.CPU, 3800},
		"kubeReserved memory keeps eviction":         {model.Kubelet{KubeReserved: model.Resources{model.Memory: gi}}, model.Memory, (15155 - 1024 - 100) * mi},
		"kubeReserved disk keeps eviction":           {model.Kubelet{KubeReserved: model.Resources{model.EphemeralStorage: 3 * gi}}, model.EphemeralStorage, 15 * gi},
		"systemReserved comes on top":                {model.Kubelet{SystemReserved: model.Resources{model.CPU: 100, model.Memory: 100 * mi}}, model.CPU, 3820},
		"systemReserved memory too":                  {model.Kubelet{SystemReserved: model.Resources{model.Memory: 100 * mi}}, model.Memory, 14381 * mi},
		"evictionHard as a quantity":                 {model.Kubelet{EvictionHard: map[string]string{"memory.available": "200Mi"}}, model.Memory, 14381 * mi},
		"evictionHard as a percentage of the node":   {model.Kubelet{EvictionHard: map[string]string{"memory.available": "10%"}}, model.Memory, (15155-574)*mi - 1589116928},
		"100 % turns eviction off":                   {model.Kubelet{EvictionHard: map[string]string{"memory.available": "100%"}}, model.Memory, 14581 * mi},
		"a larger disk":                              {model.Kubelet{RootBytes: 200 * gi}, model.EphemeralStorage, 179 * gi},
		"local disks":                                {model.Kubelet{RootBytes: 200 * gi, LocalDisks: true}, model.EphemeralStorage, 125e9*9/10 - gi},
		"eviction of a larger disk":                  {model.Kubelet{RootBytes: 200 * gi, EvictionHard: map[string]string{"nodefs.available": "20%"}}, model.EphemeralStorage, 159 * gi},
		"nodefs.available":                           {model.Kubelet{EvictionHard: map[string]string{"nodefs.available": "20%"}}, model.EphemeralStorage, 15 * gi},
		"another signal does not count":              {model.Kubelet{EvictionHard: map[string]string{"pid.available": "10%"}}, model.Memory, 14481 * mi},
		"a value that is neither leaves the default": {model.Kubelet{EvictionHard: map[string]string{"memory.available": "lots"}}, model.Memory, 14481 * mi},
		"never below zero":                           {model.Kubelet{SystemReserved: model.Resources{model.CPU: 99999}}, model.CPU, 0},
		"GPUs stay":                                  {model.Kubelet{MaxPods: 1, SystemReserved: model.Resources{model.CPU: 100}}, model.NvidiaGPU, 1},
	}
	before := it.Allocatable.Clone()
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Allocatable(it, tt.kubelet)[tt.name]; got != tt.want {
				t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
			}
		})
	}
	if diff := cmp.Diff(before, it.Allocatable); diff != "" {
		t.Errorf("the type was written to: -before +after\n%s", diff)
	}
}

func TestOtherCloudsKeep(t *testing.T) {
	tests := map[string]struct {
		region, name string
		cpu, memory  int64
	}{
		// 16384 MiB less 7 %, then 1024 + 819 + 819 MiB and 100 MiB.
		"Google Cloud": {"us-central1", "g2-standard-4", 3820, (16384 - 1147 - 1024 - 819 - 819 - 100) * mi},
		// 28672 MiB less 7.5 %, then 1024 + 819 + 819 + 737 MiB and 750 MiB.
		"Azure": {"eastus", "Standard_NC4as_T4_v3", 3860, (28672 - 2151 - 1024 - 819 - 819 - 737 - 750) * mi},
		// 15360 MiB less 7.5 %, then 255 + 11*110 + 200 MiB.
		"Alibaba Cloud": {"cn-beijing", "ecs.gn6i-c4g1.xlarge", 3920, (15360 - 1152 - 255 - 1210 - 200) * mi},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a := typeOf(t, load(t, tt.region), tt.name).Allocatable
			if a[model.CPU] != tt.cpu || a[model.Memory] != tt.memory || a[model.Pods] != 110 {
				t.Errorf("cpu %d, memory %d, pods %d; want %d, %d, 110", a[model.CPU], a[model.Memory], a[model.Pods], tt.cpu, tt.memory)
			}
		})
	}
}

func TestQuantity(t *testing.T) {
	tests := map[string]struct {
		text string
		want int64
		ok   bool
	}{
		"bytes":            {"1000", 1000, true},
		"binary":           {"1.5Gi", 3 << 29, true},
		"decimal":          {"2M", 2000000, true},
		"exponent":         {"1e3", 1000, true},
		"thousandths":      {"1500m", 2, true},
		"negative":         {"-1", 0, false},
		"a word":           {"lots", 0, false},
		"empty":            {"", 0, false},
		"beyond all disks": {"9000E", 0, false},
		"not a number":     {"NaN", 0, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got, ok := quantity(tt.text); got != tt.want || ok != tt.ok {
				t.Errorf("quantity(%q) = %d, %v; want %d, %v", tt.text, got, ok, tt.want, tt.ok)
			}
		})
	}
}
