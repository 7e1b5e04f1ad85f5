package workload

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateContainers(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	at := path.Child("containers")
	if len(spec.Containers) == 0 {
		return field.ErrorList{field.Required(at, "")}
	}
	var errs field.ErrorList
	seen := map[string]bool{}
	for i := range spec.Containers {
		c := &spec.Containers[i]
		errs = append(errs, validateContainer(c, spec.ResourceClaims, at.Index(i))...)
		if seen[c.Name] {
			errs = append(errs, field.Duplicate(at.Index(i).Child("name"), c.Name))
		}
		seen[c.Name] = true
	}
	return append(errs, validateHostPorts(spec.Containers, at)...)
}

func validateInitContainers(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for _, c := range spec.Containers {
		seen[c.Name] = true
	}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		at := path.Index(i)
		errs = append(errs, validateContainer(c, spec.ResourceClaims, at)...)
		if seen[c.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), c.Name))
		}
		seen[c.Name] = seen[c.Name] || c.Name != ""
		errs = append(errs, validateHostPorts(spec.InitContainers[i:i+1], path)...)
	}
	return errs
}

func validateContainer(c *corev1.Container, claims []corev1.PodResourceClaim, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if c.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), ""))
	} else {
		errs = validateDNSLabel(c.Name, path.Child("name"))
	}
	if c.Image == "" {
		errs = append(errs, field.Required(path.Child("image"), ""))
	}
	errs = append(errs, validatePorts(c.Ports, path.Child("ports"))...)
	for i, e := range c.Env {
		if e.Name == "" {
			errs = append(errs, field.Required(path.Child("env").Index(i).Child("name"), ""))
		}
	}
	return append(errs, validateResources(&c.Resources, containerName, claims, path.Child("resources"))...)
}

// validateEphemeral checks ephemeral containers, which nobody can create with
// the pod and which have no resources of their own.
func validateEphemeral(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(spec.EphemeralContainers) == 0 {
		return nil
	}
	seen := map[string]bool{}
	for _, c := range containersOf(spec) {
		seen[c.Name] = true
	}
	for i := range spec.EphemeralContainers {
		c := &spec.EphemeralContainers[i].EphemeralContainerCommon
		at := path.Index(i)
		errs = append(errs, validateContainer((*corev1.Container)(c), spec.ResourceClaims, at)...)
		if seen[c.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), c.Name))
		}
		seen[c.Name] = true
		if c.Ports != nil {
			errs = append(errs, field.Forbidden(at.Child("ports"), "cannot be set for an Ephemeral Container"))
		}
		if r := c.Resources; r.Limits != nil || r.Requests != nil || r.Claims != nil {
			errs = append(errs, field.Forbidden(at.Child("resources"), "cannot be set for an Ephemeral Container"))
		}
	}
	return errs
}

func validatePorts(ports []corev1.ContainerPort, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, p := range ports {
		at := path.Index(i)
		if p.ContainerPort == 0 {
			errs = append(errs, field.Required(at.Child("containerPort"), ""))
		} else {
			errs = append(errs, validatePort(p.ContainerPort, at.Child("containerPort"))...)
		}
		if p.HostPort != 0 {
			errs = append(errs, validatePort(p.HostPort, at.Child("hostPort"))...)
		}
		switch p.Protocol {
		case "", corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP:
		default:
			errs = append(errs, field.NotSupported(at.Child("protocol"), p.Protocol, []corev1.Protocol{corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP}))
		}
	}
	return errs
}

func validatePort(port int32, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range validation.IsValidPortNum(int(port)) {
		errs = append(errs, field.Invalid(path, port, msg))
	}
	return errs
}

// validateHostPorts finds host ports that one pod takes twice.
func validateHostPorts(containers []corev1.Container, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i := range containers {
		for j, p := range containers[i].Ports {
			if p.HostPort == 0 {
				continue
			}
			key := fmt.Sprintf("%s/%s/%d", protocol(p), p.HostIP, p.HostPort)
			if seen[key] {
				errs = append(errs, field.Duplicate(path.Index(i).Child("ports").Index(j).Child("hostPort"), key))
			}
			seen[key] = true
		}
	}
	return errs
}

func protocol(p corev1.ContainerPort) corev1.Protocol {
	if p.Protocol == "" {
		return corev1.ProtocolTCP
	}
	return p.Protocol
}

// validateHostNetwork checks that ports on the host's network are what they say.
func validateHostNetwork(spec *corev1.PodSpec, path *field.Path, isPod bool) field.ErrorList {
	var errs field.ErrorList
	if !spec.HostNetwork {
		return nil
	}
	for i := range spec.Containers {
		for j, p := range spec.Containers[i].Ports {
			if (isPod || p.HostPort != 0) && p.HostPort != p.ContainerPort {
				at := path.Index(i).Child("ports").Index(j).Child("hostPort")
				errs = append(errs, field.Invalid(at, p.HostPort, "must match `containerPort` when `hostNetwork` is true"))
			}
		}
	}
	return errs
}
