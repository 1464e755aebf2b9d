package main

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

	"github.com/cheggaaa/pb/v3"

	"github.com/pawl-work/pawl"
)

// hand is one worker process.
type hand struct {
	name  string
	cmd   *exec.Cmd
	stdin io.WriteCloser
	said  *last // the end of its log
	gone  bool
}

// word is a line of a hand, or its end when over.
type word struct {
	told
	from *hand
	over bool
	err  error
}

// nameOf is a worker's name in the database.
func (d *demo) nameOf(name string) string { return d.typ + "." + name }

// hire starts a worker process of this program: a hidden command and what it is
// to know.
func (d *demo) hire(name string, words chan<- word, args ...string) (*hand, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, append(args, "--id", d.nameOf(name), "--type", d.typ, "--json", "--log", "warn", "--namespace", d.a.cfg.Namespace, "--schema", d.a.cfg.Schema)...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(slices.Clone(d.a.env), "PAWL_DB="+d.a.cfg.DB, "PAWL_MIGRATE=off") // not an argument: it may hold a password
	h := &hand{name: name, cmd: cmd, said: &last{limit: 4 << 10}}
	cmd.Stderr = h.said
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
			w := word{from: h}
			if err := json.Unmarshal(lines.Bytes(), &w.told); err != nil {
				w.err = fmt.Errorf("%s wrote %q: %w", name, lines.Text(), err)
			}
			words <- w
		}
		words <- word{from: h, over: true, err: cmd.Wait()}
	}()
	return h, nil
}

// foreman is the state of the work: who is there, and what has happened.
type foreman struct {
	*demo
	words  chan word
	hands  []*hand
	gates  int   // how many have been come to
	frozen *hand // stands still until its item is somebody else's
	item   string
	past   int  // the attempt it froze in
	thawed bool // and is through with its stale writes
	ended  bool // the task is
}

// work does the task and returns when it has ended, and with it the experiment.
func (d *demo) work(ctx context.Context) error {
	f := &foreman{demo: d, words: make(chan word, 1024)}
	defer f.dismiss()
	for _, gate := range []string{"kill", "freeze"} {
		if err := f.hire(gate); err != nil {
			return err
		}
	}
	if isTerminal(d.a.stderr) {
		d.bar = pb.New(len(d.items)).SetWriter(d.a.stderr).SetTemplateString(`{{counters . }} items {{bar . }} {{percent . }} {{etime . }}  {{string . "said"}}`).Start()
		defer func() { d.bar.Finish(); d.bar = nil }()
	}
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for !f.ended || !f.thawed || d.report.Kills == 0 {
		select {
		case <-ctx.Done():
			return fmt.Errorf("gave up: task ended %t, thawed %t, kills %d: %w", f.ended, f.thawed, d.report.Kills, ctx.Err())
		case w := <-f.words:
			if err := f.hear(w); err != nil {
				return err
			}
		case <-look.C:
			if err := f.look(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *foreman) hire(gate string) error {
	h, err := f.demo.hire(fmt.Sprintf("w%d", len(f.hands)+1), f.words, "demo-worker", "--task", f.task.ID, "--lease", fmt.Sprint(demoLease), "--input", f.root, "--gate", gate)
	if err == nil {
		f.hands = append(f.hands, h)
	}
	return err
}

// hear counts what a worker tells, and acts on who stands at a gate.
func (f *foreman) hear(w word) error {
	r := &f.report
	switch {
	case w.over:
		return f.leave(w)
	case w.err != nil:
		return w.err
	case w.Step == "ran":
		r.StepsRun++
	case w.Step == "replayed":
		r.StepsReplayed++
	case w.Refused != "":
		r.StaleWritesRefused++
	case w.Taken != "":
		f.fault("a stale %s of %s was accepted", w.Taken, w.from.name)
	case w.Gate == "kill":
		f.say("%s is killed in the middle of %s", w.from.name, w.Item)
		if err := w.from.cmd.Process.Kill(); err != nil {
			return err
		}
		return f.atGate()
	case w.Gate == "freeze":
		f.frozen, f.item, f.past = w.from, w.Item, w.Attempt
		f.say("%s freezes in the middle of %s", w.from.name, w.Item)
		return f.atGate()
	case w.Thawed:
		f.thawed = true
		f.say("%s is thawed; its writes came too late", w.from.name)
	}
	return nil
}

// atGate hires the others, and one in place of the killed, once both have come
// to their gates: before that they could leave nothing to be interrupted.
func (f *foreman) atGate() error {
	if f.gates++; f.gates < 2 {
		return nil
	}
	for range f.crew - 1 {
		if err := f.hire(""); err != nil {
			return err
		}
	}
	return nil
}

// leave takes note of a process that is gone.
func (f *foreman) leave(w word) error {
	w.from.gone = true
	if f.ended && f.thawed {
		return nil
	}
	if wasKilled(w.err) {
		f.report.Kills++
		return nil
	}
	return fmt.Errorf("%s ended too soon (%v): %s", w.from.name, w.err, w.from.said)
}

// look sees how far the task is, and thaws the frozen worker once its item is
// somebody else's.
func (f *foreman) look(ctx context.Context) error {
	t, err := f.svc.GetTask(ctx, f.task.ID)
	if err != nil {
		return err
	}
	f.ended = t.State.Status() != pawl.StatusPending && t.State.Status() != pawl.StatusInProgress
	if f.bar != nil {
		f.bar.SetCurrent(int64(t.Items - t.ItemsOpen))
	}
	if f.frozen == nil || f.thawed {
		return nil
	}
	it, err := f.svc.GetItem(ctx, f.item)
	if err != nil || it.Attempt <= f.past {
		return err
	}
	h := f.frozen
	f.frozen = nil
	if err := thaw(h.cmd.Process); err != nil {
		return err
	}
	_, err = io.WriteString(h.stdin, "go on\n")
	return err
}

// dismiss sends everybody home and hears them out; who does not go is killed.
func (f *foreman) dismiss() {
	for _, h := range f.hands {
		h.stdin.Close()
		if h == f.frozen {
			_ = h.cmd.Process.Kill()
		}
	}
	late := time.AfterFunc(10*time.Second, func() {
		for _, h := range f.hands {
			_ = h.cmd.Process.Kill() // an error says that it is gone
		}
	})
	defer late.Stop()
	f.ended, f.thawed = true, true
	for _, h := range f.hands {
		for !h.gone {
			if err := f.hear(<-f.words); err != nil && !strings.Contains(err.Error(), h.name) {
				f.fault("%v", err)
			}
		}
	}
}
