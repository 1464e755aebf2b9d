package worker

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/childproc"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/internal/strictjson"
	"github.com/pawl-work/pawl/tracing"
	"github.com/pawl-work/pawl/worker"
)

// program runs a command for each item. The item is JSON on its stdin, the result JSON
// on its stdout, and reports are lines of JSON on its file descriptor 3.
type program struct {
	args   []string
	stderr io.Writer     // takes what programs write there
	env    []string      // what they inherit
	grace  time.Duration // from SIGTERM to SIGKILL
	log    *slog.Logger
	types  typeReader // nil: programs are not told what a good result is
	watch  *watcher   // kills their process groups when this process is killed; nil on Windows
}

// typeReader reads the type of a task.
type typeReader interface {
	GetTask(ctx context.Context, id string) (pawl.Task, error)
	GetType(ctx context.Context, name string, version int) (pawl.Type, error)
}

// maxVariable bounds the size of one environment variable: a program with a longer one
// is not started at all (128 KiB on Linux).
const maxVariable = 96 << 10

const stopGrace = 5 * time.Second

// Exit codes of programs that decide about the retry (sysexits.h). All others except 0
// are retried up to the item's max_attempts, 75 (EX_TEMPFAIL) among them.
const (
	exitUsage   = 64 // EX_USAGE: the item fails for good
	exitDataErr = 65 // EX_DATAERR: the same
)

// The error codes of failed programs.
const (
	codeExit      = "exit_status" // it ended with another code than 0, or by a signal
	codeBadOutput = "bad_output"  // its stdout is not one JSON value of at most 1 MiB
	codeBadReport = "bad_report"  // a line on descriptor 3 is not a report, or was refused
	codeNotRun    = "not_run"     // it could not be started
)

// work is the stdin of a program: its claim, and what earlier attempts left.
type work struct {
	pawl.Lease
	Resume pawl.ResumeState `json:"resume"`
}

// do is a worker.HandlerFunc.
func (p program) do(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
	lease, stdin, err := programInput(ctx)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	pipe, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer pipe.Close()
	r := &reportPipe{File: pipe, grace: p.grace}
	out, tail := &childproc.HeadBuffer{Limit: pawl.MaxPayloadBytes}, &childproc.TailBuffer{Limit: 8 << 10}
	cmd := p.command(ctx, lease)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), out, io.MultiWriter(tail, p.stderr)
	cmd.ExtraFiles = []*os.File{w}
	runtime.LockOSThread() // the program ends with the thread that started it
	defer runtime.UnlockOSThread()
	err = cmd.Start()
	w.Close()
	if err == nil {
		p.watch.began(cmd.Process.Pid)
		defer p.watch.ended(cmd.Process.Pid)
	} else {
		return nil, worker.Failed(pawl.Failure{Code: codeNotRun, Message: err.Error()})
	}
	reports := make(chan error, 1)
	go func() {
		err := listen(ctx, r)
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			stop(err)
		}
		reports <- err
	}()
	err = cmd.Wait()
	result, failed := outcome(err, out, tail)
	left := errors.Is(err, exec.ErrWaitDelay)
	if ctx.Err() != nil || left || failed != nil { // what a failed attempt left would run beside the next one
		left = childproc.Kill(cmd) || left
	}
	r.programEnded()
	report := <-reports
	if report != nil {
		childproc.Kill(cmd)
	}
	if errors.Is(report, os.ErrDeadlineExceeded) {
		left, report = true, nil
	}
	if report != nil {
		return nil, report
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if left { // what the program itself wrote is whole: it has ended
		p.log.WarnContext(ctx, "the program ended, and left a process, which was killed", "item_id", lease.ID, "attempt", lease.Attempt)
	}
	return result, failed
}

// reportPipe is where a program's reports are read. A process that the program left may hold it open: once the
// program has ended, a read waits for new bytes no longer than the grace, and no more is read than a pipe holds.
// So all that the program wrote itself is read, however long the reports before it take.
type reportPipe struct {
	*os.File
	grace time.Duration
	ended atomic.Bool
	after int // bytes read since the program ended
}

