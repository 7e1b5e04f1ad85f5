// Package constraint answers one question: may this pod run there, and if not,
// which clause says no.
//
// It has two views of a node's labels. A node that exists has labels, and
// MatchTerm, MatchNode and MatchSelector compare with those as Kubernetes 1.37
// does. A node that is yet to be launched has only requirements, and a Set
// computes with those as Karpenter 1.15 does: which values each label may still
// take, and whether a pod and a pool leave any in common.
//
// Tolerates, PortsConflict and the counting rules of topology spread and pod
// affinity complete the list. Nothing here keeps state.
package constraint
