package node

import (
	"fmt"
	"net/http"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kerfdev/kerf/internal/discovery"
)

// A cluster is an API server with the credentials for it.
type cluster struct {
	http   *http.Client
	server string
}

// connect reads a kubeconfig, or with "" what a pod is given.
func connect(kubeconfig string) (*cluster, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if kubeconfig == "" {
		config, err = rest.InClusterConfig()
	}
	if err != nil {
		return nil, fmt.Errorf("reach the cluster: %w; in a pod, give it a service account; elsewhere, name a file with --kubeconfig", err)
	}
	config.UserAgent = discovery.Manager
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("reach the cluster: %w", err)
	}
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("reach the cluster: %w", err)
	}
	return &cluster{http: client, server: server.String()}, nil
}

// teller tells the cluster of one node.
func (c *cluster) teller(node string) *discovery.Client {
	return &discovery.Client{HTTP: c.http, Server: c.server, Node: node}
}
