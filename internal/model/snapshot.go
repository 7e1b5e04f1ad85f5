package model

import "time"

// A Snapshot is everything that a decision needs, as plain values. The same
// Snapshot always gives the same plan.
type Snapshot struct {
	Now        time.Time
	Region     string
	Pods       []Pod // pending and bound, in the order in which they were read
	Nodes      []Node
	Pools      []Pool
	Types      []InstanceType
	DaemonSets []DaemonSet
	Sharing    Sharing
	// PriceBasis says where prices come from, for the head of a report: "estimated 2025-07".
	PriceBasis string

	// The rest is read by the checks of internal/rule only.
	Plugins     []Plugin
	Quotas      []Quota
	LimitRanges []LimitRange
	Budgets     []Budget
	Namespaces  map[string]map[string]string // labels by namespace
}

// A DaemonSet puts one pod on every node that its pod may run on.
type DaemonSet struct {
	Namespace string
	Name      string
	Spec      *PodSpec
	Place     Place
}

// A Plugin is an installation of the NVIDIA device plugin, by Helm values, by
// an Argo CD Application, by Terraform or as a DaemonSet.
type Plugin struct {
	Name         string
	ChartVersion string // "" when unknown
	Chart        bool   // installed by the chart: its defaults count where a field is absent
	NodeSelector map[string]string
	Affinity     []Term // required node affinity
	AffinitySet  bool   // given by the user, if only as {} or null
	Tolerations  []Toleration
	TolerateSet  bool
	NFD          bool // nfd.enabled
	GFD          bool // gfd.enabled
	// NFDTolerations are nfd.worker.tolerations as given; nil = the chart's.
	NFDTolerations []Toleration
	ConfigNames    []string
	NoConfig       bool // it reads no ConfigMap: the static manifest
	Place          Place
}

// A Quota is a ResourceQuota's hard limits as written.
type Quota struct {
	Namespace string
	Name      string
	Hard      map[string]string
	Place     Place
}

// A LimitRange is one item of a LimitRange, as written.
type LimitRange struct {
	Namespace string
	Name      string
	Type      string // Container, Pod, PersistentVolumeClaim
	// By field: "max", "min", "default", "defaultRequest", then resource name.
	Fields map[string]map[string]string
	Place  Place
}

// A Budget is a PodDisruptionBudget.
type Budget struct {
	Namespace      string
	Name           string
	Selector       Selector
	MinAvailable   string
	MaxUnavailable string
	Place          Place
}
