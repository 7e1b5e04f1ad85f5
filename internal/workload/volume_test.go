package workload

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kerfdev/kerf/internal/model"
)

func zone(names ...string) []model.Term {
	return []model.Term{{{Key: model.LabelZone, Operator: model.In, Values: names}}}
}

const (
	uses = "  containers: [{name: c, image: i}]\n  volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]\n"

	boundClaim   = "---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\nspec: {volumeName: pv-1, storageClassName: gp3}\n"
	pendingClaim = "---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\nspec: {storageClassName: gp3}\n"
	defaultClaim = "---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\nspec: {}\n"
	otherClaim   = "---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: dta}\nspec: {}\n"

	ebs = "---\napiVersion: v1\nkind: PersistentVolume\nmetadata: {name: pv-1}\nspec: {nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.ebs.csi.aws.com/zone, operator: In, values: [us-east-1b]}]}]}}}\n"
	old = "---\napiVersion: v1\nkind: PersistentVolume\nmetadata: {name: pv-1, labels: {failure-domain.beta.kubernetes.io/zone: us-east-1c}}\nspec: {}\n"
)

func class(mode, extra string) string {
	return fmt.Sprintf("---\napiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: gp3, annotations: {storageclass.kubernetes.io/is-default-class: \"true\"}}\nprovisioner: ebs.csi.aws.com\nvolumeBindingMode: %s\n%s", mode, extra)
}

func TestVolumesRestrictZones(t *testing.T) {
	topologies := "allowedTopologies: [{matchLabelExpressions: [{key: topology.ebs.csi.aws.com/zone, values: [us-east-1a, us-east-1b]}]}]\n"
	for name, c := range map[string]struct {
		text    string
		want    []model.Term
		refused []string
		codes   []string
	}{
		"a volume that exists is where it is":               {pod(uses) + boundClaim + ebs, zone("us-east-1b"), nil, nil},
		"a volume of old is where its label says":           {pod(uses) + boundClaim + old, zone("us-east-1c"), nil, nil},
		"a volume that is not given could be anywhere":      {pod(uses) + boundClaim, nil, nil, []string{"unknown-claim"}},
		"a class may create volumes in some zones":          {pod(uses) + pendingClaim + class("WaitForFirstConsumer", topologies), zone("us-east-1a", "us-east-1b"), nil, nil},
		"a claim without a class is of the default one":     {pod(uses) + defaultClaim + class("WaitForFirstConsumer", topologies), zone("us-east-1a", "us-east-1b"), nil, nil},
		"a class without topologies creates them anywhere":  {pod(uses) + pendingClaim + class("WaitForFirstConsumer", ""), nil, nil, nil},
		"a class that binds at once may choose a bad zone":  {pod(uses) + pendingClaim + class("Immediate", topologies), zone("us-east-1a", "us-east-1b"), nil, []string{"immediate-binding"}},
		"a class that is not given":                         {pod(uses) + pendingClaim, nil, nil, []string{"unknown-claim"}},
		"an input without claims does not mean to list any": {pod(uses), nil, nil, []string{"unknown-claim"}},
		"a claim that is missing among others":              {pod(uses) + otherClaim, nil, []string{`data: persistentvolumeclaim "data" not found`}, []string{"missing-claim"}},
		"an ephemeral volume has a class too": {
			pod("  containers: [{name: c, image: i}]\n  volumes: [{name: v, ephemeral: {volumeClaimTemplate: {spec: {storageClassName: gp3}}}}]\n") + class("WaitForFirstConsumer", topologies),
			zone("us-east-1a", "us-east-1b"), nil, nil,
		},
		"a disk named in the pod": {
			pod("  containers: [{name: c, image: i}]\n  volumes: [{name: v, awsElasticBlockStore: {volumeID: vol-1}}]\n"), nil, nil, []string{"not-modelled"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, notes := read(t, c.text)
			spec := only(t, r).Spec
			var got []model.Term
			for _, v := range spec.Volumes {
				got = append(got, v.Terms...)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("terms (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.refused, words(spec)); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
			for _, v := range spec.Refused {
				if v.Code != model.CodeVolume {
					t.Errorf("code %s", v.Code)
				}
			}
			var codes []string
			for _, n := range notes {
				codes = append(codes, n.Code)
			}
			if diff := cmp.Diff(c.codes, codes); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAStatefulSetsPodsGoWhereTheirVolumesAre(t *testing.T) {
	r, _ := read(t, workload("StatefulSet", "s", "  replicas: 3\n  volumeClaimTemplates: [{metadata: {name: data}, spec: {storageClassName: gp3}}]\n"+forever)+
		"---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data-s-1}\nspec: {volumeName: pv-1}\n"+ebs+class("WaitForFirstConsumer", ""))
	if len(r.Pods) != 3 {
		t.Fatalf("%d pods", len(r.Pods))
	}
	want := []model.Volume{{Claim: "data-s-1", Terms: zone("us-east-1b")}}
	if diff := cmp.Diff(want, r.Pods[1].Spec.Volumes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if r.Pods[0].Spec != r.Pods[2].Spec || len(r.Pods[0].Spec.Volumes) != 0 || len(r.Pods[0].Spec.Refused) != 0 {
		t.Errorf("pods whose volumes do not exist yet differ: %+v %+v", r.Pods[0].Spec, r.Pods[2].Spec)
	}
}
