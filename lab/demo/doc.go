// Package demo shows the lab at work, to a person who watches: pods that share
// GPUs and pods that do not, the nodes that Kerf buys for them, what is left when
// the load drops, and what Karpenter would have bought.
package demo
