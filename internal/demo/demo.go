// Package demo runs real work in several processes, kills one, freezes another, and
// checks that the result is exact.
package demo

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/terminal"
)

const leaseSeconds = 3 // seconds: short, so that the demo is

// ErrFailed is the error of a run whose checks failed; Stderr has the failures.
var ErrFailed = errors.New("the checks of the demo failed")

// Options configure a run of the demo.
type Options struct {
	Service pawl.Service
	// Sweeping calls run, with the service's sweeps running meanwhile.
	Sweeping func(ctx context.Context, run func(context.Context) error) error

	DB        string   // the URL that the worker processes open
	ShownDB   string   // the same without passwords
	Schema    string   // of DB
	Namespace string   // of the task
	Actor     string   // who approves and rejects
	Env       []string // of the worker processes

	Input        string        // the tree of files; "" = the source of the Go on PATH
	Workers      int           // worker processes, 3 or more
	Timeout      time.Duration // of the work
	MostRecovery time.Duration // warn when the next claim comes later than this after the end of a lease

	JSON           bool      // print the report as one line of JSON
	Stdout, Stderr io.Writer // the report; what happens
}

// demo is one run: a task over a tree of files that several processes work on. One is
// killed and one frozen; in the end the result is checked.
type demo struct {
	Options
	typ string // of this run alone, so that other work in the database is not touched

	task     pawl.Task
	items    []pawl.NewItem
	bar      *bar
	report   Report
	failures []string // the checks that failed
}

// Report is the result of Run: the last line of stdout with --json.
type Report struct {
	Items              int    `json:"items"`
	Attempts           int    `json:"attempts"`
	Kills              int    `json:"kills"`
	StaleWritesRefused int    `json:"stale_writes_refused"`
	StepsRun           int    `json:"steps_run"`
	StepsReplayed      int    `json:"steps_replayed"`
	Exact              bool   `json:"exact"`
	RecoveryMSP99      int64  `json:"recovery_ms_p99"`
	DB                 string `json:"db"`

	Warnings []string `json:"warnings"` // what was slow: it changes no exit code
}

// Run runs the demo with worker processes.
func Run(ctx context.Context, o Options) error {
	d, err := newDemo(ctx, o)
	if err != nil {
		return err
	}
	return d.run(ctx)
}

// RunAgents runs the demo with agents that work through MCP.
func RunAgents(ctx context.Context, o Options) error {
	d, err := newDemo(ctx, o)
	if err != nil {
		return err
	}
	return (&agentRun{demo: d}).run(ctx)
}

// newDemo finds the tree of files and a name for this run.
func newDemo(ctx context.Context, o Options) (d *demo, err error) {
	d = &demo{Options: o, report: Report{DB: o.ShownDB}}
	if d.Input == "" {
		if d.Input, err = goSource(ctx); err != nil {
			return nil, err
		}
	}
	var mark [4]byte
	_, _ = rand.Read(mark[:]) // never fails
	d.typ = "demo." + hex.EncodeToString(mark[:])
	d.Input, err = filepath.Abs(d.Input)
	return d, err
}

func (d *demo) run(ctx context.Context) error {
	files, err := treeFiles(d.Input)
	if err != nil {
		return err
	}
	if d.items, err = split(files); err != nil {
		return err
	}
	if d.task, err = pawl.Create(ctx, d.Service, pawl.NewTask{Type: d.typ, Title: "Facts of every file under " + filepath.Base(d.Input),
		Items: d.items}); err != nil {
		return err
	}
	d.log(
		"%d files under %s in %d items, %d workers, leases of %d s, %s",
		len(files),
		d.Input,
		len(d.items),
		d.Workers,
		leaseSeconds,
		d.report.DB,
	)

	ctx, stop := context.WithTimeout(ctx, d.Timeout)
	defer stop()
	if err := d.Sweeping(ctx, d.work); err != nil {
		d.addFailure("%v", err)
	}
	if err := d.prove(ctx); err != nil {
		d.addFailure("%v", err)
	}
	return d.finish(d.report, d.summary)
}

// log prints a message: beside the progress bar on a terminal, else as a line on stderr.
func (d *demo) log(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if d.bar != nil {
		d.bar.set(d.bar.done, text)
		return
	}
	fmt.Fprintln(d.Stderr, text)
}

// addFailure records a failed check.
func (d *demo) addFailure(format string, args ...any) {
	d.failures = append(d.failures, fmt.Sprintf(format, args...))
}

// finish prints the report, and returns ErrFailed if a check failed.
func (d *demo) finish(report any, summary func(io.Writer)) error {
	if d.JSON {
		if err := encode(d.Stdout, report); err != nil { // one line, on a terminal too
			return err
		}
	} else {
		summary(d.Stdout)
	}
	for _, w := range d.report.Warnings {
		fmt.Fprintf(d.Stderr, "warning: %s\n", terminal.Printable(w))
	}
	if len(d.failures) > 0 {
		for _, f := range d.failures {
			fmt.Fprintf(d.Stderr, "did not hold: %s\n", terminal.Printable(f))
		}
		return ErrFailed
	}
	d.log("all of it held; look closer with: pawl doctor --db %s", d.report.DB)
	return nil
}

func (d *demo) summary(w io.Writer) {
	r := d.report
	terminal.Fields(w,
		"task", d.task.ID,
		"items", fmt.Sprint(r.Items),
		"attempts", fmt.Sprint(r.Attempts),
		"workers killed", fmt.Sprint(r.Kills),
		"stale writes refused", fmt.Sprint(r.StaleWritesRefused),
		"steps run", fmt.Sprint(r.StepsRun),
		"steps replayed", fmt.Sprint(r.StepsReplayed),
		"taken up again within", fmt.Sprintf("%d ms of the lease's end (p99)", r.RecoveryMSP99),
		"exact", fmt.Sprint(r.Exact),
		"database", r.DB,
	)
}

// encode writes a value as one line of JSON.
func encode(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// byUser returns a context whose calls are made by the user.
func (d *demo) byUser(ctx context.Context) context.Context {
	c := pawl.CallerOf(ctx)
	c.ActorID = d.Actor
	return pawl.As(ctx, c)
}

// invalidInput is an error of the caller's input.
func invalidInput(format string, args ...any) error {
	return &pawl.Error{Code: pawl.CodeInvalid, Message: fmt.Sprintf(format, args...)}
}
