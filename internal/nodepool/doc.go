// Package nodepool reads Karpenter's objects of every version: NodePools and
// Provisioners become model.Pool, NodeClaims and Machines model.Node in flight,
// NodeOverlays Overlay, and node classes what they change about a node.
//
// One way through: an old object is upgraded to a karpenter.sh/v1 tree
// (upgrade.go, class.go), fields that stand in the wrong place are moved
// (repair.go), the tree is held against the schemas and CEL rules of Karpenter
// 1.15 (schema.go), what is left is completed from its evident meaning, and only
// then read (pool.go). Every step says what it changed, so that Migrate can
// write the tree out again.
//
// schemas/ holds the custom resource definitions of the AWS provider v1.15.0,
// without their prose; TestSchemas rebuilds them with -update and proves that
// they agree with the Karpenter library.
package nodepool
