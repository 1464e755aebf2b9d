package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// stepped is a conversation whose steps are compared with what its chunks said at the time.
type stepped struct {
	*testing.T
	p      *pawltest.Pawl
	rnd    *rand.Rand
	lease  pawl.Lease
	id     string
	offset int64
	want   map[string]string // snapshots by checkpoint
	own    map[string]bool   // names of steps with a snapshot of their own
	refer  int
}

// copyOfMessage puts together what the chunks of a message say so far, without the cut ones.
func (s *stepped) copyOfMessage() string {
	out := struct {
		StepNumber  int          `json:"step_number"`
		Text        string       `json:"text"`
		Reasoning   string       `json:"reasoning"`
		ToolCalls   []pawl.Chunk `json:"tool_calls"`
		ToolResults []pawl.Chunk `json:"tool_results"`
		Model       string       `json:"model"`
		MaxSteps    int          `json:"max_steps"`
	}{ToolCalls: []pawl.Chunk{}, ToolResults: []pawl.Chunk{}}
	m := need[pawl.Message](s)(s.p.Engine.GetMessage(s.Context(), s.id))
	out.StepNumber, out.Model, out.MaxSteps = m.StepNumber, m.Model, m.MaxSteps
	var chunks []pawl.Chunk
	for int64(len(chunks)) < s.offset {
		_ = s.p.Engine.FollowMessage(s.Context(), s.id, int64(len(chunks))-1, func(f pawl.MessageFrame) error {
			chunks = append(chunks, f.Chunks...)
			if int64(len(chunks)) == s.offset {
				return io.EOF
			}
			return nil
		})
	}
	var row store.MessageRow
	err := s.p.Engine.DB().View(s.Context(), func(ctx context.Context, tx store.Tx) (err error) {
		row, err = store.GetMessage(ctx, tx, pawl.DefaultNamespace, s.id)
		return err
	})
	if err != nil {
		s.Fatal(err)
	}
	for i, c := range chunks {
		if slices.ContainsFunc(row.Cuts, func(cut pawl.Cut) bool { return int64(i) >= cut.From && int64(i) < cut.To }) {
			continue
		}
		switch c.Type {
		case pawl.ChunkText:
			out.Text += string(c.Text)
		case pawl.ChunkReasoning:
			out.Reasoning += string(c.Text)
		case pawl.ChunkToolCall:
			out.ToolCalls = append(out.ToolCalls, c)
		case pawl.ChunkToolResult:
			out.ToolResults = append(out.ToolResults, c)
		}
	}
	return string(need[json.RawMessage](s)(json.Marshal(out)))
}

func (s *stepped) writer() pawl.MessageFence {
	return pawl.MessageFence{MessageID: s.id, WorkerID: s.lease.WorkerID, Attempt: s.lease.Attempt}
}

func (s *stepped) append() {
	high, low := pawl.Words("\xed\xa0\xbd"), pawl.Words("\xed\xb8\x80")
	chunks := make([]pawl.Chunk, 1+s.rnd.IntN(4))
	for i := range chunks {
		chunks[i] = []pawl.Chunk{
			{Type: pawl.ChunkText, Text: "word <&> "}, {Type: pawl.ChunkText, Text: "é" + high}, {Type: pawl.ChunkText, Text: low + " \"q\""},
			{Type: pawl.ChunkText, Text: high + low}, {Type: pawl.ChunkText},
			{Type: pawl.ChunkReasoning, Text: "why" + high}, {Type: pawl.ChunkReasoning, Text: low},
			{Type: pawl.ChunkToolCall, ToolCallID: "c", ToolName: "look", Input: json.RawMessage(`{"a": "<b>"}`)},
			{Type: pawl.ChunkToolResult, ToolCallID: "c", ToolName: "look", Output: json.RawMessage(`[1, 2]`), IsError: s.rnd.IntN(2) == 0},
			{Type: pawl.ChunkError, Text: "broken"}, {Type: pawl.ChunkData, Data: json.RawMessage(`{"x":1}`)},
			{Type: pawl.ChunkFile, MediaType: "image/png", URL: "https://example.com/a.png"},
		}[s.rnd.IntN(12)]
	}
	s.offset = need[pawl.Appended](s)(first(s.p.Engine.Append(s.Context(),
		[]pawl.AppendCall{{MessageFence: s.writer(), Offset: s.offset, Chunks: chunks}}))).Offset
}

