package plane

import (
	"fmt"
	"runtime/debug"
	_ "unsafe" // for go:linkname

	"k8s.io/component-base/version"
)

// gitVersion is the variable that Kubernetes' own build sets with the linker's
// -X. Set here, every build of the lab says the version of the module that it
// was made from, tests run by hand included.
//
//go:linkname gitVersion k8s.io/component-base/version.gitVersion
var gitVersion string

// SetVersion makes what runs in this process say the version of k8s.io/kubernetes
// as its own: Start does, and a program that is a kubelet may.
func SetVersion() error {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return fmt.Errorf("the version of Kubernetes is unknown: built without modules")
	}
	for _, m := range info.Deps {
		if m.Path == "k8s.io/kubernetes" {
			gitVersion = m.Version
			return version.SetDynamicVersion(m.Version)
		}
	}
	return fmt.Errorf("the version of Kubernetes is unknown: %s does not name k8s.io/kubernetes", info.Path)
}
