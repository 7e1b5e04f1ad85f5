package intake

import (
	"fmt"
	"slices"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/guard"
	"github.com/kerfdev/kerf/internal/model"
)

// A GuardMode says whether pods that the guard refuses are planned for.
type GuardMode string

// The modes. GuardAuto goes by the input: where an object in it enforces the
// guard, such pods are left out.
const (
	GuardAuto GuardMode = ""
	GuardOn   GuardMode = "on"
	GuardOff  GuardMode = "off"
)

// guard marks the pods that the guard refuses, so that no node is bought for
// what would never be created.
func (l *loader) guard(docs []manifest.Document) {
	if l.options.Guard == GuardOff {
		return
	}
	refusals := guard.Refusals(docs, guard.DefaultExemptions())
	if len(refusals) == 0 {
		return
	}
	sign := guard.Sign(docs)
	enforced := l.options.Guard == GuardOn || sign != ""
	marked, pods := map[*model.PodSpec]*model.PodSpec{}, 0
	for i := range l.snapshot.Pods {
		p := &l.snapshot.Pods[i]
		at := p.Spec.Place
		found := refusals[guard.Spec{File: at.File, Object: at.Object, Field: at.Field}]
		if p.Node != "" || len(found) == 0 {
			continue
		}
		pods++
		if !enforced {
			continue
		}
		if marked[p.Spec] == nil {
			marked[p.Spec] = withVerdicts(p.Spec, found)
		}
		p.Spec = marked[p.Spec]
	}
	if pods > 0 && !enforced {
		l.note(model.Info, "guard", model.Place{}, fmt.Sprintf("kerf's guard would refuse %s, planned for all the same: nothing in the input enforces it", many(pods, "pod")),
			"plan without them: --guard on; kerf guard scan says why")
	}
}

// many writes "1 pod" or "3 pods".
func many(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// withVerdicts copies a spec and adds why the guard refuses it.
func withVerdicts(spec *model.PodSpec, found []guard.Finding) *model.PodSpec {
	out := *spec
	out.Refused = slices.Clone(spec.Refused)
	for _, f := range found {
		v := model.Verdict{Code: model.CodeGuard, Key: f.Rule, Detail: f.Text}
		if f.Fix != "" {
			v.Remedy = []model.Remedy{{Kind: model.RemedyFix, Values: []string{f.Fix}}}
		}
		out.Refused = append(out.Refused, v)
	}
	return &out
}
