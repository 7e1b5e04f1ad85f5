// Package e2e holds the end-to-end tests: Kerf's controller in a real control
// plane, over the simulated cloud, while things work and while they fail.
package e2e
