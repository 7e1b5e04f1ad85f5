// Package review judges and repairs what the API server asks about: an
// AdmissionReview comes in as bytes, the answer goes out as bytes.
//
// A review is read once, strictly: as admission.k8s.io/v1, by names in their own
// case, no name of the envelope twice. One that cannot be read is refused, and
// its refusal names the review wherever its UID can be found: the API server
// takes an answer to no review for a call that failed, and a guard that fails
// open would let the object in.
//
// An update is judged by what it adds: what an object broke before stays as it
// was, so that labels, finalizers and deletions never wait for a rule.
package review
