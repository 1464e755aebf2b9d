//go:build unix

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// The message that every writer writes: three steps, two of which use a tool.
const (
	sayings = 12 // pieces of text in a step
	steps   = 3
)

func reference() string {
	var out strings.Builder
	for step := 1; step <= steps; step++ {
		for n := range sayings {
			fmt.Fprintf(&out, "s%dw%d ", step, n)
		}
	}
	return out.String()
}

// sayOn continues the item's message from its last step. Tools run once: their results
// are stored by name before they are appended.
func sayOn(ctx context.Context, e *engine.Engine, l pawl.Lease, pause time.Duration) error {
	state, err := e.Resume(ctx, l.ID)
	if err != nil {
		return err
	}
	fence, offset := pawl.MessageFence{MessageID: l.OpenMessage.ID, WorkerID: l.WorkerID, Attempt: l.Attempt}, l.OpenMessage.Offset
	tell := func(chunks ...pawl.Chunk) error {
		time.Sleep(pause)
		a, err := first(e.Append(ctx, []pawl.AppendCall{{MessageFence: fence, Offset: offset, Chunks: chunks}}))
		offset = a.Offset
		return err
	}
	for step := l.OpenMessage.StepNumber + 1; step <= steps; step++ {
		for n := range sayings {
			if err := tell(pawl.Chunk{Type: pawl.ChunkText, Text: pawl.Words(fmt.Sprintf("s%dw%d ", step, n))}); err != nil {
				return err
			}
		}
		if tool := fmt.Sprint("t", step); step < steps {
			if err := tell(pawl.Chunk{Type: pawl.ChunkToolCall, ToolCallID: tool, ToolName: "look"}); err != nil {
				return err
			}
			if _, kept := state.Steps[tool]; !kept {
				tellOf(entry{Item: l.ID, Key: "ran " + tool})
				ref, err := pawl.SaveCheckpoint(ctx, e, l.Fence(), pawl.NewCheckpoint{Type: pawl.ToolExecuted, Name: tool, Snapshot: []byte(`1`)})
				if err != nil {
					return err
				}
				tellOf(entry{Item: l.ID, Key: "kept " + tool, Sequence: ref.Sequence})
			}
			if err := tell(pawl.Chunk{Type: pawl.ChunkToolResult, ToolCallID: tool, Output: []byte(`1`)}); err != nil {
				return err
			}
		}
		if _, err := first(e.StepMessages(ctx, []pawl.StepCall{{MessageFence: fence}})); err != nil {
			return err
		}
	}
	_, err = first(e.FinishMessages(ctx, []pawl.FinishCall{{MessageFence: fence}}))
	return err
}

// tellOf writes to the journal, if this is a writer's process.
func tellOf(e entry) {
	if os.Getenv("PAWL_TEST_PROCESS") != "" {
		write(e)
	}
}

// sayUntilKilled is the main function of a writer's process.
func sayUntilKilled(e *engine.Engine) error {
	ctx := context.Background()
	for {
		ls, err := e.Claim(ctx, pawl.ClaimRequest{WorkerID: fmt.Sprint("pid", os.Getpid()), LeaseSeconds: 1, WaitSeconds: 5})
		if err != nil {
			return err
		}
		for _, l := range ls {
			if l.OpenMessage == nil {
				continue // the message ended before the last writer was killed
			}
			if err := sayOn(ctx, e, l, 4*time.Millisecond); err != nil && !errors.Is(err, pawl.ErrLeaseLost) {
				return err
			}
		}
	}
}

// endIt continues the message until it has ended.
func endIt(t *testing.T, e *engine.Engine, id string) {
	t.Helper()
	for need[pawl.Message](t)(e.GetMessage(t.Context(), id)).Status == pawl.MessageStreaming {
		for _, l := range need[[]pawl.Lease](t)(e.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "heir", WaitSeconds: 3})) {
			if err := sayOn(t.Context(), e, l, 0); err != nil {
				t.Fatal(err)
			}
			need[pawl.Moved](t)(pawl.Complete(t.Context(), e, l.Fence(), nil))
		}
	}
}

// Writers are killed at random. The message ends complete, no tool whose result was
// stored ran again, and readers of another process got every chunk once.
func TestKilledWritersLoseNothing(t *testing.T) {
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			p := pawltest.OpenReal(t, which)
			need[pawl.Task](t)(
				pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "chat", MaxAttempts: 1000, Reply: &pawl.Reply{MaxSteps: steps}}))
			list := need[pawl.List[pawl.Message]](t)(p.Engine.ListMessages(t.Context(), pawl.MessageFilter{}))
			id := list.Items[0].ID
			ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
			defer stop()
			var running, reading sync.WaitGroup
			running.Go(func() { _ = p.Engine.Run(ctx) })
			var readers [2]heard
			for i := range readers {
				began := make(chan struct{})
				reading.Go(func() {
					var err error
					if readers[i], err = listen(ctx, p.Engine, id, began); err != nil {
						t.Error(err)
					}
				})
				<-began
			}
			var journal []entry
			for range times(4, 100) {
				v := start(t, p, "writer")
				timer := time.AfterFunc(time.Duration(50+rand.IntN(300))*time.Millisecond, func() { _ = v.Process.Kill() })
				for more := true; more; {
					_, more = v.read(t)
				}
				timer.Stop()
				_ = v.Wait()
				journal = append(journal, v.journal...)
			}
			endIt(t, p.Engine, id)
			reading.Wait()
			m := need[pawl.Message](t)(p.Engine.GetMessage(t.Context(), id))
			stop()
			running.Wait()
			if m.Status != pawl.MessageComplete || m.Text() != reference() {
				t.Errorf("the message is %s:\n%s", m.Status, m.Content)
			}
			kept := map[string]bool{}
			for _, e := range journal {
				what, tool, _ := strings.Cut(e.Key, " ")
				if what == "ran" && kept[tool] {
					t.Errorf("tool %s ran again", tool)
				}
				kept[tool] = kept[tool] || what == "kept"
			}
			for _, h := range readers {
				if h.fault != "" || int64(len(h.words)) != m.Offset || h.end != pawl.MessageComplete {
					t.Errorf("a reader heard %d chunks of %d, to the end %q: %s", len(h.words), m.Offset, h.end, h.fault)
				}
			}
		})
	}
}
