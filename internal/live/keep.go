package live

import (
	"slices"
	"strings"
)

// fields is what is kept of a map: each name with what is kept below it, nil
// for all of it.
type fields map[string]fields

var (
	all    fields
	none   = fields{}
	always = fields{"apiVersion": all, "kind": all, "metadata": metadata}

	metadata = fields{
		"name": all, "generateName": all, "namespace": all, "uid": all, "labels": all, "annotations": all, "ownerReferences": all,
		"deletionTimestamp": all, "creationTimestamp": all, "generation": all,
	}
	conditions = fields{"conditions": {"type": all, "status": all, "reason": all, "message": all, "lastTransitionTime": all}}

	container = fields{
		"name": all, "image": all, "resources": all, "ports": all, "restartPolicy": all, "env": all, "envFrom": all, "command": all, "args": all,
		"volumeMounts": {"name": all, "mountPath": all, "readOnly": all}, "securityContext": {"privileged": all, "capabilities": all},
	}
	podSpec = fields{
		"containers": container, "initContainers": container, "nodeName": all, "nodeSelector": all, "affinity": all, "tolerations": all,
		"topologySpreadConstraints": all, "priority": all, "priorityClassName": all, "schedulerName": all, "schedulingGates": all,
		"resourceClaims": all, "resources": all, "overhead": all, "runtimeClassName": all, "hostNetwork": all, "os": all, "restartPolicy": all,
		"ephemeralContainers": container, "hostPID": all, "hostIPC": all, "serviceAccountName": all, "serviceAccount": all,
		"volumes": {
			// Of what is no disk, the guard asks only what it is and which path of the node.
			"hostPath": {"path": all}, "emptyDir": none, "secret": none, "projected": none, "downwardAPI": none, "nfs": none, "csi": none, "image": none,
			"name": all, "persistentVolumeClaim": all, "ephemeral": all, "configMap": {"name": all}, "awsElasticBlockStore": all,
			"gcePersistentDisk": all, "azureDisk": all, "cinder": all, "vsphereVolume": all,
		},
	}
	template = fields{"metadata": metadata, "spec": podSpec}
	workload = fields{
		"replicas": all, "selector": all, "template": template, "volumeClaimTemplates": {"metadata": metadata, "spec": all}, "serviceName": all,
		"parallelism": all, "completions": all, "completionMode": all, "suspend": all, "updateStrategy": all, "podManagementPolicy": all, "ordinals": all,
	}
)

// kept is what is kept of each kind beside always; of other kinds everything.
var kept = map[string]fields{
	"Namespace":             {},
	"Node":                  {"spec": {"taints": all, "unschedulable": all, "providerID": all}, "status": {"capacity": all, "allocatable": all, "conditions": conditions["conditions"]}},
	"Pod":                   {"spec": podSpec, "status": {"phase": all, "reason": all, "conditions": conditions["conditions"], "nominatedNodeName": all}},
	"DaemonSet":             {"spec": workload},
	"Deployment":            {"spec": workload},
	"ReplicaSet":            {"spec": workload},
	"StatefulSet":           {"spec": workload},
	"ReplicationController": {"spec": workload},
	"Job":                   {"spec": workload, "status": {"succeeded": all, "failed": all, "active": all, "conditions": conditions["conditions"]}},
	"CronJob":               {"spec": {"schedule": all, "suspend": all, "jobTemplate": {"metadata": metadata, "spec": workload}}},
	"NodePool":              {"spec": all, "status": conditions},
	"NodeClaim":             {"spec": all, "status": all},
	"PersistentVolume":      {"spec": {"nodeAffinity": all, "storageClassName": all, "capacity": all, "accessModes": all, "claimRef": {"name": all, "namespace": all}}},
	"PersistentVolumeClaim": {"spec": all},
	"StorageClass":          {"provisioner": all, "volumeBindingMode": all, "allowedTopologies": all},
	"ResourceQuota":         {"spec": all},
	"LimitRange":            {"spec": all},
	"PodDisruptionBudget":   {"spec": all},
	"ConfigMap":             {"data": all},
	"EC2NodeClass":          {"spec": all, "status": conditions},
	"AWSNodeTemplate":       {"spec": all},
	"Provisioner":           {"spec": all},
	"ClusterPolicy":         {"spec": all},

	"ResourceClaim":         {"spec": all},
	"ResourceClaimTemplate": {"spec": all},

	"ValidatingAdmissionPolicyBinding": {"spec": all},
	"ValidatingWebhookConfiguration":   {"webhooks": {"name": all, "failurePolicy": all, "namespaceSelector": all}},
}

