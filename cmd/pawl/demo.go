package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/cheggaaa/pb/v3"
	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
)

const demoLease = 3 // seconds: short, so that the demo is

// demo is one run of it: a task over a tree of files, worked on by processes of
// which one is killed and one frozen, and the proof that nothing came of that.
type demo struct {
	a        *app
	svc      pawl.Service
	root     string
	typ      string // of this run alone: what else is in the database is not touched
	crew     int
	timeout  time.Duration
	recovery time.Duration // --most-recovery

	task   pawl.Task
	items  []pawl.NewItem
	voice  io.Writer // stderr, for what happens
	bar    *pb.ProgressBar
	report demoReport
	faults []string // what did not hold
}

// demoReport is the demo's answer: the last line of stdout with --json.
type demoReport struct {
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

func (a *app) demoCmd() *cobra.Command {
	d := demo{a: a}
	agents := false
	cmd := a.verb("demo", "Real work, a killed worker, a frozen worker, an exact result", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
		if d.crew < 3 {
			return invalid("--workers is 3 or more: one is killed, one is frozen, one goes on")
		}
		if a.cfg.Server != "" {
			return invalid("the demo needs a database of its own choice, not a --server")
		}
		if !a.cfg.named {
			dir, err := os.MkdirTemp("", "pawl-demo-")
			if err != nil {
				return err
			}
			a.cfg.DB = "sqlite:" + filepath.Join(dir, "demo.db")
		}
		return creating(a, func(ctx context.Context, s pawl.Service, _ []string) error {
			d.svc, d.voice, d.report.DB = s, a.stderr, named(a.cfg.DB, a.cfg.Schema)
			if err := d.begin(ctx); err != nil {
				return err
			}
			if agents {
				return (&commission{demo: &d}).run(ctx)
			}
			return d.run(ctx)
		})(cmd, nil)
	})
	cmd.Long = `Splits a tree of files into items, each file a step, and works on them with several
processes. One is killed in the middle of an item, one is frozen past its lease and
thawed. In the end the result is computed once more, directly, and must be the same.
Exit 0 only if all of that held; that it was slow is a warning. The database is left for pawl doctor.

With --agents a work order over copies of a dozen of those files: two scripted
agents do it through MCP, handing in piece by piece; one is killed half-way, and
the other goes on with its pieces; an item is sent back with reasons and mended;
approved, the order changes the files, and the diff on record is held against
the disk.`
	cmd.Flags().StringVar(&d.root, "input", "", "the tree (default the source of the Go on PATH)")
	cmd.Flags().BoolVar(&agents, "agents", false, "a work order, done by agents through MCP")
	cmd.Flags().IntVar(&d.crew, "workers", 4, "worker processes, 3 or more")
	cmd.Flags().DurationVar(&d.timeout, "timeout", 5*time.Minute, "give up after this")
	cmd.Flags().DurationVar(&d.recovery, "most-recovery", 1500*time.Millisecond, "warn when the next claim comes later than this after the end of a lease")
	return cmd
}

// begin finds the tree, and a name for this run.
func (d *demo) begin(ctx context.Context) (err error) {
	if d.root == "" {
		if d.root, err = toolchain(ctx); err != nil {
			return err
		}
	}
	var mark [4]byte
	_, _ = rand.Read(mark[:]) // never fails
	d.typ = "demo." + hex.EncodeToString(mark[:])
	d.root, err = filepath.Abs(d.root)
	return err
}

func (d *demo) run(ctx context.Context) error {
	files, err := treeFiles(d.root)
	if err != nil {
		return err
	}
	if d.items, err = split(files); err != nil {
		return err
	}
	if d.task, err = pawl.Create(ctx, d.svc, pawl.NewTask{Type: d.typ, Title: "Facts of every file under " + filepath.Base(d.root), Items: d.items}); err != nil {
		return err
	}
	d.say("%d files under %s in %d items, %d workers, leases of %d s, %s", len(files), d.root, len(d.items), d.crew, demoLease, d.report.DB)

	ctx, stop := context.WithTimeout(ctx, d.timeout)
	defer stop()
	if err := alongside(ctx, d.svc, d.work); err != nil {
		d.fault("%v", err)
	}
	if err := d.prove(ctx); err != nil {
		d.fault("%v", err)
	}
	return d.conclude(d.report, d.summary)
}

// say tells what happens: beside the bar on a terminal, else a line on stderr.
func (d *demo) say(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if d.bar != nil {
		d.bar.Set("said", text)
		return
	}
	fmt.Fprintln(d.voice, text)
}

// fault takes down what did not hold.
func (d *demo) fault(format string, args ...any) {
	d.faults = append(d.faults, fmt.Sprintf(format, args...))
}

// conclude prints the report and decides.
func (d *demo) conclude(report any, summary func(io.Writer)) error {
	if d.a.cfg.Output == "json" {
		if err := d.a.encode(report, false); err != nil { // one line, on a terminal too
			return err
		}
	} else {
		summary(d.a.stdout)
	}
	for _, w := range d.report.Warnings {
		fmt.Fprintf(d.a.stderr, "warning: %s\n", printable(w))
	}
	if len(d.faults) > 0 {
		for _, f := range d.faults {
			fmt.Fprintf(d.a.stderr, "did not hold: %s\n", printable(f))
		}
		return errCheck
	}
	d.say("all of it held; look closer with: pawl doctor --db %s", d.report.DB)
	return nil
}

func (d *demo) summary(w io.Writer) {
	r := d.report
	fields(w,
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
