//go:build unix

package worker

import (
	"context"
	"io"
	"log/slog"
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
