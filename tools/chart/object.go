package chart

// text is a field at the top of an object.
func (o Object) text(field string) string {
	v, _ := o[field].(string)
	return v
}

// at follows fields to a map; a missing one has none.
func (o Object) at(fields ...string) Object {
	for _, f := range fields {
		next, _ := o[f].(map[string]any)
		o = next
	}
	return o
}

func (o Object) name() string      { return o.at("metadata").text("name") }
func (o Object) namespace() string { return o.at("metadata").text("namespace") }

// pod is the pod spec of a workload.
func (o Object) pod() Object { return o.at("spec", "template", "spec") }

// container is the only one of a workload.
func (o Object) container() Object {
	list, _ := o.pod()["containers"].([]any)
	if len(list) != 1 {
		return nil
	}
	c, _ := list[0].(map[string]any)
	return c
}

// list is a list of texts.
func (o Object) list(field string) []string {
	var out []string
	items, _ := o[field].([]any)
	for _, item := range items {
		if s, ok := item.(string); ok {
			out = append(out, s)
		}
	}
	return out
}
