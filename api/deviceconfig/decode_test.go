package deviceconfig

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kerfdev/kerf/api/manifest"
)

// tree reads JSON into a manifest, lines and repeated keys kept.
func tree(text string) (*manifest.Node, error) {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	line := func() int { return 1 + strings.Count(text[:dec.InputOffset()], "\n") }
	n, err := value(dec, line)
	if err == nil && dec.More() {
		return nil, fmt.Errorf("more than one value")
	}
	return n, err
}

func value(dec *json.Decoder, line func() int) (*manifest.Node, error) {
	tok, err := dec.Token()
	if err != nil {
		return nil, err
	}
	n := &manifest.Node{Line: line()}
	switch v := tok.(type) {
	case json.Delim:
		if v == '[' {
			return n, list(dec, n, line)
		}
		return n, object(dec, n, line)
	case string:
		n.Kind, n.Text = manifest.String, v
	case json.Number:
		n.Kind, n.Text = manifest.Number, v.String()
	case bool:
		n.Kind, n.Text = manifest.Bool, fmt.Sprint(v)
	}
	return n, nil
}

func list(dec *json.Decoder, n *manifest.Node, line func() int) error {
	n.Kind = manifest.List
	for dec.More() {
		item, err := value(dec, line)
		if err != nil {
			return err
		}
		n.Items = append(n.Items, item)
	}
	_, err := dec.Token()
	return err
}

func object(dec *json.Decoder, n *manifest.Node, line func() int) error {
	n.Kind = manifest.Map
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return err
		}
		f := manifest.Field{Name: name.(string), Line: line()}
		if f.Value, err = value(dec, line); err != nil {
			return err
		}
		n.Fields = append(n.Fields, f)
	}
	_, err := dec.Token()
	return err
}

func mustTree(t *testing.T, text string) *manifest.Node {
	t.Helper()
	n, err := tree(text)
	if err != nil {
		t.Fatalf("bad test input %s: %v", text, err)
	}
	return n
}

// brief writes problems one a line: "line severity field: text -> fix".
func brief(problems []Problem) []string {
	var out []string
	for _, p := range problems {
		kind := "error"
		if p.Warning {
			kind = "warning"
		}
		s := fmt.Sprintf("%d %s %s: %s", p.Line, kind, p.Field, p.Text)
		if p.Fix != "" {
			s += " -> " + p.Fix
		}
		out = append(out, s)
	}
	return out
}

func all(replicas int64) *Replicated {
	return &Replicated{Resources: []Resource{{Name: "nvidia.com/gpu", Replicas: replicas}}}
}

