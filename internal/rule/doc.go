// Package rule checks a Snapshot for what is accepted everywhere and does not
// do what it seems to: lint, guard and doctor checks as plain values.
//
// A rule is silent unless the input shows the cause. A GPU pool is one that can
// launch NVIDIA GPUs and either launches nothing without a GPU or has a pod that
// asks for GPUs and can go there.
//
//	plugin-taint            error    the device plugin does not tolerate a GPU pool's taint
//	plugin-affinity         warning  the chart's default affinity, from 0.15 on, keeps the plugin off
//	plugin-upgrade          info     the same after an upgrade of an older chart
//	nfd-worker-taint        error    the chart's NFD worker cannot label a GPU pool's nodes
//	plugin-selector         error    the plugin's node selector fits no node of a GPU pool
//	two-plugins             warning  two plugins would run on the same nodes
//	argo-restarts-plugin    info     Argo CD restarts the plugin of chart 0.12.0 at every sync
//	no-plugin               info     GPU pools and no plugin
//	device-config-missing   error    a label names a device config that does not exist
//	device-config-default   error    several device configs, no default, and nodes that name none
//	mig-config-missing      error    a label names a MIG layout that does not exist
//	mig-strategy-none       warning  MIG is on and the device config does not hand out its slices
//	shared-gpu-memory       info     time-slicing shares memory without a limit
//	spot-single-type        warning  a GPU pool buys one instance type, spot only
//	old-gpu-generation      warning  a pool admits GPUs that present drivers have dropped
//	gpu-pool-untainted      warning  a pool of GPU nodes only has no taint
//	amd-in-nvidia-pool      info     a GPU pool admits AMD GPUs beside NVIDIA ones
//	mixed-arch              info     a GPU pool admits arm64 nodes beside amd64 ones
//	gpu-startup-taint       warning  a startup taint that keeps the plugin off
//	node-without-gpu        warning  a ready GPU node advertises no GPU
//	node-gpu-amount         warning  a node advertises more or fewer GPUs than its type and config give
//	undeclared-taint        warning  a node has a taint that its pool does not declare
//	drift-stuck             warning  a node has drifted from its pool's taints and its pod can go nowhere else
//	env-visible-devices     warning  a container names its GPUs in NVIDIA_VISIBLE_DEVICES
//	env-cuda-version        warning  CUDA_VERSION shows a container every GPU
//	env-mig-devices         warning  a container names MIG devices to manage
//	sys-admin-gpu-env       warning  SYS_ADMIN beside GPUs named in the environment
//	privileged              warning  a privileged container can land on a GPU node
//	cpu-pod-on-gpu-node     warning  a pod without a GPU tolerates the GPU nodes' taint
//	gpu-zero                warning  a pod asks for 0 GPUs
//	gpu-amount              error    a container asks for a thousand GPUs or more
//	quota-key               error    a ResourceQuota key that counts nothing
//	limit-range-gpu         error    a LimitRange names an extended resource
package rule
