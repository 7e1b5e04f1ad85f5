package live

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/kerfdev/kerf/api/manifest"
)

// Document makes a document of an object as the API server gives it: nested
// maps, lists, strings, numbers and booleans. Fields are in alphabetical order.
func Document(object map[string]any) manifest.Document {
	root := tree(object)
	d := manifest.Document{
		Root: root, APIVersion: root.Get("apiVersion").Str(), Kind: root.Get("kind").Str(),
		Namespace: root.At("metadata", "namespace").Str(), Name: root.At("metadata", "name").Str(),
	}
	d.File = d.Title()
	return d
}

// tree is a value without lines.
func tree(value any) *manifest.Node {
	switch v := value.(type) {
	case nil:
		return &manifest.Node{}
	case map[string]any:
		n := &manifest.Node{Kind: manifest.Map, Fields: make([]manifest.Field, 0, len(v))}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			n.Fields = append(n.Fields, manifest.Field{Name: name, Value: tree(v[name])})
		}
		return n
	case []any:
		n := &manifest.Node{Kind: manifest.List, Items: make([]*manifest.Node, 0, len(v))}
		for _, item := range v {
			n.Items = append(n.Items, tree(item))
		}
		return n
	case string:
		return &manifest.Node{Kind: manifest.String, Text: v}
	case bool:
		return &manifest.Node{Kind: manifest.Bool, Text: strconv.FormatBool(v)}
	case int64:
		return &manifest.Node{Kind: manifest.Number, Text: strconv.FormatInt(v, 10)}
	default:
		text, err := json.Marshal(v)
		if err != nil {
			text = []byte(fmt.Sprint(v))
		}
		return &manifest.Node{Kind: manifest.Number, Text: string(text)}
	}
}
