//go:build !cgo

// Package driver is empty without cgo: NVIDIA's CDI library needs it.
package driver