func (s *stepped) step() {
	call := pawl.StepCall{MessageFence: s.writer()}
	if s.rnd.IntN(4) == 0 {
		call.Snapshot = json.RawMessage(`{"own":true}`)
	}
	ref := need[pawl.CheckpointRef](s)(first(s.p.Engine.StepMessages(s.Context(), []pawl.StepCall{call})))
	if s.want[ref.ID] = string(call.Snapshot); call.Snapshot == nil {
		s.want[ref.ID] = s.copyOfMessage()
		s.refer++
	} else {
		s.own[fmt.Sprint("step:", need[pawl.Message](s)(s.p.Engine.GetMessage(s.Context(), s.id)).StepNumber)] = true
	}
}

func (s *stepped) claim() {
	s.lease = leases(s, s.p.Engine, pawl.ClaimRequest{WorkerID: fmt.Sprint("w", s.rnd.IntN(9))}, 1)[0]
	s.id, s.offset = s.lease.OpenMessage.ID, s.lease.OpenMessage.Offset
}

// takeOver lets the lease expire and claims the item again: what the step said so far is cut.
func (s *stepped) takeOver() {
	s.p.Advance(time.Hour)
	need[pawl.SweepStats](s)(s.p.Engine.Sweep(s.Context()))
	s.claim()
}

// read compares the snapshots with what the chunks said when each step ended.
func (s *stepped) read(when string) {
	s.Helper()
	l := need[pawl.List[pawl.Checkpoint]](s)(s.p.Engine.ListCheckpoints(s.Context(),
		pawl.CheckpointFilter{TaskID: s.lease.TaskID, Types: []string{pawl.IterationEnd}, Page: pawl.Page{Limit: pawl.MaxPage}}))
	if len(l.Items) != len(s.want) {
		s.Fatalf("%s: %d checkpoints, want %d", when, len(l.Items), len(s.want))
	}
	for _, c := range l.Items {
		if string(c.Snapshot) != s.want[c.ID] {
			s.Fatalf("%s: %s is\n%s\nwant\n%s", when, c.Name, c.Snapshot, s.want[c.ID])
		}
	}
}

// resume checks that the resume state has the steps with a snapshot of their own, and of the
// others only the newest.
func (s *stepped) resume(when string) {
	s.Helper()
	state := need[pawl.ResumeState](s)(s.p.Engine.Resume(s.Context(), s.lease.ID))
	refer := 0
	for name, c := range state.Steps {
		if !s.own[name] {
			refer++
		} else if string(c.Snapshot) != `{"own":true}` {
			s.Errorf("%s: %s is resumed as %s", when, name, c.Snapshot)
		}
	}
	if refer > 1 || len(state.Steps)-refer != len(s.own) {
		s.Errorf("%s: %d steps of their own and %d others are resumed, want %d and at most 1", when, len(state.Steps)-refer, refer, len(s.own))
	}
}

