package live

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// ErrNoCluster means that there is no kubeconfig, and that this is not a pod
// of a cluster either.
var ErrNoCluster = errors.New("no cluster is configured")

// Where says which cluster is meant. The zero value is the current context of
// the usual kubeconfig, or the cluster that this is a pod of.
type Where struct {
	Kubeconfig string // path, "" = $KUBECONFIG, else ~/.kube/config
	Context    string // "" = the current one
	Getenv     func(string) string
}

// patience is how long an API server may take to answer one request.
const patience = 30 * time.Second

// Config finds the cluster. It is ErrNoCluster when nothing says which.
func (w Where) Config() (*rest.Config, error) {
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: w.Kubeconfig}
	if w.Kubeconfig == "" {
		rules.Precedence = w.paths()
	}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: w.Context})
	config, err := loader.ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, ErrNoCluster
	case err != nil:
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	config.Timeout = patience
	config.QPS, config.Burst = -1, 0
	config.UserAgent = "kerf"
	return config, nil
}

// paths are the kubeconfig files that kubectl would read.
func (w Where) paths() []string {
	if list := w.getenv("KUBECONFIG"); list != "" {
		return filepath.SplitList(list)
	}
	if home := w.getenv("HOME"); home != "" {
		return []string{filepath.Join(home, ".kube", "config")}
	}
	return nil
}

func (w Where) getenv(name string) string {
	if w.Getenv != nil {
		return w.Getenv(name)
	}
	return os.Getenv(name)
}

// Connect returns a client of the cluster. It does not speak to it yet.
func (w Where) Connect() (dynamic.Interface, error) {
	config, err := w.Config()
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("use the kubeconfig: %w", err)
	}
	return client, nil
}

// Read lists what the cluster holds: see the function of that name.
func (w Where) Read(ctx context.Context) (Objects, error) {
	client, err := w.Connect()
	if err != nil {
		return Objects{}, err
	}
	return Read(ctx, client)
}

// ReadAll lists what a scan looks at too: see the function of that name.
func (w Where) ReadAll(ctx context.Context) (Objects, error) {
	client, err := w.Connect()
	if err != nil {
		return Objects{}, err
	}
	return ReadAll(ctx, client)
}
