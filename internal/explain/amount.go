package explain

import (
	"math"
	"strconv"
	"strings"

	"github.com/kerfdev/kerf/internal/model"
)

const (
	mebi = 1 << 20
	gibi = 1 << 30
)

// amount writes how much of a resource in a reader's words: "4 cores",
// "8 GiB", "2 GPUs", "3 nvidia.com/gpu.shared".
func amount(resource string, n int64) string {
	switch {
	case resource == model.CPU && n == 1000:
		return "1 core"
	case resource == model.CPU:
		return bare(resource, n) + " cores"
	case resource == model.Memory:
		return bare(resource, n) + " of memory"
	case isBytes(resource):
		return bare(resource, n) + " of " + resource
	case resource == model.NvidiaGPU || resource == "amd.com/gpu":
		return plural(n, "GPU")
	case resource == model.Pods || resource == model.Nodes:
		return plural(n, strings.TrimSuffix(resource, "s"))
	case resource == "":
		return strconv.FormatInt(n, 10)
	}
	return strconv.FormatInt(n, 10) + " " + resource
}

// bare writes an amount without the name of what it counts: cpu in cores,
// bytes in MiB or GiB from 1 MiB on, everything else as it is.
func bare(resource string, n int64) string {
	switch {
	case resource == model.CPU:
		return decimal(float64(n)/1000, 3)
	case !isBytes(resource):
		return strconv.FormatInt(n, 10)
	case n < mebi && n > -mebi:
		return plural(n, "byte")
	case n < gibi && n > -gibi:
		return decimal(float64(n)/mebi, 1) + " MiB"
	}
	return decimal(float64(n)/gibi, 1) + " GiB"
}

// quantity writes an amount as a manifest does: "1500m", "8Gi", "2".
func quantity(resource string, n int64) string {
	switch {
	case resource == model.CPU && n%1000 != 0:
		return strconv.FormatInt(n, 10) + "m"
	case resource == model.CPU:
		return strconv.FormatInt(n/1000, 10)
	case !isBytes(resource):
		return strconv.FormatInt(n, 10)
	case n%gibi == 0:
		return strconv.FormatInt(n/gibi, 10) + "Gi"
	case n%mebi == 0:
		return strconv.FormatInt(n/mebi, 10) + "Mi"
	}
	return strconv.FormatInt(n, 10)
}

func isBytes(resource string) bool {
	return resource == model.Memory || resource == model.EphemeralStorage || strings.HasPrefix(resource, "hugepages-")
}

// decimal writes a number with at most that many decimals and no trailing zeros.
func decimal(v float64, places int) string {
	p := math.Pow10(places)
	return strconv.FormatFloat(math.Round(v*p)/p, 'f', -1, 64)
}

// resourceOf takes the resource out of a quota's key: "requests.cpu" counts cpu.
func resourceOf(key string) string {
	for _, p := range []string{"requests.", "limits."} {
		key = strings.TrimPrefix(key, p)
	}
	return key
}