// Keep cuts an object down to what Kerf reads. It takes the object apart: the
// object must not be used any more.
func Keep(object map[string]any) map[string]any {
	kind, _ := object["kind"].(string)
	want, known := kept[kind]
	if known {
		for name, value := range object {
			below, ok := want[name]
			if !ok {
				if below, ok = always[name]; !ok {
					delete(object, name)
					continue
				}
			}
			object[name] = pick(value, below)
		}
	} else if meta, ok := object["metadata"]; ok {
		object["metadata"] = pick(meta, metadata)
	}
	if spec, ok := object["spec"].(map[string]any); ok {
		delete(spec, "userData")
		if inline, ok := spec["provider"].(map[string]any); ok {
			delete(inline, "userData")
		}
	}
	scrub(object, plugin(object))
	return object
}

// pick cuts a value; below lists of a field, each of their items.
func pick(value any, want fields) any {
	if want == nil {
		return value
	}
	switch v := value.(type) {
	case map[string]any:
		for name, inner := range v {
			below, ok := want[name]
			if !ok {
				delete(v, name)
				continue
			}
			v[name] = pick(inner, below)
		}
	case []any:
		for i := range v {
			v[i] = pick(v[i], want)
		}
	}
	return value
}

// plugin reports whether an object runs NVIDIA's device plugin or a program
// beside it, whose settings stand in command lines and environments.
func plugin(object map[string]any) bool {
	if object["kind"] != "DaemonSet" {
		return false
	}
	found := false
	walk(object, func(name string, value any) {
		image, _ := value.(string)
		found = found || name == "image" && (strings.Contains(image, "device-plugin") || strings.Contains(image, "feature-discovery"))
	})
	return found
}

// walk calls f with every field below a value.
func walk(value any, f func(name string, value any)) {
	switch v := value.(type) {
	case map[string]any:
		for name, inner := range v {
			f(name, inner)
			walk(inner, f)
		}
	case []any:
		for _, item := range v {
			walk(item, f)
		}
	}
}

// scrub leaves out of every container what may be secret: its command line and
// the values of its environment. settings keeps both. Annotations are kept when
// Kerf or Karpenter reads them.
func scrub(value any, settings bool) {
	switch v := value.(type) {
	case map[string]any:
		if a, ok := v["annotations"].(map[string]any); ok {
			for name := range a {
				if !readAnnotation(name) {
					delete(a, name)
				}
			}
			if len(a) == 0 {
				delete(v, "annotations")
			}
		}
		if _, image := v["image"].(string); image && !settings {
			delete(v, "command")
			delete(v, "args")
			hide(v["env"])
		}
		for _, inner := range v {
			scrub(inner, settings)
		}
	case []any:
		for _, item := range v {
			scrub(item, settings)
		}
	}
}

// telling reports whether a variable says what of a GPU node a container is
// shown or loads; the guard reads its value.
func telling(name string) bool {
	return strings.HasPrefix(name, "NVIDIA_") || name == "CUDA_VERSION" || strings.HasPrefix(name, "LD_") || strings.HasPrefix(name, "DOCKER_RESOURCE_")
}

// hide empties the values of an environment, but for variables that tell and
// those of which, by $(NAME), they are made. A variable refers to those before it.
func hide(env any) {
	list, _ := env.([]any)
	made := map[string]bool{}
	for _, item := range slices.Backward(list) {
		e, _ := item.(map[string]any)
		name, _ := e["name"].(string)
		value, literal := e["value"].(string)
		switch {
		case !literal:
		case telling(name) || made[name]:
			for rest := value; ; {
				_, after, ok := strings.Cut(rest, "$(")
				if !ok {
					break
				}
				var other string
				other, rest, _ = strings.Cut(after, ")")
				made[other] = true
			}
		default:
			e["value"] = ""
		}
	}
}

// readAnnotation reports whether Kerf reads an annotation.
func readAnnotation(name string) bool {
	domain, _, _ := strings.Cut(name, "/")
	if strings.HasPrefix(name, "ALIYUN_COM_GPU_MEM") || name == "kubernetes.io/config.mirror" {
		return true
	}
	return slices.Contains([]string{
		"karpenter.sh", "karpenter.k8s.aws", "compatibility.karpenter.sh", "kerf.dev", "deployment.kubernetes.io", "storageclass.kubernetes.io",
		"controller.kubernetes.io", "volume.beta.kubernetes.io", "cdi.k8s.io", "nvidia.cdi.k8s.io",
	}, domain)
}
