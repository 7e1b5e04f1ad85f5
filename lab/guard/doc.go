// Package guard tests Kerf's guard (internal/admission, internal/policy) on a
// real API server, and so has nothing but tests.
//
// KERF_LAB_KUBECONFIG names the kubeconfig of a running kerf-lab to use instead
// of a control plane of the tests' own; with the tag prebuilt they then compile
// in seconds.
package guard
