package catalog

import "fmt"

// A LineError is a mistake on a line of a file of prices or types.
type LineError struct {
	Line int   // from 1
	Err  error // what is wrong there
}

// Error names the line first.
func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap returns what is wrong on the line.
func (e *LineError) Unwrap() error { return e.Err }

func atLine(line int, format string, args ...any) error {
	return &LineError{Line: line, Err: fmt.Errorf(format, args...)}
}
