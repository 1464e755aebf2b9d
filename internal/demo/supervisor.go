package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/childproc"
	"github.com/pawl-work/pawl/internal/terminal"
)

// process is one worker process.
type process struct {
	name   string
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr *childproc.TailBuffer // the end of its log
	ended  bool
}

// message is a line that a process wrote, or its exit.
type message struct {
	report
	from   *process
	exited bool
	err    error
}

// nameOf is a worker's name in the database.
func (d *demo) nameOf(name string) string { return d.typ + "." + name }

// startProcess starts this program as a worker process, with a hidden command.
func (d *demo) startProcess(name string, words chan<- message, args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(
		self,
		append(args, "--id", d.nameOf(name), "--type", d.typ, "--json", "--log", "warn", "--namespace", d.Namespace, "--schema", d.Schema)...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(slices.Clone(d.Env), "PAWL_DB="+d.DB, "PAWL_MIGRATE=off") // not an argument: it may hold a password
	h := &process{name: name, cmd: cmd, stderr: &childproc.TailBuffer{Limit: 4 << 10}}
	cmd.Stderr = h.stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if h.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			w := message{from: h}
			if err := json.Unmarshal(lines.Bytes(), &w.report); err != nil {
				w.err = fmt.Errorf("%s wrote %q: %w", name, lines.Text(), err)
			}
			words <- w
		}
		words <- message{from: h, exited: true, err: cmd.Wait()}
	}()
	return h, nil
}

// supervisor is the state of the run: the processes, and what has happened.
type supervisor struct {
	*demo
	messages      chan message
	processes     []*process
	paused        int      // processes that have paused
	frozen        *process // until another process has claimed its item
	item          string
	frozenAttempt int  // the attempt it froze in
	thawed        bool // and is through with its stale writes
	ended         bool // the task is
}

// work runs the processes until the task has ended, one process was killed and one was
// frozen and thawed.
func (d *demo) work(ctx context.Context) error {
	f := &supervisor{demo: d, messages: make(chan message, 1024)}
	defer f.stopAll()
	for _, gate := range []string{"kill", "freeze"} {
		if err := f.start(gate); err != nil {
			return err
		}
	}
	if terminal.IsTerminal(d.Stderr) {
		d.bar = newBar(d.Stderr, len(d.items))
		defer func() { d.bar.end(); d.bar = nil }()
	}
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for !f.ended || !f.thawed || d.report.Kills == 0 {
		select {
		case <-ctx.Done():
			return fmt.Errorf("gave up: task ended %t, thawed %t, kills %d: %w", f.ended, f.thawed, d.report.Kills, ctx.Err())
		case w := <-f.messages:
			if err := f.handle(w); err != nil {
				return err
			}
		case <-look.C:
			if err := f.poll(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *supervisor) start(gate string) error {
	h, err := f.demo.startProcess(
		fmt.Sprintf("w%d", len(f.processes)+1),
		f.messages,
		"demo-worker",
		"--task",
		f.task.ID,
		"--lease",
		fmt.Sprint(leaseSeconds),
		"--input",
		f.Input,
		"--gate",
		gate,
	)
	if err == nil {
		f.processes = append(f.processes, h)
	}
	return err
}

// handle counts what a process reports, and kills or freezes it when it pauses.
func (f *supervisor) handle(w message) error {
	r := &f.report
	switch {
	case w.exited:
		return f.processExited(w)
	case w.err != nil:
		return w.err
	case w.Step == "ran":
		r.StepsRun++
	case w.Step == "replayed":
		r.StepsReplayed++
	case w.Refused != "":
		r.StaleWritesRefused++
	case w.Accepted != "":
		f.addFailure("a stale %s of %s was accepted", w.Accepted, w.from.name)
	case w.Pause == "kill":
		f.log("%s is killed in the middle of %s", w.from.name, w.Item)
		if err := w.from.cmd.Process.Kill(); err != nil {
			return err
		}
		return f.processPaused()
	case w.Pause == "freeze":
		f.frozen, f.item, f.frozenAttempt = w.from, w.Item, w.Attempt
		f.log("%s freezes in the middle of %s", w.from.name, w.Item)
		return f.processPaused()
	case w.Thawed:
		f.thawed = true
		f.log("%s is thawed; its writes came too late", w.from.name)
	}
	return nil
}

// processPaused starts the other processes, and one in place of the killed one, once
// both have paused. Started earlier, they could finish all items before.
func (f *supervisor) processPaused() error {
	if f.paused++; f.paused < 2 {
		return nil
	}
	for range f.Workers - 1 {
		if err := f.start(""); err != nil {
			return err
		}
	}
	return nil
}

// processExited records the exit of a process.
func (f *supervisor) processExited(w message) error {
	w.from.ended = true
	if f.ended && f.thawed {
		return nil
	}
	if childproc.WasKilled(w.err) {
		f.report.Kills++
		return nil
	}
	return fmt.Errorf("%s ended too soon (%v): %s", w.from.name, w.err, w.from.stderr)
}

// poll reads the task's progress, and thaws the frozen process once another process
// has claimed its item.
func (f *supervisor) poll(ctx context.Context) error {
	t, err := f.Service.GetTask(ctx, f.task.ID)
	if err != nil {
		return err
	}
	f.ended = t.State.Status() != pawl.StatusPending && t.State.Status() != pawl.StatusInProgress
	if f.bar != nil {
		f.bar.set(t.Items-t.ItemsOpen, f.bar.said)
	}
	if f.frozen == nil || f.thawed {
		return nil
	}
	it, err := f.Service.GetItem(ctx, f.item)
	if err != nil || it.Attempt <= f.frozenAttempt {
		return err
	}
	h := f.frozen
	f.frozen = nil
	if err := childproc.Thaw(h.cmd.Process); err != nil {
		return err
	}
	_, err = io.WriteString(h.stdin, "go on\n")
	return err
}

// stopAll stops the processes and handles their last messages. It kills those that
// have not ended after 10 s.
func (f *supervisor) stopAll() {
	for _, h := range f.processes {
		h.stdin.Close()
		if h == f.frozen {
			_ = h.cmd.Process.Kill()
		}
	}
	late := time.AfterFunc(10*time.Second, func() {
		for _, h := range f.processes {
			_ = h.cmd.Process.Kill() // an error says that it is gone
		}
	})
	defer late.Stop()
	f.ended, f.thawed = true, true
	for _, h := range f.processes {
		for !h.ended {
			if err := f.handle(<-f.messages); err != nil && !strings.Contains(err.Error(), h.name) {
				f.addFailure("%v", err)
			}
		}
	}
}
