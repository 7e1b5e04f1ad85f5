package discovery

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Manager is the field manager of the labels.
const Manager = "kerf-node"

// A Client writes to one Node object. HTTP carries the credentials.
type Client struct {
	HTTP   *http.Client
	Server string // URL of the API server
	Node   string // name of the Node
}

// ApplyLabels makes labels the set that this agent keeps on the Node: those of
// before that are not among them go. It needs the right to patch nodes.
func (c *Client) ApplyLabels(ctx context.Context, labels map[string]string) error {
	metadata := map[string]any{"name": c.Node}
	if len(labels) > 0 {
		metadata["labels"] = labels
	}
	err := c.call(ctx, request{
		method: http.MethodPatch, path: c.node() + "?fieldManager=" + Manager + "&force=true", kind: "application/apply-patch+yaml",
		body: map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": metadata},
	}, nil)
	if err != nil {
		return fmt.Errorf("label node %s: %w", c.Node, err)
	}
	return nil
}

// RemoveLabels takes away every label that ApplyLabels has set.
func (c *Client) RemoveLabels(ctx context.Context) error { return c.ApplyLabels(ctx, nil) }

// A Condition is one condition of a Node.
type Condition struct {
	Type    string
	True    bool
	Reason  string // one word in CamelCase
	Message string
}

// condition is how the API server has it.
type condition struct {
	Type       string    `json:"type"`
	Status     string    `json:"status"`
	Reason     string    `json:"reason"`
	Message    string    `json:"message"`
	Heartbeat  time.Time `json:"lastHeartbeatTime"`
	Transition time.Time `json:"lastTransitionTime"`
}

// SetCondition sets a condition of the Node. Since when it holds is kept when
// only the reason changes, also across a restart of the agent: Karpenter counts
// from there. It needs the rights to get nodes and to patch nodes/status.
func (c *Client) SetCondition(ctx context.Context, to Condition) error {
	var node struct {
		Status struct {
			Conditions []condition `json:"conditions"`
		} `json:"status"`
	}
	if err := c.call(ctx, request{method: http.MethodGet, path: c.node()}, &node); err != nil {
		return fmt.Errorf("read node %s: %w", c.Node, err)
	}
	now := time.Now().UTC().Truncate(time.Second)
	next := condition{Type: to.Type, Status: "False", Reason: to.Reason, Message: to.Message, Heartbeat: now, Transition: now}
	if to.True {
		next.Status = "True"
	}
	for _, old := range node.Status.Conditions {
		if old.Type == next.Type && old.Status == next.Status && !old.Transition.IsZero() {
			next.Transition = old.Transition
		}
	}
	err := c.call(ctx, request{
		method: http.MethodPatch, path: c.node() + "/status?fieldManager=" + Manager, kind: "application/strategic-merge-patch+json",
		body: map[string]any{"status": map[string]any{"conditions": []condition{next}}},
	}, nil)
	if err != nil {
		return fmt.Errorf("set condition %s of node %s: %w", to.Type, c.Node, err)
	}
	return nil
}

// An Event is told of the Node, where `kubectl describe node` shows it.
type Event struct {
	Warning bool
	Reason  string // one word in CamelCase
	Message string
}

// maxMessage is the longest message that the API server takes.
const maxMessage = 1024

// SendEvent tells an event. It needs the right to create events.
func (c *Client) SendEvent(ctx context.Context, e Event) error {
	now := time.Now().UTC()
	kind := "Normal"
	if e.Warning {
		kind = "Warning"
	}
	if len(e.Message) > maxMessage {
		e.Message = strings.ToValidUTF8(e.Message[:maxMessage], "")
	}
	err := c.call(ctx, request{method: http.MethodPost, path: "/api/v1/namespaces/default/events", kind: "application/json", body: map[string]any{
		"apiVersion": "v1", "kind": "Event",
		"metadata":       map[string]any{"generateName": c.Node + ".", "namespace": "default"},
		"involvedObject": map[string]any{"apiVersion": "v1", "kind": "Node", "name": c.Node, "uid": c.Node}, // the kubelet's events have the name as uid too
		"type":           kind, "reason": e.Reason, "message": e.Message,
		"source":         map[string]any{"component": Manager, "host": c.Node},
		"firstTimestamp": now.Format(time.RFC3339), "lastTimestamp": now.Format(time.RFC3339), "count": 1,
	}}, nil)
	if err != nil {
		return fmt.Errorf("send event %s of node %s: %w", e.Reason, c.Node, err)
	}
	return nil
}

func (c *Client) node() string { return "/api/v1/nodes/" + url.PathEscape(c.Node) }

// A request is one REST call.
type request struct {
	method, path, kind string
	body               any
}

// answerLimit bounds what is read of an answer; a Node object may hold a list of
// images.
const answerLimit = 16 << 20

// call makes a call and decodes the answer into out, unless that is nil.
func (c *Client) call(ctx context.Context, r request, out any) error {
	var body bytes.Buffer
	if r.body != nil {
		if err := json.NewEncoder(&body).Encode(r.body); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, r.method, strings.TrimSuffix(c.Server, "/")+r.path, &body)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	if r.kind != "" {
		req.Header.Set("Content-Type", r.kind)
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, answerLimit))
	if err != nil {
		return err
	}
	if resp.StatusCode >= http.StatusBadRequest {
		return refusal(resp, data)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(data, out)
}

// A StatusError is the API server's refusal.
type StatusError struct {
	Code    int // HTTP status
	Message string
}

func (e *StatusError) Error() string {
	if e.Code == http.StatusForbidden {
		return e.Message + "; the agent's ClusterRole must allow it"
	}
	return e.Message
}

func refusal(resp *http.Response, data []byte) error {
	var status struct {
		Message string `json:"message"`
	}
	_ = json.Unmarshal(data, &status) // a proxy may answer with something else
	return &StatusError{Code: resp.StatusCode, Message: cmp.Or(status.Message, resp.Status)}
}
