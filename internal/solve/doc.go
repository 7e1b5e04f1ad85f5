// Package solve turns a Snapshot into a plan: which nodes to launch, what goes
// on them and on the nodes that exist, and why the rest goes nowhere.
//
// The way through, a file for each step:
//
//	shapes      pods that no decision can tell apart become one shape with a count
//	pools       which types, zones and capacity types a pool admits
//	kinds       pool x instance type x chosen labels, with what it has for pods
//	classes     selectors, affinity and volumes against kinds, all at once
//	fits        which shapes a kind and a node can hold at all
//	prefer      preferences, given up last-first where they cost
//	attempt     one try: split, fill what exists, buy the rest
//	topology    who counts for whose spread and affinity
//	domains     spread and affinity by zone and the like split shapes by domain
//	bundles     pods that must share a node become one piece
//	hosts       what pods of one node forbid or demand of each other
//	bins        nodes that exist, filled first
//	offers      kinds at a price, without those that another beats
//	fill        the oracle: one node of an offer, filled
//	rounds      cover all pods with filled nodes, learn prices, again
//	columns     of all nodes filled so far, which to take: the restricted master
//	grow        nodes that its duals say are worth more than they cost
//	press       one of those, with loads of its devices, found by climbing a ladder
//	dive        the master's answer made whole
//	exact       the cheapest cover of a few pods, by dynamic programming
//	improve     take some nodes apart and cover their pods better
//	limits      what a pool may still launch
//	scarce      covering where limits bind
//	bound       a price that no plan can go below: yard and master hold the program
//	finish      what was found, as a plan
//	refuse      why a shape goes nowhere: on pools, with labels; on nodes
//	remedy      which single change would help, each tried on changed copies
//
// Amounts are dense vectors over the resources that anybody asks (dims), sets
// are bitsets over small indexes. Everything is deterministic: search is
// bounded by steps, not by time.
package solve
