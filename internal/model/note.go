package model

import "strconv"

// A Place is where something was written. The zero value is nowhere.
type Place struct {
	File   string
	Line   int
	Object string // "NodePool gpu", "Deployment team-a/web"
	Field  string // "spec.template.spec.taints[0]"
}

// String writes file:line, leaving out what is unknown.
func (p Place) String() string {
	if p.Line == 0 {
		return p.File
	}
	return p.File + ":" + strconv.Itoa(p.Line)
}

// Severity ranks notes.
type Severity uint8

// The severities. Info needs no action, Warning deserves one, Error means the
// object as written does not do what it says.
const (
	Info Severity = iota
	Warning
	Error
)

// String names the severity in lower case.
func (s Severity) String() string { return [...]string{"info", "warning", "error"}[s] }

// A Note is one thing worth saying about the input: a mistake named, an
// assumption made, a field not modelled.
type Note struct {
	Code     string // stable, kebab-case: "duplicate-key", "quota-key"
	Severity Severity
	Place    Place
	Also     []int  // further lines in the same file
	Text     string // what was found and what follows from it; lower case, no full stop
	Fix      string // the next step, "" when there is none
}
