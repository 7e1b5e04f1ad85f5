package live

import "k8s.io/apimachinery/pkg/runtime/schema"

// A kind is one kind of object that is read.
type kind struct {
	name     string // Kubernetes kind
	resource string // its plural, as in paths
	group    string
	versions []string // that Kerf reads, the preferred one first
	needed   bool     // a plan without it would be wrong: not to be allowed to list it is an error
}

// kinds is everything that a plan needs, in the order in which it is read. Jobs
// of a CronJob that is yet to run, and Secrets, are not among them.
var kinds = []kind{
	{"Namespace", "namespaces", "", []string{"v1"}, false},
	{"Node", "nodes", "", []string{"v1"}, true},
	{"NodePool", "nodepools", "karpenter.sh", []string{"v1", "v1beta1"}, true},
	{"NodeClaim", "nodeclaims", "karpenter.sh", []string{"v1", "v1beta1"}, true},
	{"NodeOverlay", "nodeoverlays", "karpenter.sh", []string{"v1alpha1"}, false},
	{"Provisioner", "provisioners", "karpenter.sh", []string{"v1alpha5"}, false},
	{"Machine", "machines", "karpenter.sh", []string{"v1alpha5"}, false},
	{"EC2NodeClass", "ec2nodeclasses", "karpenter.k8s.aws", []string{"v1", "v1beta1"}, false},
	{"AWSNodeTemplate", "awsnodetemplates", "karpenter.k8s.aws", []string{"v1alpha1"}, false},
	{"AKSNodeClass", "aksnodeclasses", "karpenter.azure.com", []string{"v1", "v1beta1", "v1alpha2"}, false},
	{"GCENodeClass", "gcenodeclasses", "karpenter.k8s.gcp", []string{"v1alpha1"}, false},
	{"ECSNodeClass", "ecsnodeclasses", "karpenter.k8s.alibabacloud", []string{"v1alpha1"}, false},
	{"ClusterPolicy", "clusterpolicies", "nvidia.com", []string{"v1"}, false},
	{"DaemonSet", "daemonsets", "apps", []string{"v1"}, true},
	{"ConfigMap", "configmaps", "", []string{"v1"}, false},
	{"Deployment", "deployments", "apps", []string{"v1"}, false},
	{"ReplicaSet", "replicasets", "apps", []string{"v1"}, false},
	{"StatefulSet", "statefulsets", "apps", []string{"v1"}, false},
	{"ReplicationController", "replicationcontrollers", "", []string{"v1"}, false},
	{"Job", "jobs", "batch", []string{"v1"}, false},
	{"Pod", "pods", "", []string{"v1"}, true},
	{"PersistentVolume", "persistentvolumes", "", []string{"v1"}, false},
	{"PersistentVolumeClaim", "persistentvolumeclaims", "", []string{"v1"}, false},
	{"StorageClass", "storageclasses", "storage.k8s.io", []string{"v1"}, false},
	{"PodDisruptionBudget", "poddisruptionbudgets", "policy", []string{"v1"}, false},
	{"PriorityClass", "priorityclasses", "scheduling.k8s.io", []string{"v1"}, false},
	{"RuntimeClass", "runtimeclasses", "node.k8s.io", []string{"v1"}, false},
	{"ResourceQuota", "resourcequotas", "", []string{"v1"}, false},
	{"LimitRange", "limitranges", "", []string{"v1"}, false},
}

// audited are the kinds that a scan of the guard looks at beyond those.
var audited = []kind{
	{"CronJob", "cronjobs", "batch", []string{"v1"}, false},
	{"ResourceClaim", "resourceclaims", "resource.k8s.io", []string{"v1", "v1beta2", "v1beta1"}, false},
	{"ResourceClaimTemplate", "resourceclaimtemplates", "resource.k8s.io", []string{"v1", "v1beta2", "v1beta1"}, false},
	{"ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", "admissionregistration.k8s.io", []string{"v1"}, false},
	{"ValidatingWebhookConfiguration", "validatingwebhookconfigurations", "admissionregistration.k8s.io", []string{"v1"}, false},
}

func (k kind) at(version string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: k.group, Version: version, Resource: k.resource}
}

// own reports whether a kind is Karpenter's: a cluster that serves it in an old
// version only is told so.
func (k kind) own() bool { return k.group == "karpenter.sh" || k.group == "karpenter.k8s.aws" }
