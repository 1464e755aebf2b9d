package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync/atomic"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

// drainReport is what a process of the fleet reports: how many items it did, and its start and end
// by the machine's clock.
type drainReport struct {
	Items       int
	Start, Stop time.Time
}

// fleetTime is how long a drain of the full form takes, at least: the plans at its start should not count.
const fleetTime = 10 * time.Second

// fleet drains tasks of one item with one, two and four processes. Each process is an engine
// with its own queue heads.
func (b *bench) fleet(ctx context.Context) error {
	n := b.sized(100_000, 25_000)
	if !b.short {
		err := b.fresh(ctx, forPawl, func(url string) error {
			rate, err := b.drainByFleet(ctx, url, n, 1)
			n = max(n, int(1.5*rate*fleetTime.Seconds()*b.scale)) // several may be faster
			return err
		})
		if err != nil {
			return err
		}
	}
	rates := map[int]series{}
	err := b.alternate(func() error {
		for _, size := range []int{1, 2, 4} {
			err := b.fresh(ctx, forPawl, func(url string) error {
				rate, err := b.drainByFleet(ctx, url, n, size)
				rates[size] = append(rates[size], rate)
				b.say("%d processes: %s/s, %s s", size, figure(rate), figure(float64(n)/rate))
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, size := range []int{2, 4} {
		b.add(line{name: fmt.Sprintf("drain by %d processes together, against one", size), got: rates[size].over(rates[1]), unit: "×",
			atLeast:  1.0,
			absolute: figure(rates[size].median()) + "/s", peer: "one process: " + figure(rates[1].median()) + "/s"})
	}
	return nil
}

func (b *bench) drainByFleet(ctx context.Context, url string, n, size int) (rate float64, err error) {
	h, err := openEngine(ctx, url)
	if err != nil {
		return 0, err
	}
	_, err = h.createTasks(ctx, n, 1000)
	if err = errors.Join(err, h.stop()); err != nil {
		return 0, err
	}
	if err := b.admin.checkpoint(ctx); err != nil {
		return 0, err
	}
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	children := make([]*child, size)
	for i := range children {
		if children[i], err = startChild(exec.CommandContext(ctx, self, "drain", "-url", url)); err != nil {
			return 0, err
		}
		defer children[i].end()
	}
	for _, c := range children {
		if _, err := io.WriteString(c.in, "go\n"); err != nil {
			return 0, err
		}
	}
	var total int
	var first, last time.Time
	for _, c := range children {
		var d drainReport
		if err := json.NewDecoder(c.out).Decode(&d); err != nil {
			return 0, err
		}
		total += d.Items
		if first.IsZero() || d.Start.Before(first) {
			first = d.Start
		}
		if d.Stop.After(last) {
			last = d.Stop
		}
	}
	if total != n {
		return 0, fmt.Errorf("%d processes completed %d of %d items", size, total, n)
	}
	return perSecond(n, last.Sub(first)), nil
}

// child is a process that is told what to do, such as one of the fleet.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// startChild starts a process and waits until it is ready.
func startChild(cmd *exec.Cmd) (c *child, err error) {
	c = &child{cmd: cmd}
	c.cmd.Stderr = os.Stderr
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewReader(out)
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	if _, err = c.out.ReadString('\n'); err != nil {
		c.end()
		return nil, fmt.Errorf("%s did not start: %w", cmd, err)
	}
	return c, nil
}

func (c *child) end() {
	_ = c.in.Close()
	_ = c.cmd.Wait() // its output is complete
}

// drainAsChild claims and completes until nothing is left.
func drainAsChild(args []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("drain", flag.ContinueOnError)
	url := flags.String("url", "", "the database")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctx := context.Background()
	h, err := openEngine(ctx, *url)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, "ready"); err != nil {
		return err
	}
	if _, err := bufio.NewReader(in).ReadString('\n'); err != nil {
		return err
	}
	var items atomic.Int64
	var stop atomic.Int64
	start := clock.Now()
	_, err = many(callers, func(who int) error {
		for {
			got, err := h.Claim(ctx, pawl.ClaimRequest{WorkerID: fmt.Sprintf("bench-%d-%d", os.Getpid(), who), Types: []string{taskOf}, Limit: 1000})
			if err != nil || len(got) == 0 {
				return err
			}
			if err := h.complete(ctx, got); err != nil {
				return err
			}
			items.Add(int64(len(got)))
			stop.Store(clock.Now().UnixNano())
		}
	})
	if err != nil {
		return err
	}
	last := start
	if at := stop.Load(); at > 0 {
		last = time.Unix(0, at)
	}
	if err := json.NewEncoder(out).Encode(drainReport{int(items.Load()), start, last}); err != nil {
		return err
	}
	return h.stop()
}
