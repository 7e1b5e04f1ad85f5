package workload

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kerfdev/kerf/api/manifest"
)

// A problem is one thing in a document that does not fit the type it is read as.
type problem struct {
	Path string // field path as Kubernetes prints it
	Line int
	// Server is what the API server (1.37) says on refusing the whole object;
	// "" for an unknown field, which only strict clients refuse.
	Server string
	Near   string // the field that was probably meant, "" when none is near
	Of     string // type that has no such field: "PodSpec"; "" is the object itself
	Found  string // what stands there, for a person
	Want   string // what belongs there, for a person
}

// A decoder fills Kubernetes API types from document trees. It does what
// sigs.k8s.io/json does when strict, but goes on after an error, and knows the
// line of everything it objects to. It takes the text of a scalar of the wrong
// kind where that has an evident meaning.
type decoder struct {
	plans    map[reflect.Type]*plan
	path     []step
	root     reflect.Type
	status   bool // read the object's status too
	problems []problem
}

// A step is one element of the path that is being read.
type step struct {
	name  string
	index int // of a list when name is ""
	key   bool
	of    reflect.Type // the struct that holds the field, nil otherwise
}

// A plan says how to fill one Go type; it is made once for each type.
type plan struct {
	fields   map[string]int // of a struct: JSON name to an index into found
	found    []reflect.StructField
	names    []string // JSON names in order of declaration
	quantity bool
	custom   bool // it has its own UnmarshalJSON
}

func newDecoder() *decoder { return &decoder{plans: map[reflect.Type]*plan{}} }

// decode reads the document n into the pointer v and returns the problems in
// document order.
func (d *decoder) decode(n *manifest.Node, v any) []problem {
	d.path, d.problems = d.path[:0], nil
	target := reflect.ValueOf(v).Elem()
	d.root = target.Type()
	d.value(n, target)
	return d.problems
}

var (
	quantityType    = reflect.TypeFor[resource.Quantity]()
	unmarshalerType = reflect.TypeFor[json.Unmarshaler]()
)

func (d *decoder) planOf(t reflect.Type) *plan {
	if p, ok := d.plans[t]; ok {
		return p
	}
	p := &plan{quantity: t == quantityType}
	p.custom = !p.quantity && reflect.PointerTo(t).Implements(unmarshalerType)
	if t.Kind() == reflect.Struct && !p.quantity && !p.custom {
		p.fields = map[string]int{}
		p.addFields(t, nil)
	}
	d.plans[t] = p
	return p
}

// addFields lists the fields of t, those of inlined structs as its own.
func (p *plan) addFields(t reflect.Type, index []int) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		f.Index = append(append([]int{}, index...), i)
		if f.Anonymous && name == "" || options == "inline" {
			p.addFields(f.Type, f.Index)
			continue
		}
		if name == "" || name == "-" || !f.IsExported() {
			continue
		}
		p.fields[name] = len(p.found)
		p.found = append(p.found, f)
		p.names = append(p.names, name)
	}
}

func (d *decoder) value(n *manifest.Node, v reflect.Value) {
	if n == nil || n.Kind == manifest.Null {
		return
	}
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		d.value(n, v.Elem())
		return
	}
	switch p := d.planOf(v.Type()); {
	case p.quantity:
		d.quantity(n, v)
	case p.custom:
		d.custom(n, v)
	case v.Kind() == reflect.Struct:
		d.object(n, v, p)
	default:
		d.plain(n, v)
	}
}

func (d *decoder) plain(n *manifest.Node, v reflect.Value) {
	switch v.Kind() {
	case reflect.Map:
		d.dict(n, v)
	case reflect.Slice:
		d.list(n, v)
	case reflect.String:
		if n.Kind != manifest.String {
			d.mismatch(n, v.Type())
		}
		v.SetString(n.Text)
	case reflect.Bool:
		if n.Kind != manifest.Bool {
			d.mismatch(n, v.Type())
		}
		v.SetBool(n.Text == "true")
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		d.integer(n, v)
	default:
		d.mismatch(n, v.Type())
	}
}

func (d *decoder) integer(n *manifest.Node, v reflect.Value) {
	i, err := strconv.ParseInt(n.Text, 10, v.Type().Bits())
	if n.Kind != manifest.Number || err != nil {
		d.mismatch(n, v.Type())
	}
	if err == nil {
		v.SetInt(i)
	}
}

// object fills a struct. A repeated key counts with its last value, as
// everywhere; internal/source names the repetition.
func (d *decoder) object(n *manifest.Node, v reflect.Value, p *plan) {
	if n.Kind != manifest.Map {
		d.mismatch(n, v.Type())
		return
	}
	for i, f := range n.Fields {
		if d.skips(f.Name) || repeatedLater(n.Fields, i) {
			continue
		}
		d.path = append(d.path, step{name: f.Name, of: v.Type()})
		if at, ok := p.fields[f.Name]; ok {
			d.value(f.Value, v.FieldByIndex(p.found[at].Index))
		} else {
			d.unknown(f, v.Type(), p)
		}
		d.path = d.path[:len(d.path)-1]
	}
}

