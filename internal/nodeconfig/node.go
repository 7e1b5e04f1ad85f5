package nodeconfig

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// A Node is what this package sees of the node that it runs on.
type Node struct {
	Name    string
	Labels  map[string]string
	Kubelet string // version "v1.37.2", "" when not known
	Runtime string // "containerd://2.1.4", "" when not known
}

// An API watches one Node object over plain REST: an informer's cache of it
// would be most of the agent's memory.
type API struct {
	HTTP   *http.Client // carries the credentials
	Server string       // URL of the API server
	Node   string       // name of the node
	Log    *slog.Logger

	pause time.Duration // before a second attempt; 0 is a second
}

const (
	watchFor     = 5 * time.Minute // the API server is asked to end a watch after this
	longestPause = 30 * time.Second
)

// Watch calls seen with the node now and after each change of it, until ctx
// ends. It needs the rights to list and watch nodes.
func (a API) Watch(ctx context.Context, seen func(Node)) {
	first := cmp.Or(a.pause, time.Second)
	pause := first
	for ctx.Err() == nil {
		err := a.follow(ctx, func(n Node) {
			pause = first
			seen(n)
		})
		if ctx.Err() != nil {
			return
		}
		if !errors.Is(err, io.EOF) {
			a.Log.Warn("the node cannot be watched", "node", a.Node, "error", err, "retry", pause)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, longestPause)
	}
}

// node is what is read of the API server's object.
type node struct {
	Metadata struct {
		Name            string            `json:"name"`
		Labels          map[string]string `json:"labels"`
		ResourceVersion string            `json:"resourceVersion"`
	} `json:"metadata"`
	Status struct {
		NodeInfo struct {
			KubeletVersion          string `json:"kubeletVersion"`
			ContainerRuntimeVersion string `json:"containerRuntimeVersion"`
		} `json:"nodeInfo"`
	} `json:"status"`
	Message string `json:"message"` // of a Status in the place of a node
}

func (n node) plain() Node {
	return Node{Name: n.Metadata.Name, Labels: n.Metadata.Labels, Kubelet: n.Status.NodeInfo.KubeletVersion, Runtime: n.Status.NodeInfo.ContainerRuntimeVersion}
}

// follow reads the node and watches it from there. It returns io.EOF when the
// API server has ended the watch, as it does now and then.
func (a API) follow(ctx context.Context, seen func(Node)) error {
	var list struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
		Items []node `json:"items"`
	}
	only := url.Values{"fieldSelector": {"metadata.name=" + a.Node}}
	body, err := a.get(ctx, only)
	if err != nil {
		return err
	}
	err = json.NewDecoder(body).Decode(&list)
	if err := errors.Join(err, body.Close()); err != nil {
		return fmt.Errorf("read node %s: %w", a.Node, err)
	}
	if len(list.Items) != 1 || list.Items[0].Metadata.Name != a.Node {
		return fmt.Errorf("there is no node %s; is NODE_NAME the name of this one?", a.Node)
	}
	seen(list.Items[0].plain())
	only.Set("watch", "true")
	only.Set("allowWatchBookmarks", "true")
	only.Set("resourceVersion", list.Metadata.ResourceVersion)
	only.Set("timeoutSeconds", fmt.Sprint(int(watchFor.Seconds())))
	if body, err = a.get(ctx, only); err != nil {
		return err
	}
	defer body.Close()
	for dec := json.NewDecoder(body); ; {
		var e struct {
			Type   string `json:"type"`
			Object node   `json:"object"`
		}
		switch err := dec.Decode(&e); {
		case err != nil:
			return err
		case e.Type == "ERROR":
			return fmt.Errorf("watch node %s: %s", a.Node, e.Object.Message)
		case (e.Type == "ADDED" || e.Type == "MODIFIED") && e.Object.Metadata.Name == a.Node:
			seen(e.Object.plain())
		}
	}
}

// get asks for nodes; the caller closes the body.
func (a API) get(ctx context.Context, query url.Values) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(a.Server, "/")+"/api/v1/nodes?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := a.HTTP.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		var status node
		_ = json.NewDecoder(io.LimitReader(resp.Body, 1<<16)).Decode(&status) // a proxy may answer with something else
		return nil, fmt.Errorf("read node %s: %s %s", a.Node, resp.Status, status.Message)
	}
	return resp.Body, nil
}
