package review

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/guard"
	"github.com/kerfdev/kerf/internal/source"
)

// What a review says that it is. Answers say the same.
const (
	apiVersion = "admission.k8s.io/v1"
	kind       = "AdmissionReview"
)

// Operations, as admission.k8s.io/v1 names them.
const (
	create  = "CREATE"
	update  = "UPDATE"
	remove  = "DELETE"
	connect = "CONNECT"
)

// A request is what a review asks: the fields of an AdmissionRequest that
// matter here. An object that is not given is nil.
type request struct {
	uid               string
	kind, version     string // of the object
	operation         string
	namespace, name   string
	object, oldObject *manifest.Node
}

// Faults of a review, whoever sent it.
var (
	errNoObject = errors.New("the review holds no object")
	errNoUID    = errors.New("the review has no UID")
	errUnread   = errors.New("read the object")
)

// read reads a review. Fields that are not known are left for later versions of
// the API to mean something by; those that are known may not be given twice, so
// that nobody takes one value and somebody else the other.
func read(body []byte) (*request, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, errNoObject
	}
	root, err := source.JSON(body)
	if err != nil {
		return nil, fmt.Errorf("read the review: %w", err)
	}
	e := envelope{node: root, at: "the review"}
	if v, k := e.text("apiVersion"), e.text("kind"); e.err == nil && (v != apiVersion || k != kind) {
		return nil, fmt.Errorf("the review is %q of %q, and the guard reads %s of %s", cut(k, 60), cut(v, 60), kind, apiVersion)
	}
	e.node, e.at = e.value("request", manifest.Map), "the request"
	r := &request{
		uid: e.text("uid"), operation: e.text("operation"), namespace: e.text("namespace"), name: e.text("name"),
		object: e.object("object"), oldObject: e.object("oldObject"),
	}
	e.node, e.at = e.value("kind", manifest.Map), "the request's kind"
	r.kind, r.version = e.text("kind"), e.text("version")
	if e.err == nil && r.uid == "" {
		return nil, errNoUID
	}
	return r, e.err
}

// An envelope reads fields of one map, and keeps the first error.
type envelope struct {
	node *manifest.Node
	at   string
	err  error
}

// object is a field that holds any value, nil when it is null or not given.
func (e *envelope) object(name string) *manifest.Node {
	var out *manifest.Node
	seen := 0
	for _, f := range fields(e.node) {
		if f.Name == name {
			out, seen = f.Value, seen+1
		}
	}
	if seen > 1 && e.err == nil {
		e.err = fmt.Errorf("%s has %s %d times", e.at, name, seen)
	}
	if out != nil && out.Kind == manifest.Null {
		return nil
	}
	return out
}

// value is a field of a kind, nil when it is null or not given.
func (e *envelope) value(name string, kind manifest.Kind) *manifest.Node {
	n := e.object(name)
	if n != nil && n.Kind != kind && e.err == nil {
		e.err = fmt.Errorf("%s of %s is a %s, not a %s", name, e.at, n.Kind, kind)
	}
	return n
}

func (e *envelope) text(name string) string { return e.value(name, manifest.String).Str() }

func fields(n *manifest.Node) []manifest.Field {
	if n == nil {
		return nil
	}
	return n.Fields
}

// document is an object of the review.
func (r *request) document(root *manifest.Node) (manifest.Document, error) {
	switch {
	case root == nil:
		return manifest.Document{}, errNoObject
	case root.Kind != manifest.Map:
		return manifest.Document{}, fmt.Errorf("%w: it is a %s, not a map", errUnread, root.Kind)
	}
	return manifest.Document{
		Root: root, Kind: cmp.Or(root.Get("kind").Str(), r.kind), APIVersion: cmp.Or(root.Get("apiVersion").Str(), r.version),
		Namespace: cmp.Or(r.namespace, root.At("metadata", "namespace").Str()),
		Name:      cmp.Or(root.At("metadata", "name").Str(), r.name, root.At("metadata", "generateName").Str()),
	}, nil
}

// pods reads the pods of an object. One that is being created has been stored by
// nobody, although the API server has given it a UID by the time it is judged.
func (r *request) pods(d manifest.Document) []guard.Pod {
	list := guard.Pods(d)
	for i := range list {
		list[i].WithoutLines()
		list[i].Namespace = r.namespace
		if r.operation == create {
			list[i].Live = false
		}
	}
	return list
}

// uidOf finds the UID of a review that cannot be read, or of which only the start
// is there; "" when it cannot be found. The API server writes it first.
func uidOf(body []byte) string {
	d := json.NewDecoder(bytes.NewReader(body))
	if !find(d, "request") || !find(d, "uid") {
		return ""
	}
	t, _ := d.Token()
	uid, _ := t.(string)
	return uid
}

// find reads into the map that comes next, up to the value of a key.
func find(d *json.Decoder, key string) bool {
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return false
	}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return false
		}
		if t == key {
			return true
		}
		var other json.RawMessage
		if d.Decode(&other) != nil {
			return false
		}
	}
	return false
}
