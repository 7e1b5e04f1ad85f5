// Package workload reads Kubernetes workloads and what surrounds them: pods and
// everything that makes pods, nodes with the pods bound to them, daemonsets,
// and the quotas, limit ranges, classes, volumes and budgets that bear on where
// a pod may run.
//
// A pod in the model is what the API server of Kubernetes 1.37 would have
// stored: its defaults are set, its admission plugins have run, and what it
// refuses is in PodSpec.Refused in its own words. Nothing is dropped in silence:
// a field that is unknown, misplaced, of the wrong type or not modelled is named
// in a note with its file and line.
//
// # Which pods there are
//
// A workload stands for the pods that it wants at once: replicas, a job's
// parallelism as far as it has completions left, one run of a cron job. Pods of
// the input that it owns count towards that number, directly or through a
// ReplicaSet or Job in between, so that a dump of a cluster gives each pod once
// and what is missing as pending. Pods that have ended are left out. Pods that
// come from one template share their PodSpec.
//
// A pod bound to a node counts as bound when the input has that node. When the
// input has no nodes at all, every pod is planned as if it were pending. A pod
// of a cluster has been through admission, so that nothing is defaulted or
// refused once more; a pod is of a cluster when it has a uid or a status.
//
// Requirements on a node's name (matchFields) are requirements on the key
// constraint.NodeNameField. Zone labels of CSI drivers are read as
// topology.kubernetes.io/zone. Attach limits of volumes are not modelled.
//
// # HAMi
//
// nvidia.com/gpumem, nvidia.com/gpumem-percentage and nvidia.com/gpucores are
// also read as what they mean, a share of each of nvidia.com/gpu devices, in
// PodSpec.Shares; the requests themselves stay as written.
//
// # ShapeTable
//
// Pods by the thousand are written as a table of shapes:
//
//	apiVersion: kerf.dev/v1alpha1
//	kind: ShapeTable
//	metadata:
//	  name: openb
//	  namespace: research
//	template:            # what all pods share; optional
//	  metadata:
//	    labels: {team: research}
//	  spec:
//	    tolerations: [{key: dedicated, operator: Exists}]
//	columns: [count, cpu, memory, nvidia.com/gpu, gpu-milli, "in:karpenter.k8s.aws/instance-gpu-name"]
//	rows:
//	- [3911, 12000m, 16384Mi, 1, null, null]
//	- [120, 4, 8Gi, 1, 460, "t4|a10g"]
//
// The template is a pod template that may leave out its containers; a container
// that it has takes the resources of the columns. Each row is one shape, with a
// cell for each column. The columns are
//
//   - count: how many pods; it must be there
//   - name: the name of the shape, instead of the table's name and the row
//   - gpu-milli: thousandths of each nvidia.com/gpu device, 1 to 1000. Below
//     1000 the pod takes part of each device, as a model.DeviceShare of
//     model.ShareMilli, and asks for no whole one
//   - in:LABEL: the values that the node label LABEL may have, with | between
//     them; it becomes required node affinity
//   - any other name: a resource, in the quantities of Kubernetes, requested
//     (and for extended resources limited) by the pod's container
//
// An empty cell, null or "", asks for nothing. A row is admitted as a pod is:
// limit ranges, tolerations and validation apply.
package workload
