//go:build unix

package engine_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// entry is one line of a worker process's journal. It says what Pawl had accepted when
// the line was written.
type entry struct {
	Item     string
	Attempt  int
	Result   string // completed with it
	Key      string // answered once, with Result
	Sequence int64  // saved a checkpoint of this number
	Verb     string // the verb that a thawed worker tried
	Error    string // the error that it got
	Reason   string
	Err      string // the error with which the process ended
}

// process is a worker process in progress.
type process struct {
	*exec.Cmd
	journal []entry
	lines   *bufio.Scanner
}

// start runs this test binary again as a worker.
func start(t *testing.T, p *pawltest.Pawl, role string, env ...string) *process {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run=^$")
	c.Env = append(os.Environ(), append(env, "PAWL_TEST_PROCESS="+role, "PAWL_TEST_URL="+p.URL, "PAWL_TEST_SCHEMA="+p.Schema)...)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	return &process{Cmd: c, lines: bufio.NewScanner(out)}
}

// read waits for the next line of the journal. It returns false at the end of the
// journal.
func (p *process) read(t *testing.T) (entry, bool) {
	t.Helper()
	if !p.lines.Scan() {
		return entry{}, false
	}
	var e entry
	if err := json.Unmarshal(p.lines.Bytes(), &e); err != nil {
		return entry{}, false // cut off in the middle of a line
	}
	if e.Err != "" {
		t.Errorf("worker process: %s", e.Err)
	}
	p.journal = append(p.journal, e)
	return e, true
}

// beProcess is the main function of a worker process. It ends by itself only if something
// is wrong.
func beProcess(role string) int {
	o, err := uploadOptions()
	if err != nil {
		write(entry{Err: err.Error()})
		return 1
	}
	e, err := engine.OpenWith(context.Background(), os.Getenv("PAWL_TEST_URL"), o)
	for role == "limits" && pawl.CodeOf(err) == pawl.CodeUnavailable { // the database fails over
		e, err = engine.OpenWith(context.Background(), os.Getenv("PAWL_TEST_URL"), o)
	}
	if err == nil {
		switch role {
		case "uploader":
			err = uploadUntilKilled(e)
		case "worker":
			err = workUntilKilled(e)
		case "writer":
			err = sayUntilKilled(e)
		case "answerer":
			err = answerUntilKilled(e)
		case "canceller":
			_, _, err = cancelOnce(context.Background(), e, os.Getenv("PAWL_TEST_TASK"))
		case "bulk":
			err = bulkUntilKilled(e)
		case "limits":
			err = limitsUntilKilled(e)
		case "mover":
			err = moveUntilKilled(e)
		case "frozen":
			err = freezeAndThaw(e)
		}
		_ = e.Close()
	}
	if err != nil {
		write(entry{Err: err.Error()})
		return 1
	}
	return 0
}

func write(e entry) {
	line, _ := json.Marshal(e)
	_, _ = os.Stdout.Write(append(line, '\n'))
}

func kill() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// workUntilKilled completes items and writes what was accepted to the journal, until it
// reaches the failpoint that the environment names or is killed.
func workUntilKilled(e *engine.Engine) error {
	ctx := context.Background()
	seed, _ := strconv.ParseUint(os.Getenv("PAWL_TEST_SEED"), 10, 64)
	rnd := rand.New(rand.NewPCG(seed, 1))
	failpoint, after := os.Getenv("PAWL_TEST_FAILPOINT"), rnd.IntN(8)
	worker := fmt.Sprint("pid", os.Getpid())
	for n := 0; ; {
		ls, err := e.Claim(ctx, pawl.ClaimRequest{WorkerID: worker, LeaseSeconds: 1, Limit: 1 + rnd.IntN(3), WaitSeconds: 5})
		if err != nil {
			return err
		}
		for _, l := range ls {
			point := ""
			if n++; n > after {
				point = failpoint
			}
			if err := workOn(ctx, e, l, rnd, point); err != nil && !errors.Is(err, pawl.ErrLeaseLost) {
				return err
			}
		}
	}
}

func workOn(ctx context.Context, e *engine.Engine, l pawl.Lease, rnd *rand.Rand, point string) error {
	ref, err := pawl.SaveCheckpoint(ctx, e, l.Fence(), pawl.NewCheckpoint{Type: pawl.ToolExecuted, Name: "step", Snapshot: []byte(`"step"`)})
	if err != nil {
		return err
	}
	write(entry{Item: l.ID, Attempt: l.Attempt, Sequence: ref.Sequence})
	if rnd.IntN(5) == 0 {
		_, err := pawl.Fail(ctx, e, l.Fence(), pawl.RetryAfter(0, errors.New("no")))
		return err
	}
	switch point {
	case "before send":
		kill()
	case "in flight":
		time.AfterFunc(time.Duration(rnd.IntN(3000))*time.Microsecond, kill)
	case "in a transaction":
		return e.DB().Do(ctx, func(ctx context.Context, tx store.Tx) error {
			if _, err := tx.Exec(ctx, `DELETE FROM pawl.leases WHERE item_id = $1`, store.ItemID(l.ID)); err != nil {
				return err
			}
			kill()
			return nil
		})
	}
	result := fmt.Sprintf(`{"by":%q,"attempt":%d}`, l.WorkerID, l.Attempt)
	if _, err := pawl.Complete(ctx, e, l.Fence(), []byte(result)); err != nil {
		return err
	}
	if point == "before the answer" {
		kill()
	}
	write(entry{Item: l.ID, Attempt: l.Attempt, Result: result})
	return nil
}

// freezeAndThaw claims an item and stops itself outside any transaction. When it is
// continued, it tries to write.
func freezeAndThaw(e *engine.Engine) error {
	ctx := context.Background()
	ls, err := e.Claim(ctx, pawl.ClaimRequest{WorkerID: fmt.Sprint("pid", os.Getpid()), LeaseSeconds: 1})
	if err != nil || len(ls) != 1 {
		return errors.Join(err, fmt.Errorf("claimed %d items", len(ls)))
	}
	l := ls[0]
	write(entry{Item: l.ID, Attempt: l.Attempt})
	if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
		return err
	}
	time.Sleep(l.LeaseExpiresAt.Sub(l.ServerTime)) // another thread may get the signal: the process might stop inside the next transaction
	for _, v := range stale {
		errs, err := v.call(ctx, e, []pawl.Fence{l.Fence()})
		if err = errors.Join(err, errors.Join(errs...)); err == nil {
			write(entry{Item: l.ID, Verb: v.name, Error: "accepted"})
			continue
		}
		var why *pawl.Error
		_ = errors.As(err, &why)
		write(entry{Item: l.ID, Verb: v.name, Error: string(pawl.CodeOf(err)), Reason: why.Reason})
	}
	return nil
}
