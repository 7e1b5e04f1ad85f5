//go:build !cgo

package driver

import (
	"errors"

	"github.com/kerfdev/kerf/internal/nvml"
)

// Open fails: without cgo no library can be loaded.
func Open(Config) (nvml.Library, error) {
	return nil, errors.New("this program was built without cgo and cannot load NVIDIA's driver library; build it with CGO_ENABLED=1, or give a recorded inventory")
}
