package client_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/client"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
)

// sized counts the bytes of an answer.
type sized struct {
	http.ResponseWriter
	n int
}

func (w *sized) Write(p []byte) (int, error) {
	w.n += len(p)
	return w.ResponseWriter.Write(p)
}

// byPages is a client of p's engine. sizes holds the bytes of each page of a resume state.
// before is called with the number of pages that were read so far.
func byPages(t *testing.T, p *pawltest.Pawl, before func(pages int)) (c *client.Client, sizes *[]int) {
	t.Helper()
	h := server.New(p.Service, server.Options{Log: slog.New(slog.DiscardHandler)})
	sizes = new([]int)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/resume") {
			h.ServeHTTP(w, r)
			return
		}
		before(len(*sizes))
		s := &sized{ResponseWriter: w}
		h.ServeHTTP(s, r)
		*sizes = append(*sizes, s.n)
	}))
	t.Cleanup(srv.Close)
	return client.New(srv.URL, ""), sizes
}

// large is what a test needs to work on an item of many MiB.
type large struct {
	testing.TB
	p *pawltest.Pawl
	pawl.Lease
}

// newLarge returns an item in its first attempt, with steps and parts of nearly 1 MiB each and
// a step that waits for the signal go.
func newLarge(t testing.TB, p *pawltest.Pawl, steps, parts int) *large {
	t.Helper()
	l := &large{TB: t, p: p}
	kind := pawl.Type{Name: "big", Parts: []pawl.PartRule{{Key: "part", Repeatable: true}}}
	_, err := p.Engine.PutTypes(t.Context(), []pawl.Type{kind})
	l.p.OK(err)
	p.Create(pawl.NewTask{Type: "big"})
	l.claim()
	l.save(pawl.StateTransition, "wait", json.RawMessage(`null`), json.RawMessage(`{"signal":"go"}`))
	l.save(pawl.IterationStart, "step 1", mebibyte(1000), nil) // the newest of its type, not of its name
	for n := range steps {
		l.save(pawl.ToolExecuted, fmt.Sprintf("step %d", n), mebibyte(n), nil)
	}
	l.save(pawl.IterationEnd, "step 2", mebibyte(1002), nil)
	for n := range parts {
		l.part(n, n)
	}
	return l
}

func (l *large) claim() {
	l.Helper()
	l.Lease = l.p.Claim()
}

// again fails the attempt and claims the next one.
func (l *large) again() {
	l.Helper()
	_, err := pawl.Fail(l.Context(), l.p.Engine, l.Fence(), pawl.RetryAfter(0, errors.New("again")))
	l.p.OK(err)
	l.claim()
}

// mebibyte returns a value of nearly 1 MiB that begins with n.
func mebibyte(n int) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`"%d %s"`, n, strings.Repeat("x", pawl.MaxPayloadBytes-64)))
}

func (l *large) save(typ, name string, snapshot, metadata json.RawMessage) {
	l.Helper()
	_, err := pawl.SaveCheckpoint(l.Context(), l.p.Engine, l.Fence(),
		pawl.NewCheckpoint{Type: typ, Name: name, Snapshot: snapshot, Metadata: metadata})
	l.p.OK(err)
}

func (l *large) part(seq, n int) {
	l.Helper()
	rs, err := l.p.Engine.SubmitParts(l.Context(), []pawl.PartCall{{Fence: l.Fence(), Key: "part", Seq: &seq, Payload: mebibyte(n)}})
	l.p.OK(errors.Join(err, rs[0].Err))
}

func (l *large) message() pawl.MessageFence {
	l.Helper()
	rs, err := l.p.Engine.StartMessages(l.Context(), []pawl.StartCall{{Fence: l.Fence(), Role: pawl.RoleAssistant}})
	l.p.OK(errors.Join(err, rs[0].Err))
	return pawl.MessageFence{MessageID: rs[0].Value.ID, WorkerID: "w", Attempt: l.Attempt}
}

// holds compares the beginnings of steps and parts: step n is steps[n] or n.
func (l *large) holds(s pawl.ResumeState, steps, parts int, changed map[string]int) {
	l.Helper()
	begins := func(name string, n int, raw json.RawMessage) {
		l.Helper()
		if other, ok := changed[name]; ok {
			n = other
		}
		if string(raw) != string(mebibyte(n)) {
			l.Errorf("%s is %.20s of %d bytes, want %d", name, raw, len(raw), n)
		}
	}
	for n := range steps {
		name := fmt.Sprintf("step %d", n)
		begins(name, n, s.Steps[name].Snapshot)
	}
	if len(s.Parts) != parts {
		l.Fatalf("%d parts", len(s.Parts))
	}
	for _, p := range s.Parts {
		begins(fmt.Sprintf("part %d", *p.Seq), *p.Seq, p.Payload)
	}
}

