// Package guard says which pods get at GPUs past the device plugin, and which
// objects count GPUs wrongly. GPUs are had through an extended resource or a
// resource claim, or not at all: what a container is shown by any other way is
// counted by nobody, and taken from whoever it was given to.
//
// The rules are values over a small view of a pod. Review applies them to one
// pod and is what an admission webhook calls; Scan applies them to everything
// in some documents; package policy writes the same rules as policies that the
// API server evaluates by itself.
//
// # Ways to a GPU that are not counted
//
// The list is ordered by how a container gets at the GPU. The number is the
// Row of a rule. What the runtime does was run on nvidia-container-toolkit
// 1.20.2; "baseline" is the Pod Security standard of that name.
//
//	 1  NVIDIA_VISIBLE_DEVICES in the pod        every GPU named, also beside a limit
//	 2  the same from elsewhere                  value not to be seen in the pod
//	 3  the same by envFrom                      value not to be seen in the pod
//	 4  CUDA_VERSION                             every GPU, unless one of two others is set
//	 5  the image's own environment              every GPU; not to be seen in the pod
//	 6  privileged                               every device of the node; baseline refuses it
//	 7  SYS_ADMIN and 1 to 5                     works on hardened nodes too; baseline refuses it
//	 8  device files, driver files               opened by privileged containers; baseline refuses it
//	 9  /dev/null mounted as a device list       every GPU named, on nodes that take lists by mounts
//	10  the kubelet's device plugin sockets      a plugin of one's own; baseline refuses it
//	11  runtime sockets, CDI and NRI folders     containers of one's own; baseline refuses it
//	12  cdi.k8s.io annotations                   on runtimes that copy a pod's annotations
//	13  nvidia.cdi.k8s.io annotations            any CDI device, where the NRI plugin runs
//	14  NVIDIA's runtime class without a GPU     what 1, 4 and 5 need on nodes where it is not the default
//	15  MIG configuration and monitoring         every GPU, with SYS_ADMIN
//	16  IMEX, GDS, MOFED, NVSwitch, GDRCopy      devices beside GPUs
//	17  driver capabilities                      more of the driver
//	18  LD_PRELOAD and the like                  a way out through hooks of toolkits before 1.17.8
//	19  hostPID, hostIPC, MPS pipes              other processes' GPUs; baseline refuses it
//	20  debug containers                         1 to 7 in a pod that runs
//	21  DRA admin access                         devices that others hold
//	22  nodeName                                 past the scheduler and taints
//	23  tolerations without a GPU, 0 GPUs        room on GPU nodes
//	24  two schedulers' resources, annotations   a GPU that was not given
//	25  static pods, docker on the node          past the API server
//
// # Who may
//
// Device plugins, drivers and monitors need what others must not have. They are
// known by their identity, a namespace and a service account, or by a label that
// an administrator set on their namespace; never by their own labels, names or
// images, which whoever writes a pod chooses.
package guard
