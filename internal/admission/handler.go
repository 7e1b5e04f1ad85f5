package admission

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission/metrics"

	"github.com/kerfdev/kerf/internal/review"
)

const (
	// longest is the size of a review in bytes that is too long. The API server
	// takes objects of at most 3 MiB, and a review holds two of them, and who asks.
	// It is the limit of controller-runtime 0.24 too.
	longest = 7 << 20
	// large is the size of a review in bytes from which on only one is judged at a
	// time: as values in memory, one may take fifty times its size.
	large = 512 << 10
	// kept is the largest buffer in bytes that is used again. An ordinary review
	// is a few KiB long.
	kept = 64 << 10
)

// Validating answers reviews over HTTP with g's verdicts.
func Validating(g *review.Guard) http.Handler { return &handler{guard: g, judge: g.Validate} }

// Mutating answers reviews over HTTP with g's repairs.
func Mutating(g *review.Guard) http.Handler { return &handler{guard: g, judge: g.Mutate} }

type handler struct {
	guard *review.Guard
	judge func(ctx context.Context, body []byte) (answer []byte)
}

var (
	buffers  = sync.Pool{New: func() any { return new(bytes.Buffer) }}
	oneLarge = make(chan struct{}, 1)

	errTooLarge = fmt.Errorf("the review is too large: %d MiB or more", longest>>20)
	errNoJSON   = errors.New("the review's Content-Type is not application/json")
)

// ServeHTTP answers every request with a review, and with the status 200: the
// verdict on the object is in the answer.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := buffers.Get().(*bytes.Buffer)
	body.Reset()
	answer := h.answer(r, body)
	if body.Cap() <= kept {
		buffers.Put(body)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
	_, _ = w.Write(answer) // whoever asked may be gone
}

func (h *handler) answer(r *http.Request, body *bytes.Buffer) (answer []byte) {
	body.Grow(int(min(max(r.ContentLength, 0), kept-bytes.MinRead)) + bytes.MinRead)
	_, err := body.ReadFrom(io.LimitReader(r.Body, longest))
	switch {
	case err != nil:
		return h.guard.Refuse(body.Bytes(), http.StatusBadRequest, fmt.Errorf("receive the review: %w", err))
	case body.Len() == longest:
		return h.guard.Refuse(body.Bytes(), http.StatusRequestEntityTooLarge, errTooLarge)
	case r.Header.Get("Content-Type") != "application/json":
		return h.guard.Refuse(body.Bytes(), http.StatusBadRequest, errNoJSON)
	}
	if body.Len() >= large {
		select {
		case oneLarge <- struct{}{}:
			defer func() { <-oneLarge }()
		case <-r.Context().Done():
			return h.guard.Refuse(body.Bytes(), http.StatusServiceUnavailable, r.Context().Err())
		}
	}
	defer func() {
		if p := recover(); p != nil {
			answer = h.recovered(r.Context(), body.Bytes(), p)
		}
	}()
	return h.judge(r.Context(), body.Bytes())
}

// recovered answers a review whose judgement panicked. It is logged and counted
// as controller-runtime does.
func (h *handler) recovered(ctx context.Context, body []byte, p any) []byte {
	metrics.WebhookPanics.WithLabelValues().Inc()
	for _, log := range runtime.PanicHandlers {
		log(ctx, p)
	}
	return h.guard.Refuse(body, http.StatusInternalServerError, fmt.Errorf("panic: %v [recovered]", p))
}
