package live

import "k8s.io/apimachinery/pkg/runtime/schema"

// A kind is one kind of object that is read.
type kind struct {
	name     string // Kubernetes kind
	resource string // its plural, as in paths
	group    string
	versions []string // that Kerf reads, the preferred one first
	needed   bool     // a plan without it would be wrong: not to be allowed to list it is an error
	spared   bool     // nobody need be told that it may not be listed
}

// kinds is everything that a plan needs, in the order in which it is read. Jobs
// of a CronJob that is yet to run, and Secrets, are not among them.
var kinds = []kind{
	{"Namespace", "namespaces", "", []string{"v1"}, false, false},
	{"Node", "nodes", "", []string{"v1"}, true, false},
	{"NodePool", "nodepools", "karpenter.sh", []string{"v1", "v1beta1"}, true, false},
	{"NodeClaim", "nodeclaims", "karpenter.sh", []string{"v1", "v1beta1"}, true, false},
	{"NodeOverlay", "nodeoverlays", "karpenter.sh", []string{"v1alpha1"}, false, false},
	{"Provisioner", "provisioners", "karpenter.sh", []string{"v1alpha5"}, false, false},
	{"Machine", "machines", "karpenter.sh", []string{"v1alpha5"}, false, false},
	{"EC2NodeClass", "ec2nodeclasses", "karpenter.k8s.aws", []string{"v1", "v1beta1"}, false, false},
	{"AWSNodeTemplate", "awsnodetemplates", "karpenter.k8s.aws", []string{"v1alpha1"}, false, false},
	{"AKSNodeClass", "aksnodeclasses", "karpenter.azure.com", []string{"v1", "v1beta1", "v1alpha2"}, false, false},
	{"GCENodeClass", "gcenodeclasses", "karpenter.k8s.gcp", []string{"v1alpha1"}, false, false},
	{"ECSNodeClass", "ecsnodeclasses", "karpenter.k8s.alibabacloud", []string{"v1alpha1"}, false, false},
	{"ClusterPolicy", "clusterpolicies", "nvidia.com", []string{"v1"}, false, false},
	{"DaemonSet", "daemonsets", "apps", []string{"v1"}, true, false},
	{"ConfigMap", "configmaps", "", []string{"v1"}, false, false},
	{"Deployment", "deployments", "apps", []string{"v1"}, false, false},
	{"ReplicaSet", "replicasets", "apps", []string{"v1"}, false, false},
	{"StatefulSet", "statefulsets", "apps", []string{"v1"}, false, false},
	{"ReplicationController", "replicationcontrollers", "", []string{"v1"}, false, false},
	{"Job", "jobs", "batch", []string{"v1"}, false, false},
	{"Pod", "pods", "", []string{"v1"}, true, false},
	{"PersistentVolume", "persistentvolumes", "", []string{"v1"}, false, false},
	{"PersistentVolumeClaim", "persistentvolumeclaims", "", []string{"v1"}, false, false},
	{"StorageClass", "storageclasses", "storage.k8s.io", []string{"v1"}, false, false},
	{"PodDisruptionBudget", "poddisruptionbudgets", "policy", []string{"v1"}, false, false},
	{"PriorityClass", "priorityclasses", "scheduling.k8s.io", []string{"v1"}, false, false},
	{"RuntimeClass", "runtimeclasses", "node.k8s.io", []string{"v1"}, false, false},
	{"ResourceQuota", "resourcequotas", "", []string{"v1"}, false, false},
	{"LimitRange", "limitranges", "", []string{"v1"}, false, false},
	// What enforces the guard: pods that it refuses are not planned for.
	{"ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", "admissionregistration.k8s.io", []string{"v1"}, false, true},
	{"ValidatingWebhookConfiguration", "validatingwebhookconfigurations", "admissionregistration.k8s.io", []string{"v1"}, false, true},
}

// audited are the kinds that a scan of the guard looks at beyond those.
var audited = []kind{
	{"CronJob", "cronjobs", "batch", []string{"v1"}, false, false},
	{"ResourceClaim", "resourceclaims", "resource.k8s.io", []string{"v1", "v1beta2", "v1beta1"}, false, false},
	{"ResourceClaimTemplate", "resourceclaimtemplates", "resource.k8s.io", []string{"v1", "v1beta2", "v1beta1"}, false, false},
}

// planned are the kinds of a plan that no rule of the guard is about.
var planned = []string{
	"NodeClaim", "NodeOverlay", "Machine", "EC2NodeClass", "AWSNodeTemplate", "AKSNodeClass", "GCENodeClass", "ECSNodeClass",
	"PersistentVolume", "PersistentVolumeClaim", "StorageClass", "PodDisruptionBudget", "PriorityClass",
}

func (k kind) at(version string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: k.group, Version: version, Resource: k.resource}
}

// own reports whether a kind is Karpenter's: a cluster that serves it in an old
// version only is told so.
func (k kind) own() bool { return k.group == "karpenter.sh" || k.group == "karpenter.k8s.aws" }
