package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
)

// errCheck ends a command whose check failed and which has said so: exit 1.
var errCheck = errors.New("the check failed")

const (
	exitCheck       = 1
	exitInterrupted = 130 // a signal came before the answer did
)

// invalid is a refusal of what was typed: exit 2.
func invalid(format string, args ...any) error {
	return &pawl.Error{Code: pawl.CodeInvalid, Message: fmt.Sprintf(format, args...)}
}

// notThere says that a database's file is missing: exit 3.
func notThere(path string, err error) error {
	return &pawl.Error{Code: pawl.CodeNotFound, Message: "there is no database " + path, Err: err}
}

// usage is invalid, with the way to the command's help.
func usage(cmd *cobra.Command, err error) error {
	return invalid("%v; see `%s --help`", err, cmd.CommandPath())
}

// exit tells about an error on stderr and gives its exit code.
func (a *app) exit(err error) int {
	if err == nil {
		return 0
	}
	if errors.Is(err, errCheck) {
		return exitCheck
	}
	var e *pawl.Error
	switch {
	case errors.As(err, &e):
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(a.stderr, "pawl: interrupted")
		return exitInterrupted
	case a.running:
		e = &pawl.Error{Code: pawl.CodeInternal, Message: err.Error()}
	default: // cobra's own: unknown commands, missing arguments
		e = &pawl.Error{Code: pawl.CodeInvalid, Message: strings.ReplaceAll(err.Error(), "\n", " ")}
	}
	a.tell(e)
	return e.Code.Info().Exit
}

// tell writes an error to stderr: for people, or as one JSON object.
func (a *app) tell(e *pawl.Error) {
	if a.cfg.Output == "json" {
		enc := json.NewEncoder(a.stderr)
		enc.SetEscapeHTML(false)
		_ = enc.Encode(problem{e.Code, summary(e), e.Fields, e.State, e.Allowed, e.Holder, e.Attempt, e.Reason, e.RetryAfter.Milliseconds()})
		return
	}
	fmt.Fprintf(a.stderr, "pawl: %s (%s)\n", printable(summary(e)), e.Code)
	for _, f := range e.Fields {
		fmt.Fprintf(a.stderr, "  %s\n", printable(strings.TrimPrefix(f.Pointer+": "+f.Message, ": ")))
	}
	switch {
	case e.Code == pawl.CodeLeaseLost && e.Holder != "":
		fmt.Fprintf(a.stderr, "  last claimed by %s, attempt %d; now %s\n", printable(e.Holder), e.Attempt, e.State)
	case e.State != "" && len(e.Allowed) > 0:
		fmt.Fprintf(a.stderr, "  it is %s, which allows: %s\n", e.State, strings.Join(e.Allowed, ", "))
	case e.State != "":
		fmt.Fprintf(a.stderr, "  it is %s\n", e.State)
	}
	if e.RetryAfter > 0 {
		fmt.Fprintf(a.stderr, "  try again in %s\n", e.RetryAfter.Round(time.Millisecond))
	}
	if e.Err != nil {
		fmt.Fprintf(a.stderr, "  because: %s\n", printable(e.Err.Error()))
	}
}

// problem is an error as JSON: the members of the HTTP problem that say more
// than its status.
type problem struct {
	Code         pawl.Code    `json:"code"`
	Detail       string       `json:"detail"`
	Errors       []pawl.Field `json:"errors,omitempty"`
	State        string       `json:"state,omitempty"`
	Allowed      []string     `json:"allowed,omitzero"`
	Holder       string       `json:"holder,omitempty"`
	Attempt      int          `json:"attempt,omitempty"`
	Reason       string       `json:"reason,omitempty"`
	RetryAfterMS int64        `json:"retry_after_ms,omitempty"`
}

func summary(e *pawl.Error) string {
	text := e.Message
	switch {
	case text != "":
	case len(e.Fields) > 0:
		text = "this was not accepted"
	default:
		text = strings.TrimSuffix(e.Code.Info().Means, ".")
	}
	if e.Op != "" {
		text = e.Op + ": " + text
	}
	return text
}
