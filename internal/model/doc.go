// Package model holds the nouns that every other package speaks: pods, nodes,
// pools, instance types, devices, resources, verdicts, and the Snapshot that
// gathers them. Values only: nothing here decides, reads or prints.
//
// Values are shared freely and never written to after they are built. Whoever
// needs a change makes a copy.
package model
