// Package deviceplugin serves a node's GPUs to its kubelet over the device
// plugin API v1beta1: one gRPC server and one socket for each resource.
//
// What is served is decided elsewhere (internal/gpu) and given to
// Manager.Apply; this package turns it into lists, preferences and answers to
// Allocate, as NVIDIA's k8s-device-plugin v0.20.0 gives them. It does better
// where that plugin is known to fail: a device that is well again is announced,
// a config is switched without a restart, a GPU that a pod holds is never
// handed out a second time under its new name, the kubelet's socket is found
// again after any replacement, and no topology query stands between a pod and
// its device.
package deviceplugin