// An item with 40 MiB in steps and parts is read whole, in answers of limited size.
func TestResumeReadsALargeItemByPages(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		l := newLarge(t, p, 20, 20)
		_, err := p.Engine.SendSignals(t.Context(), []pawl.SignalCall{{Name: "go", Payload: mebibyte(8)}})
		l.p.OK(err)
		said := make([]string, 40) // more than one read of the database gets
		for n := range said {
			m := l.message()
			if said[n] = m.MessageID; n < len(said)-1 {
				rs, err := p.Engine.FinishMessages(t.Context(), []pawl.FinishCall{{MessageFence: m}})
				l.p.OK(errors.Join(err, rs[0].Err))
			}
		}
		l.again()
		c, sizes := byPages(t, p, func(int) {})
		state, err := c.Resume(t.Context(), l.ID)
		l.p.OK(err)
		l.holds(state, 20, 20, map[string]int{"step 2": 1002})
		if string(state.Signals["wait"].Payload) != string(mebibyte(8)) || len(state.Signals) != 1 || len(state.Steps) != 21 {
			t.Errorf("%d steps, %d signals, %.20s", len(state.Steps), len(state.Signals), state.Signals["wait"].Payload)
		}
		if state.Attempt != 2 || state.Error == nil || state.Next != "" || state.Newest == nil || state.Newest.Type != pawl.ErrorBoundary ||
			!strings.HasPrefix(string(state.IterationStart.Snapshot), `"1000 `) ||
			!strings.HasPrefix(string(state.IterationEnd.Snapshot), `"1002 `) {
			t.Errorf("attempt %d, error %v, newest %v", state.Attempt, state.Error, state.Newest.Type)
		}
		for n, m := range state.Messages {
			if m.ID != said[n] {
				t.Errorf("message %d is %s, want %s", n, m.ID, said[n])
			}
		}
		if len(state.Messages) != len(said) || state.OpenMessage == nil || state.OpenMessage.ID != said[len(said)-1] {
			t.Errorf("%d messages, the open one is %v", len(state.Messages), state.OpenMessage)
		}
		whole, err := p.Engine.Resume(t.Context(), l.ID)
		l.p.OK(err)
		if !reflect.DeepEqual(asText(t, state), asText(t, whole)) {
			t.Error("over HTTP the state is another")
		}
		const row = pawl.MaxPayloadBytes + pawl.MaxMetadataBytes + 4096
		for n, size := range *sizes {
			if size > pawl.MaxPageBytes+row {
				t.Errorf("page %d has %d bytes", n, size)
			}
		}
		if len(*sizes) < 6 || len(*sizes) > 8 {
			t.Errorf("pages of %v bytes", *sizes)
		}
	})
}

func asText(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// What is saved again between two pages is there once. What was still to be read is there as
// it was saved last.
func TestResumeByPagesOfAnItemThatIsWorkedOn(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		l := newLarge(t, p, 10, 10)
		_, err := p.Engine.SendSignals(t.Context(), []pawl.SignalCall{{Name: "go"}})
		l.p.OK(err)
		c, sizes := byPages(t, p, func(pages int) {
			switch pages {
			case 1: // the first steps were read
				l.save(pawl.StateTransition, "wait", json.RawMessage(`"came"`), json.RawMessage(`{"signal":"go","timed_out":true}`))
				for _, n := range []int{0, 9, 10} {
					l.save(pawl.ToolExecuted, fmt.Sprintf("step %d", n), mebibyte(3000+n), nil)
				}
				l.part(0, 3000)
			case 3: // the first parts were read
				l.part(1, 3001)
				l.part(9, 3009)
			}
		})
		state, err := c.Resume(t.Context(), l.ID)
		l.p.OK(err)
		l.holds(state, 11, 10, map[string]int{"step 2": 1002, "step 0": 3000, "step 9": 3009, "step 10": 3010, "part 0": 3000,
			"part 1": 3001, "part 9": 3009})
		if string(state.Steps["wait"].Snapshot) != `"came"` || len(state.Signals) != 0 || len(*sizes) < 4 {
			t.Errorf("waited for: %s, signals %v, pages of %v bytes", state.Steps["wait"].Snapshot, state.Signals, *sizes)
		}
	})
}

// An item that is claimed again between two pages is read again from the start: no state mixes
// two attempts.
func TestResumeByPagesBeginsAgainWithTheAttempt(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		l := newLarge(t, p, 20, 0)
		c, sizes := byPages(t, p, func(pages int) {
			if pages == 2 {
				l.save(pawl.IterationEnd, "", mebibyte(5000), nil)
				l.again()
			}
		})
		state, err := c.Resume(t.Context(), l.ID)
		l.p.OK(err)
		l.holds(state, 20, 0, map[string]int{"step 2": 1002})
		if state.Attempt != 2 || state.Newest.Type != pawl.ErrorBoundary || !strings.HasPrefix(string(state.IterationEnd.Snapshot), `"5000 `) {
			t.Errorf("attempt %d, newest %s, %.20s", state.Attempt, state.Newest.Type, state.IterationEnd.Snapshot)
		}
		if len(*sizes) < 6 {
			t.Errorf("pages of %v bytes", *sizes)
		}
	})
}
