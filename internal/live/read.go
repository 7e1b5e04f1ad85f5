package live

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/model"
)

// NotAllowed is the code of notes about kinds that may not be listed.
const NotAllowed = "not-allowed"

// page is how many objects are asked for at once.
const page = 500

// Objects is what a cluster holds, cut down to what Kerf reads.
type Objects struct {
	List []map[string]any // by kind, then as the API server lists them
	// Taken is when they were read, which counts for what is on its way.
	Taken time.Time
	// Notes say what could not be read, and which Karpenter objects the cluster
	// serves in an old version only.
	Notes []model.Note
}

// Documents makes documents of the objects.
func (o Objects) Documents() []manifest.Document {
	out := make([]manifest.Document, 0, len(o.List))
	for _, object := range o.List {
		out = append(out, Document(object))
	}
	return out
}

// Read lists what a decision needs. Kinds that the cluster does not serve are
// passed over. Not to be allowed to list a kind is an error where a plan would
// be wrong without it, and a note elsewhere.
func Read(ctx context.Context, c dynamic.Interface) (Objects, error) {
	r := &reading{client: c, configs: configMaps{}, what: "plan"}
	return r.all(ctx, kinds)
}

// ReadAll lists also what a scan of the guard looks at: what makes pods later,
// and resource claims. Only pods must be listed; what
// else may not be is left out of the scan, with a note.
func ReadAll(ctx context.Context, c dynamic.Interface) (Objects, error) {
	r := &reading{client: c, configs: configMaps{}, what: "scan"}
	list := slices.Concat(kinds, audited)
	for i := range list {
		list[i].needed = list[i].name == "Pod"
		list[i].spared = slices.Contains(planned, list[i].name)
	}
	return r.all(ctx, list)
}

type reading struct {
	client  dynamic.Interface
	configs configMaps
	what    string // is made of it: "plan"
	out     Objects
}

func (r *reading) all(ctx context.Context, list []kind) (Objects, error) {
	r.out.Taken = time.Now()
	for _, k := range list {
		if err := r.kind(ctx, k); err != nil {
			return Objects{}, err
		}
	}
	return r.out, nil
}

// kind lists the objects of one kind in the first version that is served.
func (r *reading) kind(ctx context.Context, k kind) error {
	for i, version := range k.versions {
		n, err := r.list(ctx, k, version)
		switch {
		case apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err):
			continue
		case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
			if k.needed {
				return fmt.Errorf("list %s: %w", k.resource, err)
			}
			if k.spared {
				return nil
			}
			r.note(NotAllowed, model.Warning, "the cluster does not let you list "+k.resource+", so the "+r.what+" is made without them", "ask for the verb list on "+k.resource+describe(k))
			return nil
		case err != nil:
			return fmt.Errorf("list %s: %w", k.resource, err)
		}
		if old := i > 0 || k.versions[0] == "v1alpha5" || k.name == "AWSNodeTemplate"; old && k.own() && n > 0 {
			r.note("old-version", model.Warning, fmt.Sprintf("the cluster has %d %s of %s/%s, which karpenter 1.15 does not serve", n, k.resource, k.group, version),
				fmt.Sprintf("kubectl get %s.%s -o yaml | kerf migrate -f -", k.resource, k.group))
		}
		return nil
	}
	return nil
}

func describe(k kind) string {
	if k.group == "" {
		return ""
	}
	return " of " + k.group
}

func (r *reading) note(code string, s model.Severity, text, fix string) {
	r.out.Notes = append(r.out.Notes, model.Note{Code: code, Severity: s, Text: text, Fix: fix})
}

// list reads one kind page by page and returns how many objects there are.
func (r *reading) list(ctx context.Context, k kind, version string) (int, error) {
	n := 0
	options := metav1.ListOptions{Limit: page}
	for {
		got, err := r.client.Resource(k.at(version)).List(ctx, options)
		if err != nil {
			return n, err
		}
		for i := range got.Items {
			n++
			object := got.Items[i].Object
			object["kind"], object["apiVersion"] = k.name, k.at(version).GroupVersion().String()
			if object = Keep(object); r.keeps(k, object) {
				r.out.List = append(r.out.List, object)
			}
		}
		if options.Continue = got.GetContinue(); options.Continue == "" {
			return n, nil
		}
	}
}

// keeps reports whether an object is of use.
func (r *reading) keeps(k kind, object map[string]any) bool {
	switch k.name {
	case "DaemonSet":
		r.configs.mounts(object)
	case "ConfigMap":
		return r.configs.keep(object)
	case "ReplicaSet":
		return !retired(object)
	case "Pod":
		return !ended(object)
	}
	return true
}

// retired reports whether a ReplicaSet is one of the many that a Deployment
// keeps for rolling back to.
func retired(object map[string]any) bool {
	spec, _ := object["spec"].(map[string]any)
	meta, _ := object["metadata"].(map[string]any)
	owners, _ := meta["ownerReferences"].([]any)
	replicas, given := spec["replicas"].(int64)
	return given && replicas == 0 && len(owners) > 0
}

// ended reports whether a pod has ended and takes nothing any more.
func ended(object map[string]any) bool {
	status, _ := object["status"].(map[string]any)
	phase, _ := status["phase"].(string)
	return slices.Contains([]string{"Succeeded", "Failed"}, phase)
}

// Unreachable reports whether an error means that no API server answered, and
// says why in few words.
func Unreachable(err error) (why string, ok bool) {
	var dial *url.Error
	if !errors.As(err, &dial) {
		return "", false
	}
	host := dial.URL
	if u, parsed := url.Parse(dial.URL); parsed == nil {
		host = u.Scheme + "://" + u.Host
	}
	text := dial.Err.Error()
	if i := strings.LastIndex(text, ": "); i >= 0 {
		text = text[i+2:]
	}
	return host + ": " + text, true
}
