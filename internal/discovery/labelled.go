package discovery

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
)

// page is how many Nodes are asked for at once; a Node may take some 50 kB.
const page = 100

// Labelled lists the Nodes that an agent has labelled, by name. It needs the
// right to list nodes; Client.Node does not matter.
func (c *Client) Labelled(ctx context.Context) ([]string, error) {
	var out []string
	query := url.Values{"labelSelector": {LabelPresent + "=true"}, "limit": {fmt.Sprint(page)}}
	for {
		var list struct {
			Metadata struct {
				Continue string `json:"continue"`
			} `json:"metadata"`
			Items []struct {
				Metadata struct {
					Name string `json:"name"`
				} `json:"metadata"`
			} `json:"items"`
		}
		if err := c.call(ctx, request{method: http.MethodGet, path: "/api/v1/nodes?" + query.Encode()}, &list); err != nil {
			return nil, fmt.Errorf("list the labelled nodes: %w", err)
		}
		for _, n := range list.Items {
			out = append(out, n.Metadata.Name)
		}
		if list.Metadata.Continue == "" {
			return out, nil
		}
		query.Set("continue", list.Metadata.Continue)
	}
}