// The configs that were given to device plugin v0.20.0, with what Kerf makes of
// each; where the plugin exits, there must be an error.
func TestDecodeRecordedConfigs(t *testing.T) {
	for name, test := range map[string]struct {
		in   string
		want Config
		says []string
	}{
		"no sharing": {
			in:   `{"version":"v1","flags":{"migStrategy":"none"}}`,
			want: Config{Flags: Flags{MIGStrategy: "none"}},
		},
		"time-slicing keeps the name": {
			in:   `{"version":"v1","sharing":{"timeSlicing":{"renameByDefault":false,"resources":[{"name":"nvidia.com/gpu","replicas":10}]}}}`,
			want: Config{TimeSlicing: all(10)},
		},
		"renamed by default, one slice a container": {
			in: `{"version":"v1","sharing":{"timeSlicing":{"renameByDefault":true,"failRequestsGreaterThanOne":true,"resources":[{"name":"nvidia.com/gpu","replicas":10}]}}}`,
			want: Config{TimeSlicing: &Replicated{
				RenameByDefault: true, FailRequestsGreaterThanOne: true,
				Resources: []Resource{{Name: "nvidia.com/gpu", Rename: "nvidia.com/gpu.shared", Replicas: 10}},
			}},
		},
		"devices and rename are dropped by the plugin and honoured here": {
			in: "{\"version\":\"v1\",\"sharing\":{\"timeSlicing\":{\"resources\":[{\"name\":\"nvidia.com/gpu\",\n\"rename\":\"nvidia.com/gpu.small\",\n\"devices\":[0],\"replicas\":4}]}}}",
			want: Config{TimeSlicing: &Replicated{Resources: []Resource{{
				Name: "nvidia.com/gpu", Rename: "nvidia.com/gpu.small", Devices: Devices{List: []string{"0"}}, Replicas: 4,
			}}}},
			says: []string{
				"3 warning sharing.timeSlicing.resources[0].devices: device plugin v0.20.0 drops devices and shares every GPU; only Kerf's node agent honours it",
				"2 warning sharing.timeSlicing.resources[0].rename: device plugin v0.20.0 drops rename; only Kerf's node agent honours it",
			},
		},
		"a resource listed twice is the union": {
			in: "{\"version\":\"v1\",\"sharing\":{\"timeSlicing\":{\"resources\":[{\"name\":\"nvidia.com/gpu\",\"replicas\":4},\n{\"name\":\"nvidia.com/gpu\",\"replicas\":2}]}}}",
			want: Config{TimeSlicing: &Replicated{Resources: []Resource{
				{Name: "nvidia.com/gpu", Replicas: 4}, {Name: "nvidia.com/gpu", Replicas: 2},
			}}},
			says: []string{"2 warning sharing.timeSlicing.resources[1]: nvidia.com/gpu is listed twice; the larger number of replicas counts, 4 -> remove one of the entries"},
		},
		"no version and a name without prefix": {
			in:   `{"sharing":{"timeSlicing":{"resources":[{"name":"gpu","replicas":4}]}}}`,
			want: Config{TimeSlicing: all(4)},
		},
		"an empty file": {in: `null`},
		"a misspelt section, which the plugin passes over in silence": {
			in:   "{\"version\":\"v1\",\"sharing\":{\n\"timeSlicng\":{\"resources\":[{\"name\":\"nvidia.com/gpu\",\"replicas\":4}]}}}",
			want: Config{TimeSlicing: all(4)},
			says: []string{"2 error sharing.timeSlicng: unknown key timeSlicng, which the plugin ignores; read as timeSlicing -> write timeSlicing"},
		},
		"a resource that the node may not have": {
			in:   `{"version":"v1","sharing":{"timeSlicing":{"resources":[{"name":"nvidia.com/mig-1g.5gb","replicas":4}]}}}`,
			want: Config{TimeSlicing: &Replicated{Resources: []Resource{{Name: "nvidia.com/mig-1g.5gb", Replicas: 4}}}},
		},
		"a section in the wrong case and replica for replicas": {
			in:   "{\"version\":\"v1\",\"sharing\":{\"timeslicing\":{\"resources\":[{\"name\":\"nvidia.com/gpu\",\n\"replica\":4}]}}}",
			want: Config{TimeSlicing: all(4)},
			says: []string{
				"1 warning sharing.timeslicing: timeslicing is spelt timeSlicing in the schema; the plugin reads it whatever the case -> write timeSlicing",
				"2 error sharing.timeSlicing.resources[0].replica: unknown key replica, which the plugin ignores; read as replicas -> write replicas",
			},
		},
		"one replica": {
			in:   `{"version":"v1","sharing":{"timeSlicing":{"resources":[{"name":"nvidia.com/gpu","replicas":1}]}}}`,
			says: []string{"1 error sharing.timeSlicing.resources[0].replicas: 1 replicas: the plugin refuses fewer than 2 -> ask for 2 or more, or remove the entry to share nothing"},
		},
		"a number in quotes": {
			in:   `{"version":"v1","sharing":{"timeSlicing":{"resources":[{"name":"nvidia.com/gpu","replicas":"10"}]}}}`,
			want: Config{TimeSlicing: all(10)},
			says: []string{`1 error sharing.timeSlicing.resources[0].replicas: expected a number, found the string "10" -> write 10 without quotes`},
		},
		"an empty section": {
			in:   `{"version":"v1","sharing":{"timeSlicing":{}}}`,
			says: []string{"1 error sharing.timeSlicing: no resources are listed, which the plugin refuses -> list resources under it, or remove sharing.timeSlicing"},
		},
		"another vendor's resource": {
			in:   `{"version":"v1","sharing":{"timeSlicing":{"resources":[{"name":"amd.com/gpu","replicas":4}]}}}`,
			says: []string{"1 error sharing.timeSlicing.resources[0].name: amd.com/gpu is not NVIDIA's; the plugin advertises names under nvidia.com/ only -> use a name under nvidia.com/, or remove the entry"},
		},
		"an unknown version": {
			in:   `{"version":"v2"}`,
			says: []string{`1 error version: unknown version the string "v2"; the device plugin knows v1 only -> write version: v1`},
		},
		"mps refuses more than one by default": {
			in: `{"version":"v1","sharing":{"mps":{"resources":[{"name":"nvidia.com/gpu","replicas":10}]}}}`,
			want: Config{MPS: &Replicated{
				FailRequestsGreaterThanOne: true,
				Resources:                  []Resource{{Name: "nvidia.com/gpu", Replicas: 10}},
			}},
		},
		"mps wins over time-slicing": {
			in:   "{\"version\":\"v1\",\"sharing\":{\"mps\":{\"failRequestsGreaterThanOne\":false,\"resources\":[{\"name\":\"nvidia.com/gpu\",\"replicas\":3}]},\n\"timeSlicing\":{\"resources\":[{\"name\":\"nvidia.com/gpu\",\"replicas\":4}]}}}",
			want: Config{TimeSlicing: all(4), MPS: all(3)},
			says: []string{"2 error sharing.timeSlicing: timeSlicing and mps are both set: mps wins and timeSlicing is ignored -> remove sharing.timeSlicing or sharing.mps"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, problems := Decode(mustTree(t, test.in))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("config (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.says, brief(problems)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeMistakes(t *testing.T) {
	for name, test := range map[string]struct {
		in   string
		want Config
		says []string
	}{
		"renameByDefault under flags goes where it belongs": {
			in: "{\"flags\":{\n\"renameByDefault\":true},\"sharing\":{\"timeSlicing\":{\"resources\":[{\"name\":\"gpu\",\"replicas\":2}]}}}",
			want: Config{TimeSlicing: &Replicated{
				RenameByDefault: true,
				Resources:       []Resource{{Name: "nvidia.com/gpu", Rename: "nvidia.com/gpu.shared", Replicas: 2}},
			}},
			says: []string{"2 error flags.renameByDefault: the plugin ignores renameByDefault here; it belongs at sharing.timeSlicing.renameByDefault -> move it to sharing.timeSlicing.renameByDefault"},
		},
		"failRequestsGreaterThanOne in an entry counts for mps when only that is set": {
			in:   `{"sharing":{"mps":{"resources":[{"name":"gpu","replicas":2,"failRequestsGreaterThanOne":false}]}}}`,
			want: Config{MPS: all(2)},
			says: []string{"1 error sharing.mps.resources[0].failRequestsGreaterThanOne: the plugin ignores failRequestsGreaterThanOne here; it belongs at sharing.mps.failRequestsGreaterThanOne -> move it to sharing.mps.failRequestsGreaterThanOne"},
		},
		"timeSlicing at the top": {
			in:   `{"timeSlicing":{"resources":[{"name":"gpu","replicas":2}]}}`,
			want: Config{TimeSlicing: all(2)},
			says: []string{"1 error timeSlicing: the plugin ignores timeSlicing here; it belongs at sharing.timeSlicing -> move it to sharing.timeSlicing"},
		},
		"a plugin flag one level too high": {
			in:   `{"flags":{"passDeviceSpecs":true,"migStrategy":"single"}}`,
			want: Config{Flags: Flags{MIGStrategy: "single", Other: map[string]string{"plugin.passDeviceSpecs": "true"}}},
			says: []string{"1 error flags.passDeviceSpecs: the plugin ignores passDeviceSpecs here; it belongs at flags.plugin.passDeviceSpecs -> move it to flags.plugin.passDeviceSpecs"},
		},
		"inside a section the case of keys matters": {
			in:   `{"sharing":{"timeSlicing":{"FailRequestsGreaterThanOne":true,"resources":[{"name":"gpu","replicas":2}]}}}`,
			want: Config{TimeSlicing: &Replicated{FailRequestsGreaterThanOne: true, Resources: all(2).Resources}},
			says: []string{"1 error sharing.timeSlicing.FailRequestsGreaterThanOne: unknown key FailRequestsGreaterThanOne, which the plugin ignores; read as failRequestsGreaterThanOne -> write failRequestsGreaterThanOne"},
		},
		"a key like none known": {
			in:   `{"sharing":{"virtualization":true}}`,
			says: []string{"1 error sharing.virtualization: unknown key virtualization, which the plugin ignores; known here: timeSlicing, mps -> remove it"},
		},
		"a key for other readers": {
			in:   `{"x-owner":"team-a"}`,
			says: []string{"1 warning x-owner: the plugin ignores x-owner"},
		},
		"a key given twice": {
			in:   "{\"sharing\":{\"timeSlicing\":{\"resources\":[{\"name\":\"gpu\",\n\"replicas\":2,\n\"replicas\":3}]}}}",
			want: Config{TimeSlicing: all(3)},
			says: []string{"3 warning sharing.timeSlicing.resources[0].replicas: sharing.timeSlicing.resources[0].replicas is given twice, on lines 2 and 3; the second one counts -> remove line 2 or line 3"},
		},
		"a section given in two cases": {
			in: "{\"sharing\":{\"mps\":null,\n\"MPS\":null}}",
			says: []string{
				"2 warning sharing.MPS: MPS is spelt mps in the schema; the plugin reads it whatever the case -> write mps",
				"2 error sharing.mps: mps is given twice, as mps and as MPS -> keep one of them",
			},
		},
		"timeSlicing without a value": {
			in:   `{"sharing":{"timeSlicing":null}}`,
			says: []string{"1 error sharing.timeSlicing: no resources are listed, which the plugin refuses -> list resources under it, or remove sharing.timeSlicing"},
		},
		"a MIG profile with its plus sign": {
			in:   `{"sharing":{"timeSlicing":{"resources":[{"name":"nvidia.com/mig-1g.5gb+me","replicas":2}]}}}`,
			want: Config{TimeSlicing: &Replicated{Resources: []Resource{{Name: "nvidia.com/mig-1g.5gb.me", Replicas: 2}}}},
			says: []string{`1 error sharing.timeSlicing.resources[0].name: "nvidia.com/mig-1g.5gb+me" is no resource name: lower-case letters, digits, - and . only -> write nvidia.com/mig-1g.5gb.me`},
		},
		"mps with migStrategy mixed": {
			in:   `{"flags":{"migStrategy":"mixed"},"sharing":{"mps":{"resources":[{"name":"gpu","replicas":2}]}}}`,
			want: Config{Flags: Flags{MIGStrategy: "mixed"}, MPS: &Replicated{FailRequestsGreaterThanOne: true, Resources: all(2).Resources}},
			says: []string{"1 error sharing.mps: the plugin refuses mps together with migStrategy mixed -> set flags.migStrategy to none or single, or share with timeSlicing"},
		},
		"a MIG strategy in capitals": {
			in:   `{"flags":{"migStrategy":"Mixed"}}`,
			want: Config{Flags: Flags{MIGStrategy: "mixed"}},
			says: []string{`1 error flags.migStrategy: unknown value the string "Mixed"; known: none, single, mixed -> write mixed`},
		},
		"resources by pattern are dropped": {
			in:   `{"resources":{"gpus":[{"pattern":"*","name":"gpu"}],"mig":[]}}`,
			says: []string{"1 warning resources: the plugin reads resources and then drops it: names by pattern are not supported yet -> remove it"},
		},
		"an IMEX channel other than 0": {
			in:   `{"imex":{"channelIDs":[2]}}`,
			says: []string{"1 error imex.channelIDs: channelIDs can be [] or [0] only, found a list -> write [] or [0]"},
		},
		"a list where a map belongs": {
			in:   `{"sharing":[]}`,
			says: []string{"1 error sharing: expected a map, found an empty list"},
		},
		"not a config at all": {
			in:   `"migStrategy none"`,
			says: []string{`1 error : expected a map with version, flags and sharing, found the string "migStrategy none"`},
		},
		"a quoted truth": {
			in:   `{"flags":{"failOnInitError":"false"}}`,
			want: Config{Flags: Flags{Other: map[string]string{"failOnInitError": "false"}}},
			says: []string{`1 error flags.failOnInitError: expected true or false, found the string "false" -> write false without quotes`},
		},
		"more replicas than the kubelet takes": {
			in:   `{"sharing":{"timeSlicing":{"resources":[{"name":"gpu","replicas":100000}]}}}`,
			says: []string{"1 error sharing.timeSlicing.resources[0].replicas: 100000 replicas: the kubelet takes a list of about 70000 devices at most -> ask for fewer"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, problems := Decode(mustTree(t, test.in))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("config (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.says, brief(problems)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

const anUUID = "4cf8db2d-06c0-7d70-1a51-e59b25b2c16c"

// The inputs that upstream's own tests list, with the outcome there.
func TestDecodeDevices(t *testing.T) {
	for in, want := range map[string]*Devices{
		`"all"`:                          {},
		`2`:                              {Count: 2},
		`[0]`:                            {List: []string{"0"}},
		`["0"]`:                          {List: []string{"0"}},
		`["0:0"]`:                        {List: []string{"0:0"}},
		`["GPU-` + anUUID + `"]`:         {List: []string{"GPU-" + anUUID}},
		`["MIG-` + anUUID + `"]`:         {List: []string{"MIG-" + anUUID}},
		`["MIG-GPU-` + anUUID + `/0/0"]`: {List: []string{"MIG-GPU-" + anUUID + "/0/0"}},
		`[0,"0:0","GPU-` + anUUID + `"]`: {List: []string{"0", "0:0", "GPU-" + anUUID}},
		`null`:                           nil, `"not-all"`: nil, `-2`: nil, `2.0`: nil, `0`: nil, `[]`: nil, `true`: nil, `{}`: nil,
		`[-1]`: nil, `["-1"]`: nil, `[null]`: nil, `["invalid-UUID"]`: nil, `["GPU-UUID"]`: nil, `["MIG-UUID"]`: nil, `["MIG-GPU-` + anUUID + `"]`: nil,
	} {
		t.Run(in, func(t *testing.T) {
			cfg, problems := Decode(mustTree(t, `{"sharing":{"timeSlicing":{"resources":[{"name":"gpu","replicas":2,"devices":`+in+`}]}}}`))
			failed := false
			for _, p := range problems {
				failed = failed || !p.Warning
			}
			if failed != (want == nil) {
				t.Fatalf("refused = %v, want %v: %q", failed, want == nil, brief(problems))
			}
			if want == nil {
				return
			}
			if diff := cmp.Diff(*want, cfg.TimeSlicing.Resources[0].Devices); diff != "" {
				t.Errorf("devices (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeFlags(t *testing.T) {
	for in, want := range map[string]Flags{
		`{}`:                                   {},
		`null`:                                 {},
		`{"gfd":{}}`:                           {},
		`{"gfd":{"sleepInterval":0}}`:          {Other: map[string]string{"gfd.sleepInterval": "0"}},
		`{"gfd":{"sleepInterval":"5s"}}`:       {Other: map[string]string{"gfd.sleepInterval": "5s"}},
		`{"gfd":{"sleepInterval":"infinite"}}`: {Other: map[string]string{"gfd.sleepInterval": "infinite"}},
		`{"plugin":{"deviceListStrategy":"envvar"}}`:                     {Other: map[string]string{"plugin.deviceListStrategy": "envvar"}},
		`{"plugin":{"deviceListStrategy":["envvar","cdi-annotations"]}}`: {Other: map[string]string{"plugin.deviceListStrategy": "envvar,cdi-annotations"}},
		`{"migStrategy":null,"mpsRoot":"/run/nvidia/mps"}`:               {Other: map[string]string{"mpsRoot": "/run/nvidia/mps"}},
	} {
		t.Run(in, func(t *testing.T) {
			cfg, problems := Decode(mustTree(t, `{"flags":`+in+`}`))
			if len(problems) > 0 {
				t.Errorf("unexpected problems %q", brief(problems))
			}
			if diff := cmp.Diff(want, cfg.Flags); diff != "" {
				t.Errorf("flags (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeIMEX(t *testing.T) {
	for text, want := range map[string]IMEX{
		`{}`:                                    {},
		`{"channelIDs": null}`:                  {},
		`{"channelIDs": []}`:                    {},
		`{"channelIDs": [0]}`:                   {ChannelIDs: []int{0}},
		`{"channelIDs": [0], "required": true}`: {ChannelIDs: []int{0}, Required: true},
	} {
		got, problems := Decode(mustTree(t, `{"imex":`+text+`}`))
		if diff := cmp.Diff(want, got.IMEX); diff != "" || len(problems) > 0 {
			t.Errorf("%s: %v\n%s", text, brief(problems), diff)
		}
	}
}

// What NVIDIA's plugin alone objects to is told from what nobody should write.
func TestDecodeMarksWhatOnlyUpstreamRefuses(t *testing.T) {
	_, problems := Decode(mustTree(t, `{"sharing":{"timeSlicing":{"resources":[
		{"name":"gpu","replicas":2,"devices":[0],"rename":"gpu.a"},{"name":"gpu","replicas":1},{"name":"gpu","replicas":0},{"name":"mig","replicas":2},{"name":"mig","replicas":3}]}}}`))
	var got []string
	for _, p := range problems {
		got = append(got, fmt.Sprint(p.Field, " upstream=", p.Upstream, " strict=", p.Strict))
	}
	const at = "sharing.timeSlicing.resources"
	want := []string{
		at + "[0].devices upstream=true strict=false", at + "[0].rename upstream=true strict=false", at + "[1].replicas upstream=true strict=false",
		at + "[2].replicas upstream=false strict=false", at + "[4] upstream=false strict=true",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestDecodeMIG(t *testing.T) {
	for name, test := range map[string]struct {
		in   string
		want map[string]MIGConfig
		says []string
	}{
		"layouts for all GPUs, for some, and by model": {
			in: `{"version":"v1","mig-configs":{
				"all-disabled":[{"devices":"all","mig-enabled":false}],
				"mixed":[{"devices":[0,1],"device-filter":"0x20B210DE","mig-enabled":true,"mig-devices":{"1g.10gb":2,"3g.40gb":1}},
					{"devices":[2],"device-filter":["0x233010DE","0x233110DE"],"mig-enabled":true,"mig-devices":{}}]}}`,
			want: map[string]MIGConfig{
				"all-disabled": {{}},
				"mixed": {
					{Devices: Devices{List: []string{"0", "1"}}, Filter: []string{"0x20B210DE"}, Enabled: true, MIGDevices: map[string]int64{"1g.10gb": 2, "3g.40gb": 1}},
					{Devices: Devices{List: []string{"2"}}, Filter: []string{"0x233010DE", "0x233110DE"}, Enabled: true, MIGDevices: map[string]int64{}},
				},
			},
		},
		"an empty file": {in: `null`},
		"no version": {
			in:   `{"mig-configs":{"a":[{"devices":"all","mig-enabled":false}]}}`,
			want: map[string]MIGConfig{"a": {{}}},
			says: []string{"1 error version: no version is given, which mig-parted refuses -> add version: v1"},
		},
		"a misspelt key": {
			in:   "{\"version\":\"v1\",\"mig-configs\":{\"a\":[{\"devices\":\"all\",\n\"mig-enable\":true,\"mig-devices\":{\"1g.5gb\":7}}]}}",
			want: map[string]MIGConfig{"a": {{Enabled: true, MIGDevices: map[string]int64{"1g.5gb": 7}}}},
			says: []string{"2 error mig-configs.a[0].mig-enable: unknown key mig-enable, which mig-parted refuses; read as mig-enabled -> write mig-enabled"},
		},
		"no profile and no instances": {
			in:   `{"version":"v1","mig-configs":{"a":[{"devices":"all","mig-enabled":true,"mig-devices":{"5gb":7,"1g.5gb":0}}]}}`,
			want: map[string]MIGConfig{"a": {{Enabled: true, MIGDevices: map[string]int64{}}}},
			says: []string{
				`1 error mig-configs.a[0].mig-devices.5gb: "5gb" is no MIG profile -> write a profile such as "1g.5gb" or "1g.5gb+me"`,
				"1 error mig-configs.a[0].mig-devices: no instance is asked for -> ask for at least one instance, or write {}",
			},
		},
		"enabled without instances, and instances without enabled": {
			in:   `{"version":"v1","mig-configs":{"a":[{"devices":"all","mig-enabled":true},{"devices":[1],"mig-enabled":false,"mig-devices":{"1g.5gb":1}}]}}`,
			want: map[string]MIGConfig{"a": {{Enabled: true}, {Devices: Devices{List: []string{"1"}}}}},
			says: []string{
				"1 error mig-configs.a[0].mig-devices: mig-enabled is true without mig-devices, which mig-parted refuses -> add mig-devices: {} or list instances",
				"1 error mig-configs.a[1].mig-devices: instances are listed although mig-enabled is false, which mig-parted refuses -> set mig-enabled: true, or remove mig-devices",
			},
		},
		"a layout without entries": {
			in:   `{"version":"v1","mig-configs":{"a":[]}}`,
			want: map[string]MIGConfig{},
			says: []string{"1 error mig-configs.a: expected a list of entries, found an empty list -> add an entry: {devices: all, mig-enabled: false}"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, problems := DecodeMIG(mustTree(t, test.in))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("layouts (-want +got):\n%s", diff)
			}
			says := brief(problems)
			if diff := cmp.Diff(test.says, says); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// Whatever is fed in, the decoders return, leave their input as it was, and
// what they return keeps its promises.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`null`, `{}`, `[]`, `{"version":"v1","flags":{"renameByDefault":true,"plugin":{"deviceListStrategy":["envvar"]},"gfd":{"sleepInterval":"5s"}}}`,
		`{"sharing":{"timeSlicing":{"resources":[{"name":"gpu","replicas":4,"devices":["0:1",2],"rename":"a"}]},"mps":{"resources":[{"name":"gpu","replicas":1e1}]}}}`,
		`{"version":"v1","mig-configs":{"a":[{"devices":[0],"device-filter":"0x1","mig-enabled":true,"mig-devices":{"1g.5gb+me":1}}]}}`,
		`{"timeslicing":{},"TimeSlicing":{},"mps":[],"sharing":null,"imex":{"channelIDs":[0,0]},"resources":{"gpus":[null]}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := tree(text)
		if err != nil {
			return
		}
		before := n.JSON()
		cfg, problems := Decode(n)
		again, _ := Decode(n)
		layouts, more := DecodeMIG(n)
		if !bytes.Equal(before, n.JSON()) {
			t.Fatal("the input was changed")
		}
		if diff := cmp.Diff(cfg, again); diff != "" {
			t.Fatalf("two runs differ:\n%s", diff)
		}
		for _, p := range append(problems, more...) {
			if p.Text == "" {
				t.Fatalf("a problem without words: %+v", p)
			}
		}
		for _, r := range []*Replicated{cfg.TimeSlicing, cfg.MPS} {
			checkSection(t, r)
		}
		for _, layout := range layouts {
			for _, e := range layout {
				if !e.Enabled && len(e.MIGDevices) > 0 {
					t.Fatalf("instances on a GPU without MIG: %+v", e)
				}
			}
		}
	})
}

func checkSection(t *testing.T, r *Replicated) {
	if r == nil {
		return
	}
	if len(r.Resources) == 0 {
		t.Fatal("a section that shares nothing")
	}
	for _, res := range r.Resources {
		if res.Replicas < 2 || !strings.HasPrefix(res.Name, "nvidia.com/") || (r.RenameByDefault && res.Rename == "") {
			t.Fatalf("an entry that shares nothing: %+v", res)
		}
	}
}
