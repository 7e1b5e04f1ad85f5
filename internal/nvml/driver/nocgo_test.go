//go:build !cgo

package driver

import (
	"strings"
	"testing"
)

func TestOpenWithoutCgo(t *testing.T) {
	if _, err := Open(Config{Root: "/"}); err == nil || !strings.Contains(err.Error(), "CGO_ENABLED=1") {
		t.Errorf("error %v", err)
	}
}
