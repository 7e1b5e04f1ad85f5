// Package catalog holds what clouds sell: instance types, where they are
// offered and for how much, in dated books that are part of the program, and
// the readers for a user's own types and prices.
//
// # Books
//
// A book of types has one line a type. Its header names the columns: a column
// may name, after its own name, the node labels that carry its value; a column
// whose name begins with + is an extended resource. The cell "" (two quotes) is
// a label with an empty value, an empty cell is no label. A book of prices has
// one section a region, sorted by type as the types are; ~ marks an estimate.
// Both name their sources in their first lines. tools/books writes them.
//
// # What a node keeps for itself
//
// Capacity is what the node reports, Allocatable what its pods get. AWS follows
// the Karpenter provider 1.15 with its defaults and AL2023, and agrees with the
// provider's published table for every type: 64 MiB (Arm only) and 7.5 % of the
// memory never reach the node; the kubelet keeps 6 % of the first core, 1 % of
// the second, 0.5 % of the next two, 0.25 % of the rest, and 255 MiB + 11 MiB
// a pod; eviction keeps 100 MiB; of a 20 GiB disk 17 GiB are left. Pods are
// limited by network interfaces: interfaces of the default card x (addresses
// each - 1) + 2, which is more than the 110 or 250 that many clusters set.
//
// The others are estimates by the rules that their Karpenter providers use:
// Google Cloud keeps 7 % of memory, then 25/20/10/6/2 % of the first 4, next 4,
// next 8, next 112 GiB and the rest, the same CPU steps and 0.1 core for
// kube-proxy, and 51 of 100 GiB of disk; Azure 7.5 %, the same memory steps,
// 6/4/2/1 % of CPU, 750 MiB for eviction and 10 % of 128 GB of disk; Alibaba
// Cloud 7.5 %, the CPU steps of AWS, 200 MiB plus 255 MiB + 11 MiB a pod or a
// quarter of the memory, and 10 % of 40 GiB of disk. All three allow 110 pods.
package catalog

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/model"
)

// A Book is what one region of one cloud sells.
type Book struct {
	Cloud  string // "aws", "gcp", "azure", "alibaba"
	Region string // as the cloud names it, without a prefix
	Date   string // of the prices: "2026-07-20"
	// PriceBasis says where prices come from: "on demand list of 2026-07-20,
	// spot estimated 2025-07".
	PriceBasis string
	// Notes are what a reader of the plan should know of the book: zones that
	// are assumed, types that have no price.
	Notes []string
	Zones []string // every zone of an offering, sorted
	// Types are sorted by name. A type that is not sold in the region has no
	// offerings; it is there so that a message can say so.
	Types []model.InstanceType
}

// Type returns the type of that name.
func (b Book) Type(name string) (model.InstanceType, bool) {
	i, ok := b.find(name)
	if !ok {
		return model.InstanceType{}, false
	}
	return b.Types[i], true
}

func (b Book) find(name string) (int, bool) {
	return slices.BinarySearchFunc(b.Types, name, func(t model.InstanceType, name string) int { return strings.Compare(t.Name, name) })
}

//go:embed books/aws.types.csv
var awsTypes string

//go:embed books/aws.prices.csv
var awsPrices string

//go:embed books/gcp.types.csv
var gcpTypes string

//go:embed books/gcp.prices.csv
var gcpPrices string

//go:embed books/azure.types.csv
var azureTypes string

//go:embed books/azure.prices.csv
var azurePrices string

//go:embed books/alibaba.types.csv
var alibabaTypes string

//go:embed books/alibaba.prices.csv
var alibabaPrices string

// A cloud is the pair of its books and what its nodes keep for themselves.
type cloud struct {
	name, types, prices string
	keeps               keeps
}

// clouds in the order in which a region's name is looked for.
func clouds() []cloud {
	return []cloud{
		{"aws", awsTypes, awsPrices, awsKeeps},
		{"gcp", gcpTypes, gcpPrices, gcpKeeps},
		{"azure", azureTypes, azurePrices, azureKeeps},
		{"alibaba", alibabaTypes, alibabaPrices, alibabaKeeps},
	}
}

// Load returns the book of a region: "us-east-1", or "alibaba:us-east-1" where
// two clouds use one name. A name without a prefix that AWS uses too is AWS's.
func Load(region string) (Book, error) {
	c, name, err := resolve(region)
	if err != nil {
		return Book{}, err
	}
	s, ok := section(c.prices, name)
	if !ok {
		return Book{}, unknown(c, region, name)
	}
	return c.book(name, s)
}

// Unpriced returns the types of an AWS region for which there is no price book,
// without offerings, to be completed by Book.With. Its zones are taken to be a,
// b and c.
func Unpriced(region string) (Book, error) {
	name := strings.TrimPrefix(region, "aws:")
	if !isAWSName(name) {
		return Book{}, fmt.Errorf("%q is not the name of an AWS region", region)
	}
	return clouds()[0].book(name, "zones: "+name+" abc\nbasis: no prices known\nnote: which zones sell a type is not known: zones a, b, c are assumed for all\n")
}

// Regions lists every region with a book, sorted, each as Load takes it.
func Regions() []string {
	var out []string
	for _, c := range clouds() {
		for _, name := range c.regions() {
			if c.name == "alibaba" && isAWSName(name) {
				name = "alibaba:" + name
			}
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// resolve finds the cloud that a region's name belongs to.
func resolve(region string) (cloud, string, error) {
	all := clouds()
	if prefix, name, ok := strings.Cut(region, ":"); ok {
		for _, c := range all {
			if c.name == prefix {
				return c, name, nil
			}
		}
		return cloud{}, "", fmt.Errorf("region %q: there is no cloud %q; clouds are aws, gcp, azure and alibaba", region, prefix)
	}
	for _, c := range all {
		if _, ok := section(c.prices, region); ok && (c.name != "alibaba" || !isAWSName(region)) {
			return c, region, nil
		}
	}
	return all[0], region, nil
}

// unknown says what to use instead of a region without a book.
func unknown(c cloud, region, name string) error {
	if c.name == "aws" && isAWSName(name) {
		hint := ""
		if _, ok := section(alibabaPrices, name); ok {
			hint = "; for Alibaba Cloud's region say alibaba:" + name
		}
		return fmt.Errorf("no prices are known for AWS region %q, only for %s: use the one that is nearest in price, or give your own prices with --prices%s",
			name, strings.Join(c.regions(), ", "), hint)
	}
	known := Regions()
	if strings.Contains(region, ":") {
		known = c.regions()
	}
	if near := manifest.Nearest(name, known); near != "" {
		return fmt.Errorf("no region %q is known; the nearest name is %q", region, near)
	}
	return fmt.Errorf("no region %q is known; regions are %s", region, strings.Join(known, ", "))
}

// isAWSName tells names such as us-east-1 and ap-southeast-3 from cn-beijing,
// us-east1 and eastus. AWS uses every name of this shape that others use too.
func isAWSName(name string) bool {
	parts := strings.Split(name, "-")
	if len(parts) < 3 || len(parts[0]) != 2 {
		return false
	}
	last := parts[len(parts)-1]
	return len(last) == 1 && last[0] >= '1' && last[0] <= '9'
}
