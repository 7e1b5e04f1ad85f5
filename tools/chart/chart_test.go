package chart

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestX(t *testing.T) { _ = cmp.Diff }
