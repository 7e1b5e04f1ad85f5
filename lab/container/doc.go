// Package container tests kerf-node on a whole node, and so has nothing but
// tests: a control plane, a kubelet and containerd, all real, start containers
// on the GPUs of a recorded inventory.
//
// The node is a machine of its own (kubelet.Alone): its processes, mounts and
// network end with the test, and its cgroups are below one that the test
// removes. It takes root and Debian's packages containerd, runc,
// containernetworking-plugins and busybox-static; without them the tests are
// skipped and say why. Images are made here, so nothing is pulled.
package container
