package cli

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/internal/terminal"
)

// ErrCheck ends a command whose check failed and that has printed why: exit code 1.
var ErrCheck = errors.New("the check failed")

const (
	exitCheck       = 1
	exitInterrupted = 130 // a signal came before the answer did
)

// Invalid returns the error for invalid input: exit code 2.
func Invalid(format string, args ...any) error {
	return &pawl.Error{Code: pawl.CodeInvalid, Message: fmt.Sprintf(format, args...)}
}

// Usage is Invalid with a pointer to the command's help.
func Usage(cmd *cobra.Command, err error) error {
	return Invalid("%v; see `%s --help`", err, cmd.CommandPath())
}

// refusals are the errors of a batch, by the position of the call; the first decides.
type refusals []refused

type refused struct {
	index int
	err   error
}

func (r refusals) Error() string { return r[0].err.Error() }
func (r refusals) Unwrap() error { return r[0].err }

// Exit prints an error to stderr and returns its exit code.
func (a *App) Exit(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, ErrCheck):
		return exitCheck
	}
	e := a.asError(err)
	if e == nil {
		fmt.Fprintln(a.Stderr, "pawl: interrupted")
		return exitInterrupted
	}
	if a.Config.Output == "" { // the settings were not read
		a.Config.Output = a.output()
	}
	var many refusals
	errors.As(err, &many)
	if a.Config.Output == "json" {
		a.printErrorJSON(e, many)
		return e.Code.Info().Exit
	}
	a.PrintError(e)
	for _, r := range many[min(1, len(many)):] {
		if e := a.asError(r.err); e != nil {
			a.PrintError(e)
		}
	}
	return e.Code.Info().Exit
}

// asError returns err as a *pawl.Error; nil if a signal ended the command.
func (a *App) asError(err error) *pawl.Error {
	var e *pawl.Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, context.Canceled):
		return nil
	case a.Running:
		return &pawl.Error{Code: pawl.CodeInternal, Message: err.Error()}
	}
	// cobra's own: unknown commands, missing arguments
	return &pawl.Error{Code: pawl.CodeInvalid, Message: strings.Join(strings.Fields(err.Error()), " ")}
}

// printErrorJSON writes one object to stderr: the error that decides and, for a batch, every
// refused call.
func (a *App) printErrorJSON(e *pawl.Error, many refusals) {
	p := problemOf(e)
	for _, r := range many {
		if e := a.asError(r.err); e != nil {
			p.Refused = append(p.Refused, refusal{r.index, problemOf(e)})
		}
	}
	enc := json.NewEncoder(a.Stderr)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(p)
}

// PrintError writes an error to stderr for people.
func (a *App) PrintError(e *pawl.Error) {
	fmt.Fprintf(a.Stderr, "pawl: %s (%s)\n", terminal.Printable(summary(e)), e.Code)
	for _, f := range e.Fields {
		fmt.Fprintf(a.Stderr, "  %s\n", terminal.Printable(strings.TrimPrefix(f.Pointer+": "+f.Message, ": ")))
	}
	switch {
	case e.Code == pawl.CodeLeaseLost && e.Holder != "":
		fmt.Fprintf(a.Stderr, "  last claimed by %s, attempt %d; now %s\n", terminal.Printable(e.Holder), e.Attempt, e.State)
	case e.State != "" && len(e.Allowed) > 0:
		fmt.Fprintf(a.Stderr, "  state: %s; allowed: %s\n", e.State, strings.Join(e.Allowed, ", "))
	case e.State != "":
		fmt.Fprintf(a.Stderr, "  state: %s\n", e.State)
	}
	if e.RetryAfter > 0 {
		fmt.Fprintf(a.Stderr, "  retry after %s\n", e.RetryAfter.Round(time.Millisecond))
	}
	if e.Err != nil {
		fmt.Fprintf(a.Stderr, "  cause: %s\n", terminal.Printable(onOneLine(e.Err.Error())))
	}
	if untrusted := new(x509.UnknownAuthorityError); errors.As(e.Err, untrusted) {
		fmt.Fprintln(a.Stderr, "  to trust the authority that signed it, use --ca FILE")
	}
}

// onOneLine joins the lines of a text, such as the addresses that were tried; a line that repeats the one before is left out.
func onOneLine(text string) string {
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\t' })
	return strings.ReplaceAll(strings.Join(slices.Compact(lines), "; "), ":; ", ": ")
}

// problem is an error as JSON: the members of the HTTP problem document that are about the refusal.
type problem struct {
	api.Members
	RetryAfterMS int64     `json:"retry_after_ms,omitempty"`
	Refused      []refusal `json:"refused,omitempty"`
}

// refusal is the problem of one call of a batch; index is its position, from 0.
type refusal struct {
	Index int `json:"index"`
	problem
}

func problemOf(e *pawl.Error) problem {
	p := problem{Members: api.ProblemOf(e, "").Members(), RetryAfterMS: e.RetryAfter.Milliseconds()}
	p.Detail = summary(e) // the text of an internal error too: the caller is the operator
	return p
}

func summary(e *pawl.Error) string {
	text := e.Message
	switch {
	case text != "":
	case len(e.Fields) > 0:
		text = "the call was refused"
	default:
		text = strings.TrimSuffix(e.Code.Info().Means, ".")
	}
	if e.Op != "" {
		text = e.Op + ": " + text
	}
	return text
}