// maxPipe is how many bytes a pipe holds at most: /proc/sys/fs/pipe-max-size.
const maxPipe = 1 << 20

func (r *reportPipe) programEnded() {
	r.ended.Store(true)
	_ = r.SetReadDeadline(clock.Now().Add(r.grace)) // of a read that waits
}

func (r *reportPipe) Read(b []byte) (n int, err error) {
	if r.ended.Load() {
		if r.after >= maxPipe {
			return 0, os.ErrDeadlineExceeded
		}
		_ = r.SetReadDeadline(clock.Now().Add(r.grace))
		defer func() { r.after += n }()
	}
	return r.File.Read(b)
}

// programInput returns the stdin of a program.
func programInput(ctx context.Context) (pawl.Lease, []byte, error) {
	lease, err := pawl.ItemFrom(ctx)
	if err != nil {
		return lease, nil, err
	}
	resume, err := pawl.ResumeFrom(ctx)
	if err != nil {
		return lease, nil, err
	}
	if resume.Steps == nil {
		resume.Steps = map[string]pawl.Checkpoint{} // programs want an object, not null
	}
	if resume.Parts == nil {
		resume.Parts = []pawl.ItemPart{}
	}
	if resume.Messages == nil {
		resume.Messages = []pawl.MessageRef{}
	}
	raw, err := json.Marshal(work{lease, resume})
	return lease, raw, err
}

// command is the program for one item, in a process group of its own. When ctx ends, the
// group is asked to stop, and killed after the grace.
func (p program) command(ctx context.Context, l pawl.Lease) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.args[0], p.args[1:]...)
	cmd.Env = append(slices.Clone(p.env), "PAWL_ITEM_ID="+l.ID, "PAWL_TASK_ID="+l.TaskID, "PAWL_TYPE="+l.Type,
		fmt.Sprintf("PAWL_ATTEMPT=%d", l.Attempt), "PAWL_WORKER_ID="+l.WorkerID)
	cmd.Env = append(cmd.Env, traceVariables(ctx)...)
	for name, v := range p.itemVariables(ctx, l) {
		if raw, err := json.Marshal(v); err == nil && len(raw) <= maxVariable && string(raw) != "null" {
			cmd.Env = append(cmd.Env, name+"="+string(raw))
		}
	}
	childproc.SetGroup(cmd)
	childproc.DieWithParent(cmd)
	cmd.Cancel = func() error { return childproc.Terminate(cmd) }
	cmd.WaitDelay = p.grace
	return cmd
}

// traceVariables returns the trace context of an attempt as the variables TRACEPARENT and
// TRACESTATE, which the command line and the SDKs of OpenTelemetry continue.
func traceVariables(ctx context.Context) (out []string) {
	parent, state := tracing.Headers(trace.SpanContextFromContext(ctx))
	if parent != "" {
		out = append(out, "TRACEPARENT="+parent, "TRACESTATE="+state)
	}
	return out
}

// itemVariables returns the variables of an item whose values are JSON: the schemas of its type,
// and why it is to be done again. A worker that may not read types gets only the latter.
func (p program) itemVariables(ctx context.Context, l pawl.Lease) map[string]any {
	vars := map[string]any{"PAWL_ERROR": l.Error, "PAWL_REASONS": l.Reasons}
	if p.types == nil {
		return vars
	}
	task, err := p.types.GetTask(ctx, l.TaskID)
	if err != nil || task.TypeVersion == 0 {
		return vars
	}
	if t, err := p.types.GetType(ctx, task.Type, task.TypeVersion); err == nil {
		vars["PAWL_PAYLOAD_SCHEMA"], vars["PAWL_INPUT_SCHEMA"], vars["PAWL_RESULT_SCHEMA"], vars["PAWL_PARTS"] = t.PayloadSchema, t.InputSchema,
			t.ResultSchema, t.Parts
	}
	return vars
}

