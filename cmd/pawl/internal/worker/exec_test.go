//go:build unix

package worker

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
)

// slow is a session that takes a while to save a checkpoint.
type slow struct{ *pawltest.Session }

func (s slow) Save(ctx context.Context, c pawl.NewCheckpoint) (pawl.CheckpointRef, error) {
	time.Sleep(5 * time.Millisecond)
	return s.Session.Save(ctx, c)
}

func do(t *testing.T, s pawl.Session, script string) error {
	t.Helper()
	p := program{args: []string{"sh", "-c", script}, stderr: io.Discard, grace: 100 * time.Millisecond, log: slog.New(slog.DiscardHandler)}
	_, err := p.do(pawl.WithSession(t.Context(), s), nil)
	return err
}

func TestAllReportsOfAProgramAreSaved(t *testing.T) {
	const script = `for i in $(seq 200); do echo '{"checkpoint":{"snapshot":"a snapshot of some length"}}' >&3; done`
	for name, script := range map[string]string{"it ended": script, "it left a process": script + "; sleep 60 >/dev/null 2>&1 &"} {
		t.Run(name, func(t *testing.T) {
			s := pawltest.NewSession(pawl.Lease{})
			if err := do(t, slow{s}, script); err != nil || len(s.Checkpoints) != 200 {
				t.Errorf("%d checkpoints, %v", len(s.Checkpoints), err)
			}
		})
	}
}

func TestHalfAReportIsABadOne(t *testing.T) {
	s := pawltest.NewSession(pawl.Lease{})
	if err := do(t, s, `printf '{"checkpoint"' >&3; sleep 60 >/dev/null 2>&1 &`); err == nil {
		t.Error("the attempt did not fail")
	}
}

// A program that fails leaves no process, whatever the process holds open.
func TestAFailedProgramLeavesNothing(t *testing.T) {
	for name, script := range map[string]string{
		"its output is held":       `sleep 60 3>&- & exit 1`,
		"its reports are held":     `sleep 60 >&- 2>&- & exit 1`,
		"nothing is held":          `sleep 60 >&- 2>&- 3>&- & exit 1`,
		"it fails for good":        `sleep 60 >&- 2>&- 3>&- & exit 65`,
		"a signal ends it":         `sleep 60 3>&- & kill -9 $$`,
		"its result is no JSON":    `sleep 60 >&- 2>&- 3>&- & echo nonsense`,
		"its report is no JSON":    `sleep 60 >&- 2>&- 3>&- & echo nonsense >&3; sleep 60`,
		"it ends with half a line": `sleep 60 >&- 2>&- & printf '{"checkpoint"' >&3`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pipe := filepath.Join(t.TempDir(), "pipe") // it ends with the last process that writes to it
			if err := syscall.Mkfifo(pipe, 0o600); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() {
				_, err := os.ReadFile(pipe)
				ended <- err
			}()
			if err := do(t, pawltest.NewSession(pawl.Lease{}), "exec 4>"+pipe+"; "+script); err == nil {
				t.Error("the attempt did not fail")
			}
			select {
			case err := <-ended:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(20 * time.Second):
				t.Error("a process that the program left still runs")
			}
		})
	}
}
