package catalog

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/kerfdev/kerf/internal/model"
)

// ParseInstanceTypes reads the JSON that "aws ec2 describe-instance-types"
// prints: one page, several pages one after the other or in an array, or a bare
// array of types. Types come back sorted, without offerings and without a
// region's label, which Book.With adds. Branch interfaces of pods and, of many
// types, the network bandwidth are not part of that answer: Book.With takes
// them from the book where it knows the type. An error names the line.
func ParseInstanceTypes(data []byte) ([]model.InstanceType, error) {
	r := typeReader{data: data, seen: map[string]int64{}}
	d := json.NewDecoder(bytes.NewReader(data))
	for {
		var page json.RawMessage
		err := d.Decode(&page)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, jsonError(data, 0, d.InputOffset(), err)
		}
		if err := r.page(page, d.InputOffset()-int64(len(page))); err != nil {
			return nil, err
		}
	}
	if len(r.types) == 0 {
		return nil, errors.New("no instance types found; expected the JSON that aws ec2 describe-instance-types prints")
	}
	slices.SortFunc(r.types, func(a, b model.InstanceType) int { return strings.Compare(a.Name, b.Name) })
	return r.types, nil
}

// typeReader gathers types from pages.
type typeReader struct {
	data  []byte
	types []model.InstanceType
	seen  map[string]int64 // offset at which each type was read
}

// page reads a value that begins at an offset of the file: an object with
// InstanceTypes, or an array of such objects or of types.
func (r *typeReader) page(raw json.RawMessage, offset int64) error {
	if raw[0] == '[' {
		return elements(r.data, raw, offset, r.object)
	}
	return r.object(raw, offset)
}

func (r *typeReader) object(raw json.RawMessage, offset int64) error {
	var keys struct {
		InstanceTypes json.RawMessage
		InstanceType  json.RawMessage
	}
	if raw[0] == '{' {
		if err := json.Unmarshal(raw, &keys); err != nil {
			return jsonError(r.data, offset, 0, err)
		}
	}
	switch {
	case keys.InstanceType != nil:
		return r.read(raw, offset)
	case len(keys.InstanceTypes) > 0 && keys.InstanceTypes[0] == '[':
		at := offset + int64(bytes.Index(raw, keys.InstanceTypes))
		return elements(r.data, keys.InstanceTypes, at, r.read)
	}
	return atLine(line(r.data, offset), "expected an object with a list InstanceTypes, as aws ec2 describe-instance-types prints")
}

// elements hands each element of an array and its offset to each.
func elements(data []byte, array json.RawMessage, offset int64, each func(json.RawMessage, int64) error) error {
	d := json.NewDecoder(bytes.NewReader(array))
	if _, err := d.Token(); err != nil {
		return jsonError(data, offset, 0, err)
	}
	for d.More() {
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return jsonError(data, offset, d.InputOffset(), err)
		}
		if err := each(v, offset+d.InputOffset()-int64(len(v))); err != nil {
			return err
		}
	}
	return nil
}

// read adds one type. A type that comes again must say the same.
func (r *typeReader) read(raw json.RawMessage, offset int64) error {
	if raw[0] != '{' {
		return atLine(line(r.data, offset), "expected an object that describes an instance type")
	}
	var e ec2Type
	if err := json.Unmarshal(raw, &e); err != nil {
		return jsonError(r.data, offset, 0, err)
	}
	if err := e.check(); err != nil {
		return atLine(line(r.data, offset), "instance type %q: %w", e.InstanceType, err)
	}
	t := e.instanceType()
	if first, ok := r.seen[t.Name]; ok {
		i := slices.IndexFunc(r.types, func(have model.InstanceType) bool { return have.Name == t.Name })
		if !reflect.DeepEqual(r.types[i], t) {
			return atLine(line(r.data, offset), "instance type %q was already described, differently, on line %d: keep one", t.Name, line(r.data, first))
		}
		return nil
	}
	r.seen[t.Name] = offset
	r.types = append(r.types, t)
	return nil
}

// line is the line, counted from 1, of an offset.
func line(data []byte, offset int64) int {
	offset = max(0, min(offset, int64(len(data))))
	return 1 + bytes.Count(data[:offset], []byte("\n"))
}

// jsonError says where JSON is broken or of the wrong type. base is the offset
// in data of the text that was decoded, at where decoding stopped in it.
func jsonError(data []byte, base, at int64, err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return atLine(line(data, base+max(at, syntax.Offset)), "not JSON: %w", err)
	case errors.As(err, &kind):
		return atLine(line(data, base+kind.Offset), "%s is a JSON %s; expected %s", cmp.Or(kind.Field, "the value"), kind.Value, kind.Type)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return atLine(line(data, int64(len(data))), "the JSON ends too early; was the file cut off?")
	}
	return atLine(line(data, base+at), "%w", err)
}