// skips reports whether a field is left unread: what the server writes is no
// mistake of the user's, and there is much of it.
func (d *decoder) skips(name string) bool {
	switch len(d.path) {
	case 0:
		return name == "status" && !d.status
	case 1:
		return name == "managedFields" && d.path[0].name == "metadata"
	}
	return false
}

func repeatedLater(fields []manifest.Field, i int) bool {
	for j := i + 1; j < len(fields); j++ {
		if fields[j].Name == fields[i].Name {
			return true
		}
	}
	return false
}

func (d *decoder) dict(n *manifest.Node, v reflect.Value) {
	if n.Kind != manifest.Map {
		d.mismatch(n, v.Type())
		return
	}
	t := v.Type()
	v.Set(reflect.MakeMapWithSize(t, len(n.Fields)))
	for _, f := range n.Fields {
		d.path = append(d.path, step{name: f.Name, key: true})
		item := reflect.New(t.Elem()).Elem()
		d.value(f.Value, item)
		v.SetMapIndex(reflect.ValueOf(f.Name).Convert(t.Key()), item)
		d.path = d.path[:len(d.path)-1]
	}
}

func (d *decoder) list(n *manifest.Node, v reflect.Value) {
	if n.Kind != manifest.List || v.Type().Elem().Kind() == reflect.Uint8 {
		d.mismatch(n, v.Type())
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Items), len(n.Items)))
	for i, item := range n.Items {
		d.path = append(d.path, step{index: i})
		d.value(item, v.Index(i))
		d.path = d.path[:len(d.path)-1]
	}
}

func (d *decoder) quantity(n *manifest.Node, v reflect.Value) {
	if n.Kind != manifest.String && n.Kind != manifest.Number {
		d.mismatch(n, v.Type())
		return
	}
	text := strings.TrimSpace(n.Text)
	if text == "" {
		return // the API server reads an empty string as zero
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		d.problems = append(d.problems, problem{
			Path: d.pathText(), Line: n.Line, Server: err.Error(),
			Found: strconv.Quote(n.Text), Want: "a quantity such as 1, 500m or 16Gi",
		})
		return
	}
	v.Set(reflect.ValueOf(q))
}

func (d *decoder) custom(n *manifest.Node, v reflect.Value) {
	err := v.Addr().Interface().(json.Unmarshaler).UnmarshalJSON(n.JSON())
	if err != nil {
		d.problems = append(d.problems, problem{
			Path: d.pathText(), Line: n.Line, Server: err.Error(),
			Found: found(n), Want: "a " + v.Type().Name(),
		})
	}
}

func (d *decoder) mismatch(n *manifest.Node, t reflect.Type) {
	d.problems = append(d.problems, problem{
		Path: d.pathText(), Line: n.Line, Server: d.serverWords(n, t), Found: found(n), Want: wanted(t),
	})
}

func (d *decoder) unknown(f manifest.Field, t reflect.Type, p *plan) {
	of := t.Name()
	if t == d.root {
		of = ""
	}
	d.problems = append(d.problems, problem{Path: d.pathText(), Line: f.Line, Of: of, Near: d.meant(f.Name, t, p)})
}

// pathText writes the path as Kubernetes prints it in validation errors.
func (d *decoder) pathText() string {
	var b strings.Builder
	for i, s := range d.path {
		switch {
		case s.name == "" && !s.key:
			b.WriteString("[" + strconv.Itoa(s.index) + "]")
		case s.key:
			b.WriteString("[" + s.name + "]")
		default:
			if i > 0 {
				b.WriteByte('.')
			}
			b.WriteString(s.name)
		}
	}
	return b.String()
}

// serverWords is the message of the API server's JSON decoder: it names the
// innermost struct and the path without indexes and map keys.
func (d *decoder) serverWords(n *manifest.Node, t reflect.Type) string {
	kind := [...]string{"null", "bool", "number", "string", "array", "object"}[n.Kind]
	if n.Kind == manifest.Number && wanted(t) == "a whole number" {
		kind += " " + n.Text
	}
	var names []string
	in := ""
	for _, s := range d.path {
		if s.name == "" || s.key {
			continue
		}
		names = append(names, s.name)
		if s.of != nil {
			in = s.of.Name()
		}
	}
	if in == "" {
		return "json: cannot unmarshal " + kind + " into Go value of type " + t.String()
	}
	return "json: cannot unmarshal " + kind + " into Go struct field " + in + "." + strings.Join(names, ".") + " of type " + t.String()
}

// found names a value as a person would.
func found(n *manifest.Node) string {
	switch n.Kind {
	case manifest.String:
		return "the string " + strconv.Quote(n.Text)
	case manifest.Number, manifest.Bool:
		return "the " + n.Kind.String() + " " + n.Text
	default:
		return "a " + n.Kind.String()
	}
}

// wanted names a type as a person would.
func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list"
	case reflect.Map, reflect.Struct:
		if t == quantityType {
			return "a quantity such as 1, 500m or 16Gi"
		}
		return "a map"
	default:
		return "a whole number"
	}
}
