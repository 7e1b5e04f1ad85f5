package discovery

import (
	"context"
	"log/slog"
	"maps"
	"time"
)

// An Applier keeps a set of labels on a Node; a *Client is one.
type Applier interface {
	ApplyLabels(ctx context.Context, labels map[string]string) error
}

const (
	resync     = 10 * time.Minute // in case somebody changed a label
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// A Publisher keeps labels on a Node as they change. The API server may be away
// meanwhile.
type Publisher struct {
	api  Applier
	log  *slog.Logger
	next chan map[string]string // holds the newest set that is to be published
}

// NewPublisher publishes nothing before Run.
func NewPublisher(api Applier, log *slog.Logger) *Publisher {
	return &Publisher{api: api, log: log, next: make(chan map[string]string, 1)}
}

// Set is for the labels that hold from now on. It does not wait.
func (p *Publisher) Set(labels map[string]string) {
	for labels = maps.Clone(labels); ; {
		select {
		case p.next <- labels:
			return
		default:
		}
		select {
		case <-p.next: // an older set that was not published yet
		default:
		}
	}
}

// Run publishes until the context ends. The labels stay.
func (p *Publisher) Run(ctx context.Context) {
	var labels map[string]string
	var again <-chan time.Time // nothing is published before the first Set
	retry := firstRetry
	for {
		select {
		case <-ctx.Done():
			return
		case labels = <-p.next:
		case <-again:
		}
		if err := p.api.ApplyLabels(ctx, labels); err != nil && ctx.Err() == nil {
			p.log.Warn("the node's labels are not up to date", "error", err, "retry", retry)
			again = time.After(retry)
			retry = min(2*retry, lastRetry)
			continue
		}
		retry, again = firstRetry, time.After(resync)
	}
}
