package controller

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/kerfdev/kerf/internal/model"
)

// amounts reads a list of resources into the model's units.
func amounts(list corev1.ResourceList) model.Resources {
	out := make(model.Resources, len(list))
	for name, q := range list {
		if name == corev1.ResourceCPU {
			out[string(name)] = q.MilliValue()
		} else {
			out[string(name)] = q.Value()
		}
	}
	return out
}

func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
