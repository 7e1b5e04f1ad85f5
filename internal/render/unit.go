package render

import (
	"strconv"
	"strings"

	"github.com/kerfdev/kerf/internal/model"
)

// hourly writes a price: three places, four below a cent, two from 100 $/h on.
func hourly(v float64) string {
	switch {
	case v > 0 && v < 0.01:
		return grouped(v, 4)
	case v < 100:
		return grouped(v, 3)
	}
	return grouped(v, 2)
}

// monthly writes the price of a month of 730 hours.
func monthly(v float64) string {
	v *= hoursAMonth
	if v < 100 {
		return grouped(v, 2)
	}
	return grouped(v, 0)
}

// grouped writes v with commas between thousands.
func grouped(v float64, places int) string {
	whole, frac, _ := strings.Cut(strconv.FormatFloat(v, 'f', places, 64), ".")
	for i := len(whole) - 3; i > 0 && whole[i-1] != '-'; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if frac == "" {
		return whole
	}
	return whole + "." + frac
}

// count writes n things: "1 node", "2,000 nodes".
func count(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return number(n) + " " + one + "s"
}

func number(n int) string { return grouped(float64(n), 0) }

// cores writes thousandths of a core as cores.
func cores(milli int64) string { return tenths(float64(milli) / 1000) }

// gib writes bytes as GiB, without the unit.
func gib(bytes int64) string { return tenths(float64(bytes) / (1 << 30)) }

func tenths(v float64) string {
	if v >= 1000 {
		return grouped(v, 0)
	}
	return strconv.FormatFloat(v, 'f', 1, 64)
}

// amount writes v of a resource in the unit that manifests use.
func amount(resource string, v int64) string {
	switch {
	case resource == model.CPU && v%1000 != 0:
		return strconv.FormatInt(v, 10) + "m"
	case resource == model.CPU:
		return strconv.FormatInt(v/1000, 10)
	case resource == model.Memory, resource == model.EphemeralStorage, strings.HasPrefix(resource, "hugepages-"):
		return binary(v)
	}
	return strconv.FormatInt(v, 10)
}

// binary writes bytes with the largest binary unit that leaves a whole number,
// or with one decimal when none does.
func binary(v int64) string {
	units := []string{"", "Ki", "Mi", "Gi", "Ti"}
	i := 0
	for v != 0 && v%1024 == 0 && i < len(units)-1 {
		v /= 1024
		i++
	}
	if v < 10240 {
		return strconv.FormatInt(v, 10) + units[i]
	}
	f := float64(v)
	for f >= 1024 && i < len(units)-1 {
		f /= 1024
		i++
	}
	return strconv.FormatFloat(f, 'f', 1, 64) + units[i]
}

// percent is part of whole as a whole number of percent.
func percent(part, whole int64) string {
	if whole <= 0 {
		return "0 %"
	}
	return strconv.FormatInt((part*100+whole/2)/whole, 10) + " %"
}

// zonesOf folds zones that share a prefix: us-east-1a|b|c.
func zonesOf(zones []string) string {
	if len(zones) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString(zones[0])
	stem := zones[0][:max(len(zones[0])-1, 0)]
	for _, z := range zones[1:] {
		b.WriteByte('|')
		if rest, ok := strings.CutPrefix(z, stem); ok && rest != "" {
			b.WriteString(rest)
		} else {
			b.WriteString(z)
		}
	}
	return b.String()
}
