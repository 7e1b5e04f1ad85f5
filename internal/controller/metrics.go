package controller

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/plan"
)

// The metrics of this package, beside those of Karpenter's library. They are
// registered once for the process, however many controllers it runs in turn.
var (
	solveSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "kerf_solve_seconds", Help: "Time that it took to plan, proof included.", Buckets: prometheus.ExponentialBuckets(0.002, 2, 14),
	})
	solveGap = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "kerf_solve_gap_ratio", Help: "How far the last plan's price may be from the least possible one, as a part of it; -1 when nothing was proven.",
	})
	loopSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "kerf_loop_seconds", Help: "Time from the end of a batch until its NodeClaims were created.", Buckets: prometheus.ExponentialBuckets(0.002, 2, 14),
	})
	launchFailures = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kerf_launch_failures_total", Help: "Launches that the cloud refused, by reason.",
	}, []string{"reason"})
	claimsCreated = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kerf_nodeclaims_created_total", Help: "NodeClaims created for pods that waited.",
	}, []string{"nodepool"})
	plansRefused = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "kerf_plans_refused_total", Help: "Plans that did not hold when they were looked over, and were not carried out.",
	})

	fleet = &board{descs: map[string]*prometheus.Desc{
		poolPrice:       desc(poolPrice, "Price of the nodes of a NodePool, those in flight included.", "nodepool"),
		gpusAllocatable: desc(gpusAllocatable, "GPUs and slices that the nodes of a NodePool advertise or will advertise.", "nodepool", "resource"),
		gpuDevices:      desc(gpuDevices, "Physical GPUs of the nodes of a NodePool.", "nodepool", "model"),
		gpusRequested:   desc(gpusRequested, "GPUs and slices that pods ask for, by whether they have a node.", "resource", "state"),
		pendingPods:     desc(pendingPods, "Pods that wait, by reason: a node is ordered, or the check by which the first pool refuses them.", "reason"),
	}}
)

// Names of the gauges that show the cluster as it was last seen.
const (
	poolPrice       = "kerf_nodepool_price_dollars_per_hour"
	gpusAllocatable = "kerf_gpu_allocatable"
	gpuDevices      = "kerf_gpu_devices"
	gpusRequested   = "kerf_gpu_requested"
	pendingPods     = "kerf_pending_pods"
)

func init() {
	metrics.Registry.MustRegister(solveSeconds, solveGap, loopSeconds, launchFailures, claimsCreated, plansRefused, fleet)
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// A board shows figures that change together.
type board struct {
	descs map[string]*prometheus.Desc

	mu     sync.Mutex
	figure map[[3]string]float64 // by name and up to two labels
}

// Describe implements prometheus.Collector.
func (b *board) Describe(out chan<- *prometheus.Desc) {
	for _, d := range b.descs {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (b *board) Collect(out chan<- prometheus.Metric) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, v := range b.figure {
		labels := key[1:]
		if key[0] == pendingPods || key[0] == poolPrice {
			labels = key[1:2]
		}
		out <- prometheus.MustNewConstMetric(b.descs[key[0]], prometheus.GaugeValue, v, labels...)
	}
}

func (b *board) show(figure map[[3]string]float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.figure = figure
}

func launchFailed(reason string) { launchFailures.WithLabelValues(reason).Inc() }

func created(pool string) { claimsCreated.WithLabelValues(pool).Inc() }

func solved(took time.Duration, p plan.Plan) {
	solveSeconds.Observe(took.Seconds())
	gap, known := p.Gap()
	if !known {
		gap = -1
	}
	solveGap.Set(gap)
}

// show puts the cluster as it was seen, and what was decided, on the board.
func show(v *view, refused []model.Refusal) {
	out := map[[3]string]float64{}
	for i := range v.snapshot.Pools {
		out[[3]string{poolPrice, v.snapshot.Pools[i].Name}] = 0
	}
	for i := range v.snapshot.Nodes {
		n := &v.snapshot.Nodes[i]
		out[[3]string{poolPrice, n.Pool}] += n.Price
		for name, amount := range n.Allocatable {
			if model.IsGPU(name) {
				out[[3]string{gpusAllocatable, n.Pool, name}] += float64(amount)
			}
		}
		for _, d := range n.Devices {
			out[[3]string{gpuDevices, n.Pool, d.Model}]++
		}
	}
	for i := range v.snapshot.Pods {
		state := "bound"
		if v.objects[i].Spec.NodeName == "" {
			state = "pending"
		}
		for name, amount := range v.snapshot.Pods[i].Spec.Requests {
			if model.IsGPU(name) {
				out[[3]string{gpusRequested, name, state}] += float64(amount)
			}
		}
	}
	pending(out, v, refused)
	fleet.show(out)
}

// pending counts the pods that wait, by reason.
func pending(out map[[3]string]float64, v *view, refused []model.Refusal) {
	left := map[int]bool{}
	for _, r := range refused {
		for _, i := range r.Pods {
			left[i] = true
		}
		out[[3]string{pendingPods, reasonOf(r)}] += float64(len(r.Pods))
	}
	for _, i := range v.waiting {
		if !left[i] {
			out[[3]string{pendingPods, "node-ordered"}]++
		}
	}
}

func reasonOf(r model.Refusal) string {
	if len(r.Verdicts) == 0 {
		return "unknown"
	}
	at := slices.IndexFunc(r.Verdicts, func(v model.Verdict) bool { return v.Pool != "" && v.Node == "" })
	return string(r.Verdicts[max(at, 0)].Code)
}