// outcome is the result of a program that ended by itself.
func outcome(err error, out *childproc.HeadBuffer, tail *childproc.TailBuffer) (json.RawMessage, error) {
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return nil, exitFailure(exit, tail.String())
	case err != nil && !errors.Is(err, exec.ErrWaitDelay): // after that error the program has ended with 0
		return nil, worker.Failed(pawl.Failure{Code: codeNotRun, Message: err.Error()})
	case out.Truncated:
		return nil, worker.Failed(pawl.Failure{Code: codeBadOutput, Message: fmt.Sprintf("the program's result is over %d bytes", out.Limit)})
	}
	result := bytes.TrimSpace(out.Bytes())
	if len(result) == 0 {
		return json.RawMessage("null"), nil
	}
	if !json.Valid(result) {
		detail, _ := json.Marshal(
			map[string]string{"stdout": strings.ToValidUTF8(string(result[:min(len(result), 1<<10)]), "\uFFFD"), "stderr": tail.String()},
		)
		return nil, worker.Failed(pawl.Failure{Code: codeBadOutput, Message: "the program's stdout is not one JSON value", Detail: detail})
	}
	return result, nil
}

func exitFailure(exit *exec.ExitError, stderr string) error {
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	message := exit.String() // "exit status 1", "signal: killed"
	if line := lines[len(lines)-1]; line != "" {
		message += ": " + line
	}
	detail, _ := json.Marshal(map[string]any{"exit_code": exit.ExitCode(), "stderr": stderr})
	err := worker.Failed(pawl.Failure{Code: codeExit, Message: message, Detail: detail})
	if code := exit.ExitCode(); code == exitUsage || code == exitDataErr {
		return pawl.Permanent(err)
	}
	return err
}

// report is one line on descriptor 3.
type report struct {
	Progress   *int   `json:"progress"`
	Stage      string `json:"stage"`
	Checkpoint *struct {
		Type     string          `json:"type"`
		Name     string          `json:"name"`
		Snapshot json.RawMessage `json:"snapshot"`
	} `json:"checkpoint"`
}

// minProgressInterval limits reports of a percentage alone: those in between are dropped.
const minProgressInterval = 200 * time.Millisecond

// listen executes a program's reports, in order, until the program closes the
// descriptor. A refused report ends the attempt: a program must not continue as if its
// checkpoint were saved.
func listen(ctx context.Context, r io.Reader) error {
	dec := json.NewDecoder(r)
	var lastReport time.Time
	for n := 1; ; n++ {
		var x report
		var line json.RawMessage
		err := dec.Decode(&line)
		if errors.Is(err, io.EOF) {
			return nil
		} else if errors.Is(err, os.ErrDeadlineExceeded) {
			if rest, _ := io.ReadAll(dec.Buffered()); len(bytes.TrimSpace(rest)) > 0 {
				return badReport(n, io.ErrUnexpectedEOF)
			}
			return err
		} else if err == nil {
			err = strictjson.Read(line, &x)
		}
		if err != nil {
			return badReport(n, err)
		}
		if x.Progress != nil && *x.Progress < 0 {
			return badReport(n, fmt.Errorf("progress is 0…100, not %d", *x.Progress))
		}
		if x.Stage != "" || x.Progress != nil && clock.Now().Sub(lastReport) >= minProgressInterval {
			percent := -1
			if x.Progress != nil {
				percent = *x.Progress
			}
			if err := pawl.Progress(ctx, percent, x.Stage); err != nil {
				return badReport(n, err)
			}
			lastReport = clock.Now()
		}
		if c := x.Checkpoint; c != nil {
			if _, err := pawl.Save(ctx, cmp.Or(c.Type, pawl.CustomCheckpoint), c.Name, c.Snapshot); err != nil {
				return badReport(n, err)
			}
		}
	}
}

// badReport returns the attempt's error. A lost lease, a cancelled item and an
// unavailable database are returned unchanged.
func badReport(n int, err error) error {
	if code := pawl.CodeOf(err); code == pawl.CodeLeaseLost || code == pawl.CodeUnavailable || errors.Is(err, context.Canceled) ||
		errors.Is(err, pawl.ErrCancelled) {
		return err
	}
	return worker.Failed(pawl.Failure{Code: codeBadReport, Message: fmt.Sprintf("report %d on descriptor 3: %v", n, err)})
}
