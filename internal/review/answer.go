package review

import (
	"encoding/json"
	"errors"
)

// Status codes of HTTP that answers have.
const (
	ok         = 200
	badRequest = 400
	forbidden  = 403
	failed     = 500
)

// A response is that of admission.k8s.io/v1.
type response struct {
	UID              string            `json:"uid"`
	Allowed          bool              `json:"allowed"`
	Status           status            `json:"status"`
	Patch            []byte            `json:"patch,omitempty"`
	PatchType        string            `json:"patchType,omitempty"` // with Patch, and only then
	AuditAnnotations map[string]string `json:"auditAnnotations,omitempty"`
	Warnings         []string          `json:"warnings,omitempty"`
}

// A status is what of meta/v1's Status an answer says.
type status struct {
	Message string `json:"message,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Code    int    `json:"code"`
}

func allowed() response { return response{Allowed: true, Status: status{Code: ok}} }

func denied(message string) response {
	return response{Status: status{Code: forbidden, Reason: "Forbidden", Message: message}}
}

// failure is the answer to a review that was not judged. It refuses the object:
// the failure policy is for when no guard answers, and whoever writes an object
// may be able to make its review fail.
func failure(code int, err error) response {
	return response{Status: status{Code: code, Message: err.Error()}}
}

// codeOf says whose fault an error is: that of the review, or of what the guard
// asked the cluster.
func codeOf(err error) int {
	if errors.Is(err, errNoObject) || errors.Is(err, errUnread) {
		return badRequest
	}
	return failed
}

// encode writes the answer to the review of a UID. Text, numbers and booleans
// can always be written.
func encode(uid string, r response) []byte {
	r.UID = uid
	out, _ := json.Marshal(struct {
		APIVersion string   `json:"apiVersion"`
		Kind       string   `json:"kind"`
		Response   response `json:"response"`
	}{apiVersion, kind, r})
	return out
}
