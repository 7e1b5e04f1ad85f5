package deviceplugin

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the figures of a Manager for Prometheus. A nil Metrics counts
// nothing.
type Metrics struct {
	latency  *prometheus.HistogramVec
	healthy  *prometheus.Desc
	xid      *prometheus.Desc
	devices  *prometheus.Desc
	inUse    *prometheus.Desc
	config   *prometheus.Desc
	withheld *prometheus.Desc
	manager  *Manager
}

// NewMetrics returns figures to be registered with a registry, once the manager
// that they are given to exists.
func NewMetrics() *Metrics {
	return &Metrics{
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kerf_node_allocate_seconds", Help: "time that answering Allocate took",
			Buckets: []float64{.00005, .0001, .0005, .001, .005, .01, .05, .1, .5, 1, 5},
		}, []string{"resource"}),
		xid:      prometheus.NewDesc("kerf_node_device_last_xid", "last Xid error of a GPU; absent when it had none", []string{"uuid"}, nil),
		healthy:  prometheus.NewDesc("kerf_node_device_healthy", "1 when the device is offered as healthy, 0 when not; the reason says why", []string{"uuid", "index", "gpu", "reason"}, nil),
		devices:  prometheus.NewDesc("kerf_node_resource_devices", "devices of a resource, by what the kubelet is told", []string{"resource", "health"}, nil),
		inUse:    prometheus.NewDesc("kerf_node_device_allocated", "allocations of a device under a resource, as the kubelet reports them", []string{"uuid", "resource"}, nil),
		config:   prometheus.NewDesc("kerf_node_config_info", "the device config that is served", []string{"config"}, nil),
		withheld: prometheus.NewDesc("kerf_node_resource_withheld", "devices of a resource that wait for pods of an earlier config to end", []string{"resource"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (x *Metrics) Describe(out chan<- *prometheus.Desc) {
	x.latency.Describe(out)
	for _, d := range []*prometheus.Desc{x.healthy, x.xid, x.devices, x.inUse, x.config, x.withheld} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (x *Metrics) Collect(out chan<- prometheus.Metric) {
	x.latency.Collect(out)
	if x.manager == nil {
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	st := x.manager.Status()
	gauge(x.config, 1, st.Config)
	for _, r := range st.Resources {
		gauge(x.devices, float64(r.Healthy), r.Name, "healthy")
		gauge(x.devices, float64(r.Devices-r.Healthy), r.Name, "unhealthy")
		gauge(x.withheld, float64(r.Withheld), r.Name)
	}
	for _, d := range st.Devices {
		v := 1.0
		if d.Reason != "" {
			v = 0
		}
		gauge(x.healthy, v, d.UUID, d.Index, d.GPU, d.Reason)
	}
	if x.manager.LastXids != nil {
		for uuid, xid := range x.manager.LastXids() {
			gauge(x.xid, float64(xid), uuid)
		}
	}
	x.collectUse(st, gauge)
}

// collectUse asks the kubelet for the allocations of the devices.
func (x *Metrics) collectUse(st Status, gauge func(*prometheus.Desc, float64, ...string)) {
	if x.manager.Holder == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	held, err := x.manager.Holder.Holdings(ctx)
	if err != nil {
		return // an absent figure is better than a wrong one
	}
	counts := map[[2]string]int{}
	for _, d := range st.Devices {
		for _, name := range d.Resources {
			counts[[2]string{d.UUID, name}] = 0
		}
	}
	for _, h := range held {
		uuid, _ := split(h.ID)
		if _, ours := counts[[2]string{uuid, h.Resource}]; ours {
			counts[[2]string{uuid, h.Resource}]++
		}
	}
	for k, n := range counts {
		gauge(x.inUse, float64(n), k[0], k[1])
	}
}

func (x *Metrics) allocated(resource string, took time.Duration) {
	if x != nil {
		x.latency.WithLabelValues(resource).Observe(took.Seconds())
	}
}