// A step stores no copy of its message, and readers get the snapshot that a copy would be:
// while the message is open, after its end, and when its chunks have been removed.
func TestStepsReferToTheirMessage(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		refer := 0
		for seed := range uint64(6) {
			s := &stepped{T: t, p: p, refer: refer, rnd: rand.New(rand.NewPCG(seed, 5)), want: map[string]string{}, own: map[string]bool{}}
			need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine,
				pawl.NewTask{Type: "chat", MaxAttempts: 100, Reply: &pawl.Reply{Model: "m<1>", MaxSteps: 100}}))
			s.claim()
			for range 40 {
				switch n := s.rnd.IntN(10); {
				case n < 6:
					s.append()
				case n < 9:
					s.step()
				default:
					s.takeOver()
				}
			}
			s.step()
			s.read("while it is open")
			s.resume("while it is open")
			need[pawl.Message](t)(first(p.Engine.FinishMessages(t.Context(), []pawl.FinishCall{{MessageFence: s.writer()}})))
			s.read("after its end")
			need[pawl.Moved](t)(first(p.Engine.Complete(t.Context(), []pawl.CompleteCall{{Fence: s.lease.Fence()}})))
			p.Advance(pawl.DefaultRetainChunks + time.Hour)
			need[pawl.SweepStats](t)(p.Engine.Sweep(t.Context()))
			if n := queried(t, p, "SELECT COUNT(*) FROM pawl.message_chunks"); n != 0 {
				t.Fatalf("%d rows of chunks are left", n)
			}
			s.read("without chunks")
			s.resume("without chunks")
			if n := queried(t, p, "SELECT COUNT(*) FROM pawl.checkpoints WHERE snapshot IS NULL"); n != int64(s.refer) {
				t.Errorf("%d steps refer to their message, want %d", n, s.refer)
			}
			refer = s.refer
		}
	})
}

// queried reads one number from the database.
func queried(t testing.TB, p *pawltest.Pawl, query string) (n int64) {
	t.Helper()
	err := p.Engine.DB().View(t.Context(), func(ctx context.Context, tx store.Tx) error {
		_, err := store.Row(ctx, tx, []any{&n}, query)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// The steps of a message store little more than what they say, and the memory of a resume
// does not depend on their number.
func TestStepsGrowLinearly(t *testing.T) {
	steps := 1000
	if os.Getenv("PAWL_TORTURE") != "" {
		steps = 10_000
	}
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "chat", Reply: &pawl.Reply{MaxSteps: steps}}))
		s := &stepped{T: t, p: p}
		s.lease = leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", LeaseSeconds: pawl.MaxLeaseSeconds}, 1)[0]
		s.id = s.lease.OpenMessage.ID
		turn := strings.Repeat("A sentence of forty characters, unescaped", 24)
		for i := range steps {
			say(t, p.Engine, s.lease, int64(i), turn)
			need[pawl.CheckpointRef](t)(first(p.Engine.StepMessages(t.Context(), []pawl.StepCall{{MessageFence: s.writer()}})))
		}
		unique := int64(steps * len(turn))
		stored := queried(t, p, `SELECT (SELECT SUM(octet_length(body)) FROM pawl.message_chunks) +
  (SELECT SUM(octet_length(COALESCE(snapshot, '')) + octet_length(said) + octet_length(metadata)) FROM pawl.checkpoints)`)
		if stored > unique*13/10 {
			t.Errorf("%d steps that say %d bytes store %d", steps, unique, stored)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := time.Now()
		state := need[pawl.ResumeState](t)(p.Engine.Resume(t.Context(), s.lease.ID))
		took := time.Since(began)
		runtime.ReadMemStats(&after)
		t.Logf("%d steps: %.2f of their bytes stored, resumed in %v with %.1f times their bytes allocated", steps,
			float64(stored)/float64(unique), took, float64(after.TotalAlloc-before.TotalAlloc)/float64(unique))
		if n := int64(after.TotalAlloc - before.TotalAlloc); n > 100*unique {
			t.Errorf("a resume of %d bytes allocates %d", unique, n)
		}
		if len(state.Steps) != 1 || len(state.Newest.Snapshot) < int(unique) || state.OpenMessage.StepNumber != steps {
			t.Errorf("resumed: %d steps, newest of %d bytes, %+v", len(state.Steps), len(state.Newest.Snapshot), state.OpenMessage)
		}
	})
}
