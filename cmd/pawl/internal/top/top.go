// Package top has the command `pawl top`: what happens in the queues now, live in a terminal.
package top

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/internal/terminal"
)

// The bounds of the flags.
const (
	minInterval = 200 * time.Millisecond
	maxInterval = time.Hour
	maxWindow   = time.Hour
)

type options struct {
	once             bool
	interval, window time.Duration
	sort             string
}

// Command returns the command.
func Command(a *cli.App) *cobra.Command {
	var o options
	cmd := a.Verb("top", "Show what happens in the queues now, what is stuck and why, and who holds what", cobra.NoArgs,
		func(cmd *cobra.Command, _ []string) error {
			by := slices.IndexFunc(orders, func(x order) bool { return x.name == o.sort })
			switch {
			case o.interval < minInterval, o.interval > maxInterval:
				return cli.Usage(cmd, fmt.Errorf("--interval must be from %s to %s", minInterval, maxInterval))
			case o.window < time.Minute, o.window > maxWindow:
				return cli.Usage(cmd, fmt.Errorf("--window must be from 1m to %s", maxWindow))
			case by < 0:
				return cli.Usage(cmd, fmt.Errorf("--sort must be one of %s", strings.Join(orderNames(), ", ")))
			}
			complete := func(line string) string { return a.Complete(cmd, line) }
			if o.once || a.Config.Output == "json" || !terminal.IsTerminal(a.Stdout) {
				return cli.With(a, func(ctx context.Context, s source, _ []string) error {
					return once(ctx, a, &reader{source: s, window: o.window, command: complete}, orders[by])
				})(cmd, nil)
			}
			log := holdLog(a) // lines of the log would spoil the screen
			defer log.release()
			return cli.With(a, func(ctx context.Context, s source, _ []string) error {
				return live(ctx, a, &reader{source: s, window: o.window, command: complete}, o.interval, orders[by])
			})(cmd, nil)
		})
	cmd.Long = "Shows the numbers of the last minutes: of the namespace, of each queue, what is stuck with its reason and the command\n" +
		"that changes it, and who holds which item. It reads again every --interval, more rarely if reading takes long.\n" +
		"Without a terminal it prints one frame, as with --once."
	cmd.Example = "  pawl top\n  pawl top --server https://pawl.internal --interval 5s\n  pawl top --once --sort oldest\n  pawl top -o json"
	f := cmd.Flags()
	f.BoolVar(&o.once, "once", false, "print one frame as plain text, and end")
	f.DurationVar(&o.interval, "interval", 2*time.Second, "time between two reads")
	f.DurationVar(&o.window, "window", 5*time.Minute, "time that rates, waits and failures are about, from 1m to 1h")
	f.StringVar(&o.sort, "sort", orders[0].name, "order of the queues: "+strings.Join(orderNames(), ", "))
	_ = cmd.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions(orderNames(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func orderNames() []string {
	names := make([]string, len(orders))
	for i, o := range orders {
		names[i] = o.name
	}
	return names
}

// once prints one frame.
func once(ctx context.Context, a *cli.App, r *reader, by order) error {
	f, err := r.read(ctx)
	if err != nil {
		return err
	}
	f.sort(by, false)
	return a.Show(f, func(w io.Writer) {
		fmt.Fprintf(w, "%s   %s   last %s\n", place(a), terminal.Time(f.At), time.Duration(f.WindowSeconds)*time.Second)
		for _, l := range f.lines() {
			fmt.Fprintln(w, l.text)
		}
	})
}

// live shows frames until the user quits. An error of the first read is the command's.
func live(ctx context.Context, a *cli.App, r *reader, interval time.Duration, by order) error {
	f, err := r.read(ctx)
	if err != nil {
		return err
	}
	f.sort(by, false)
	s := &screen{read: r.read, place: place(a), interval: interval, by: by, frame: f,
		colour: a.Getenv("NO_COLOR") == "" && a.Getenv("TERM") != "dumb"}
	o := []tea.ProgramOption{tea.WithOutput(a.Stdout), tea.WithEnvironment(a.Env)}
	if terminal.IsTerminal(a.Stdin) { // otherwise it reads the keys from the terminal itself
		o = append(o, tea.WithInput(a.Stdin))
	}
	return s.run(ctx, o...)
}

// place says what is shown.
func place(a *cli.App) string {
	where := cmp.Or(a.Config.Server, cli.ShownURL(a.Config.DB, a.Config.Schema))
	return terminal.Printable("namespace " + a.Config.Namespace + " of " + where)
}

// maxHeld bounds the log that is held back.
const maxHeld = 64 << 10

// heldLog holds back what would be written to stderr.
type heldLog struct {
	app    *cli.App
	stderr io.Writer
	mu     sync.Mutex
	text   bytes.Buffer
}

func holdLog(a *cli.App) *heldLog {
	h := &heldLog{app: a, stderr: a.Stderr}
	a.Stderr = h
	return h
}

// Write keeps the text, up to a bound.
func (h *heldLog) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.text.Len()+len(p) <= maxHeld {
		h.text.Write(p)
	}
	return len(p), nil
}

// release writes what was held back.
func (h *heldLog) release() {
	h.app.Stderr = h.stderr
	h.mu.Lock()
	defer h.mu.Unlock()
	_, _ = h.stderr.Write(h.text.Bytes())
}
