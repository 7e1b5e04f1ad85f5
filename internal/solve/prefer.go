package solve

import "github.com/kerfdev/kerf/internal/model"

// best makes the attempt to keep.
func (w *world) best() (*attempt, []model.Relaxation) {
	specs := make([]*model.PodSpec, len(w.group.shapes))
	for i := range specs {
		specs[i] = w.group.shapes[i].spec
	}
	return w.attempt(specs, make([]bool, len(specs))), nil
}
