package workload

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/kerfdev/kerf/internal/model"
)

// zoneLabels are the labels that CSI drivers give a node for its zone. A node
// that does not exist yet is known by the common one only.
var zoneLabels = map[string]bool{
	corev1.LabelFailureDomainBetaZone:               true,
	"topology.ebs.csi.aws.com/zone":                 true,
	"topology.gke.io/zone":                          true,
	"topology.disk.csi.azure.com/zone":              true,
	"topology.diskplugin.csi.alibabacloud.com/zone": true,
}

// volumesOf reads what the pod's volumes demand of a node, and which claims it
// names that are not there.
func (r *reader) volumesOf(t *template) ([]model.Volume, []model.Verdict) {
	var out []model.Volume
	var missing []model.Verdict
	for i := range t.spec.Volumes {
		v := &t.spec.Volumes[i]
		path := t.base() + ".volumes" + indexText(i)
		switch {
		case v.PersistentVolumeClaim != nil:
			name := v.PersistentVolumeClaim.ClaimName
			terms, ok := r.claimTerms(t.object, name, path)
			if !ok {
				missing = append(missing, model.Verdict{Code: model.CodeVolume, Key: name, Detail: fmt.Sprintf("persistentvolumeclaim %q not found", name)})
				r.note(t.object, model.Error, "missing-claim", path, "the input gives claims of namespace "+t.object.namespace()+", but none is called "+name, "create the PersistentVolumeClaim or mend its name")
			}
			out = restrict(out, name, terms)
		case v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil:
			out = restrict(out, v.Name, r.classTerms(t.object, v.Ephemeral.VolumeClaimTemplate.Spec.StorageClassName, path))
		default:
			r.disk(t.object, v, path)
		}
	}
	return out, missing
}

// restrict adds a volume that is not attachable everywhere.
func restrict(out []model.Volume, claim string, terms []model.Term) []model.Volume {
	if len(terms) == 0 {
		return out
	}
	return append(out, model.Volume{Claim: claim, Terms: terms})
}

// claimTerms says on which nodes a claim's volume can be, and whether the claim
// is there. When the input gives no claim of the namespace at all, it does not
// mean to list them, and every claim is taken to be there.
func (r *reader) claimTerms(o *object, name, path string) ([]model.Term, bool) {
	claim := r.cluster.claims[o.namespace()+"/"+name]
	switch {
	case claim == nil && r.cluster.claimants[o.namespace()]:
		return nil, false
	case claim == nil:
		r.noteOnce("claim "+o.namespace()+"/"+name, o, model.Warning, "unknown-claim", path,
			"the input has no PersistentVolumeClaim "+name+": its volume is taken to be attachable in every zone", "give the claim and its volume too")
		return nil, true
	case claim.Spec.VolumeName != "":
		return r.volumeTerms(o, claim.Spec.VolumeName, path), true
	default:
		return r.classTerms(o, claim.Spec.StorageClassName, path), true
	}
}

// volumeTerms reads where a volume that exists can be attached.
func (r *reader) volumeTerms(o *object, name, path string) []model.Term {
	volume := r.cluster.volumes[name]
	if volume == nil {
		r.noteOnce("volume "+name, o, model.Warning, "unknown-claim", path,
			"the input has no PersistentVolume "+name+": it is taken to be attachable in every zone", "give the volume too")
		return nil
	}
	if a := volume.Spec.NodeAffinity; a != nil && a.Required != nil {
		terms := nodeTerms(a.Required, "", func(string) int { return 0 })
		for _, t := range terms {
			for i := range t {
				t[i].Key = zoneLabel(t[i].Key)
			}
		}
		return terms
	}
	for _, key := range []string{model.LabelZone, corev1.LabelFailureDomainBetaZone} {
		if zone := volume.Labels[key]; zone != "" {
			return []model.Term{{{Key: model.LabelZone, Operator: model.In, Values: []string{zone}}}}
		}
	}
	return nil
}

func zoneLabel(key string) string {
	if zoneLabels[key] {
		return model.LabelZone
	}
	return key
}

// classTerms reads where a storage class may create a volume. A nil name is the
// default class, and "" is no class: then only an existing volume will do.
func (r *reader) classTerms(o *object, name *string, path string) []model.Term {
	class := r.cluster.class
	if name != nil {
		class = r.cluster.classes[*name]
	}
	if class == nil {
		if name != nil && *name != "" {
			r.noteOnce("class "+*name, o, model.Info, "unknown-claim", path,
				"the input has no StorageClass "+*name+": it is taken to create volumes in every zone", "give the class too")
		}
		return nil
	}
	if class.VolumeBindingMode == nil || *class.VolumeBindingMode == storagev1.VolumeBindingImmediate {
		r.noteOnce("immediate "+class.Name, o, model.Warning, "immediate-binding", path,
			"StorageClass "+class.Name+" binds at once: the volume may be created in a zone where the pod does not fit", "set volumeBindingMode: WaitForFirstConsumer")
	}
	var out []model.Term
	for _, topology := range class.AllowedTopologies {
		var term model.Term
		for _, e := range topology.MatchLabelExpressions {
			term = append(term, model.Requirement{Key: zoneLabel(e.Key), Operator: model.In, Values: e.Values})
		}
		if len(term) > 0 {
			out = append(out, term)
		}
	}
	return out
}

// disk names volumes that live in one zone which the pod does not tell.
func (r *reader) disk(o *object, v *corev1.Volume, path string) {
	kind := ""
	switch {
	case v.AWSElasticBlockStore != nil:
		kind = "awsElasticBlockStore"
	case v.GCEPersistentDisk != nil:
		kind = "gcePersistentDisk"
	case v.AzureDisk != nil:
		kind = "azureDisk"
	case v.Cinder != nil:
		kind = "cinder"
	case v.VsphereVolume != nil:
		kind = "vsphereVolume"
	default:
		return
	}
	r.noteOnce("disk "+kind, o, model.Warning, "not-modelled", path+"."+kind,
		"a pod does not say in which zone a volume of this kind is: it is taken to be attachable in every zone", "use a PersistentVolumeClaim")
}

func indexText(i int) string { return "[" + strconv.Itoa(i) + "]" }
