//go:build !cgo

package node

// driverSpecs has nothing to make CDI specs by: a program without cgo has no
// driver either, and serves recorded inventories only.
func driverSpecs() Specs { return nil }
