package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/client"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/worker"
)

// eachService runs a test in process and over HTTP, on every database.
func eachService(t *testing.T, fn func(t *testing.T, p *pawltest.Pawl, c pawl.Claimer)) {
	t.Helper()
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) { fn(t, p, p.Engine) })
	for _, which := range pawltest.Databases {
		t.Run("client "+string(which), func(t *testing.T) {
			t.Parallel()
			p := pawltest.Open(t, which)
			srv := httptest.NewServer(server.New(p.Engine, server.Options{Log: slog.New(slog.DiscardHandler)}))
			t.Cleanup(srv.Close)
			fn(t, p, client.New(srv.URL, ""))
		})
	}
}

// runChatWorker runs a worker whose handler of "chat" is fn.
func runChatWorker(t *testing.T, c pawl.Claimer, o worker.Options, fn func(ctx context.Context) error) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	o.Logger = slog.New(slog.DiscardHandler)
	go func() {
		done <- worker.RunWith(ctx, c, o, worker.Handle("chat", func(ctx context.Context, _ any) (string, error) { return "said", fn(ctx) }))
	}()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() { _ = stop() })
	return stop
}

// limitedClaimer gives a worker exactly as many items as it runs. Over HTTP, a claim that waits while its
// worker stops may still take an item that is made for the next worker.
type limitedClaimer struct {
	pawl.Claimer
	left atomic.Int32
}

func limitClaims(n int32, c pawl.Claimer) *limitedClaimer {
	f := &limitedClaimer{Claimer: c}
	f.left.Store(n)
	return f
}

func (f *limitedClaimer) Claim(ctx context.Context, req pawl.ClaimRequest) ([]pawl.Lease, error) {
	if f.left.Load() == 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	req.Limit = min(req.Limit, int(f.left.Load()))
	ls, err := f.Claimer.Claim(ctx, req)
	f.left.Add(-int32(len(ls)))
	return ls, err
}

// createChat creates a task with an open reply.
func createChat(t *testing.T, p *pawltest.Pawl, more ...func(*pawl.NewTask)) (pawl.Task, func() pawl.Message) {
	t.Helper()
	task := pawl.NewTask{Type: "chat", Payload: json.RawMessage(`1`), Reply: &pawl.Reply{Model: "m"}}
	for _, fn := range more {
		fn(&task)
	}
	made := p.Create(task)
	return made, func() pawl.Message {
		list, err := p.Engine.ListMessages(context.Background(), pawl.MessageFilter{TaskID: made.ID})
		if err != nil || len(list.Items) != 1 {
			t.Fatalf("%d messages, %v", len(list.Items), err)
		}
		return list.Items[0]
	}
}

// chunkRows returns the rows of a message's chunks.
func chunkRows(t *testing.T, p *pawltest.Pawl, id string) (out []store.ChunkRow) {
	t.Helper()
	err := p.Engine.DB().View(t.Context(), func(ctx context.Context, tx store.Tx) (err error) {
		out, err = store.Chunks(ctx, tx, id, 0, 10_000)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func waitUntil(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not so: " + what)
		}
	}
}

// expireLease lets a lease of five seconds expire.
func expireLease(t *testing.T, p *pawltest.Pawl) {
	t.Helper()
	p.Advance(6 * time.Second)
	waitUntil(t, "a lease has run out", func() bool { return sweep(t, p).Recovered > 0 }) // a sweep passes over what a heartbeat holds
}

func TestWhatAHandlerSaysIsSavedWhileItSpeaks(t *testing.T) {
	eachService(t, func(t *testing.T, p *pawltest.Pawl, c pawl.Claimer) {
		task, message := createChat(t, p)
		goOn := make(chan bool)
		runChatWorker(t, c, worker.Options{FlushEvery: 20 * time.Millisecond}, func(ctx context.Context) error {
			m, err := pawl.StartMessage(ctx, pawl.Reply{})
			if err != nil {
				return err
			}
			for n := range 1000 {
				if err := m.Text(fmt.Sprint(n, " ")); err != nil {
					return err
				}
			}
			<-goOn
			if err := errors.Join(m.ToolCall("c1", "look", map[string]int{"q": 1}), m.ToolResult("c1", "look", []int{2}, false),
				m.Reasoning("hm")); err != nil {
				return err
			}
			if _, err := m.Step(ctx, nil); err != nil {
				return err
			}
			return m.Finish(ctx, map[string]int{"output_tokens": 7})
		})
		waitUntil(t, "all is there before the handler returns", func() bool { return strings.HasSuffix(message().Text(), " 999 ") })
		if m := message(); m.Status != pawl.MessageStreaming {
			t.Errorf("%s", m.Status)
		}
		close(goOn)
		waitForState(t, p, task, pawl.ItemCompleted)
		m := message()
		if parts, _ := m.Parts(); m.Status != pawl.MessageComplete || m.StepNumber != 1 || string(m.Usage) != `{"output_tokens":7}` ||
			len(parts) != 4 {
			t.Errorf("%+v", m)
		}
		if n := len(chunkRows(t, p, m.ID)); n > 100 {
			t.Errorf("1000 words made %d rows", n)
		}
	})
}

func TestTheNextAttemptGoesOnInTheSameMessage(t *testing.T) {
	eachService(t, func(t *testing.T, p *pawltest.Pawl, c pawl.Claimer) {
		task, message := createChat(t, p)
		said, lost := make(chan bool, 1), make(chan error, 1)
		runChatWorker(t, c, worker.Options{LeaseSeconds: 5, FlushEvery: time.Millisecond}, func(ctx context.Context) error {
			m, err := pawl.StartMessage(ctx, pawl.Reply{})
			if err != nil {
				return err
			}
			for n := m.StepNumber() + 1; n <= 2; n++ {
				if err := m.Text(fmt.Sprint("step ", n)); err != nil {
					return err
				}
				if l, _ := pawl.ItemFrom(ctx); l.Attempt == 1 && n == 2 {
					said <- true
					<-m.Context().Done()
					lost <- context.Cause(m.Context())
					return m.Text("too late")
				}
				if err := m.Text("; "); err != nil {
					return err
				}
				if _, err := m.Step(ctx, nil); err != nil {
					return err
				}
			}
			return m.Finish(ctx, nil)
		})
		receive(t, said)
		waitUntil(t, "the second step is begun", func() bool { return strings.HasSuffix(message().Text(), "step 2") })
		expireLease(t, p)
		if err := receive(t, lost); !errors.Is(err, pawl.ErrLeaseLost) || errors.Is(err, pawl.ErrStopped) {
			t.Errorf("cause: %v", err)
		}
		waitForState(t, p, task, pawl.ItemCompleted)
		m := message()
		if m.Text() != "step 1; step 2; " || m.Status != pawl.MessageComplete || m.StepNumber != 2 {
			t.Errorf("%+v", m)
		}
		if parts, _ := m.Parts(); len(parts) != 3 || parts[1].Status != pawl.PartAbandoned {
			t.Errorf("%s", m.Content)
		}
	})
}

// The handler writes nothing for a while: it learns of the stop by the heartbeat.
func TestAStopReachesASilentHandler(t *testing.T) {
	eachService(t, func(t *testing.T, p *pawltest.Pawl, c pawl.Claimer) {
		for name, returned := range map[string]func(m *pawl.MessageWriter) error{
			"ErrStopped":    func(m *pawl.MessageWriter) error { return m.Text("more") },
			"the context's": func(m *pawl.MessageWriter) error { return m.Context().Err() },
			"nil":           func(*pawl.MessageWriter) error { return nil },
		} {
			task, message := createChat(t, p)
			cause, own := make(chan error, 1), make(chan error, 1)
			var runs atomic.Int32
			stop := runChatWorker(t, limitClaims(1, c), worker.Options{LeaseSeconds: 5}, func(ctx context.Context) error {
				runs.Add(1)
				m, err := pawl.StartMessage(ctx, pawl.Reply{})
				if err != nil {
					return err
				}
				if err := m.Text("so far"); err != nil {
					return err
				}
				<-m.Context().Done()
				cause <- context.Cause(m.Context())
				own <- ctx.Err()
				return returned(m)
			})
			waitUntil(t, "something is said", func() bool { return message().Text() == "so far" })
			if _, err := p.Engine.StopMessages(t.Context(), []pawl.StopCall{{MessageID: message().ID}}); err != nil {
				t.Fatal(err)
			}
			if err := receive(t, cause); !errors.Is(err, pawl.ErrStopped) || errors.Is(err, pawl.ErrLeaseLost) {
				t.Errorf("%s: cause: %v", name, err)
			}
			if err := receive(t, own); err != nil {
				t.Errorf("%s: the handler's own context: %v", name, err)
			}
			if it := waitForState(t, p, task, pawl.ItemCompleted); it.Failures != 0 || runs.Load() != 1 {
				t.Errorf("%s: ran %d times: %+v", name, runs.Load(), it)
			}
			if m := message(); m.Status != pawl.MessageStopped || m.Text() != "so far" {
				t.Errorf("%s: %+v", name, m)
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
		}
	})
}

// A reply that was stopped before it was claimed, or after its worker died, is not
// started again.
func TestAStoppedMessageIsToldToTheNextClaimer(t *testing.T) {
	eachService(t, func(t *testing.T, p *pawltest.Pawl, c pawl.Claimer) {
		for _, claims := range []int{0, 1} {
			task, message := createChat(t, p)
			for range claims {
				if ls, err := p.Engine.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "dies", LeaseSeconds: 1}); err != nil || len(ls) != 1 {
					t.Fatal(ls, err)
				}
				p.Advance(2 * time.Second)
				sweep(t, p)
			}
			if _, err := p.Engine.StopMessages(t.Context(), []pawl.StopCall{{MessageID: message().ID}}); err != nil {
				t.Fatal(err)
			}
			stop := runChatWorker(t, limitClaims(1, c), worker.Options{}, func(ctx context.Context) error {
				_, err := pawl.StartMessage(ctx, pawl.Reply{})
				if !errors.Is(err, pawl.ErrStopped) {
					t.Errorf("err = %v", err)
				}
				return err
			})
			it := waitForState(t, p, task, pawl.ItemCompleted)
			if m := message(); m.Status != pawl.MessageStopped || it.Attempt != claims+1 || it.Failures != claims {
				t.Errorf("%+v", m)
			}
			_ = stop()
		}
	})
}

// A handler dies after the end of its message and before its own end. What it writes again
// changes nothing.
func TestAFinishedMessageIsNotSaidAgain(t *testing.T) {
	eachService(t, func(t *testing.T, p *pawltest.Pawl, c pawl.Claimer) {
		task := p.Create(pawl.NewTask{Type: "chat", Payload: json.RawMessage(`1`), Thread: "t"})
		finished := make(chan bool, 1)
		runChatWorker(t, c, worker.Options{LeaseSeconds: 5}, func(ctx context.Context) error {
			for _, words := range []string{"one", "two"} {
				m, err := pawl.StartMessage(ctx, pawl.Reply{Model: "m"})
				if err != nil {
					return err
				}
				if err := errors.Join(m.Text(words), m.Finish(ctx, nil)); err != nil {
					return err
				}
				if l, _ := pawl.ItemFrom(ctx); l.Attempt == 1 {
					finished <- true
					<-ctx.Done()
					return context.Cause(ctx)
				} else if m.Ended() != (words == "one") {
					t.Errorf("%s: ended is %v", words, m.Ended())
				}
			}
			return nil
		})
		receive(t, finished)
		expireLease(t, p)
		waitForState(t, p, task, pawl.ItemCompleted)
		list, err := p.Engine.ListMessages(t.Context(), pawl.MessageFilter{Thread: "t"})
		if err != nil || len(list.Items) != 2 || list.Items[0].Text() != "one" || list.Items[1].Text() != "two" {
			t.Errorf("%+v, %v", list.Items, err)
		}
	})
}

func TestWhenTheBudgetIsSpentAllThatWasSaidIsKept(t *testing.T) {
	eachService(t, func(t *testing.T, p *pawltest.Pawl, c pawl.Claimer) {
		task, message := createChat(t, p, func(n *pawl.NewTask) { n.MaxAttempts = 1 })
		runChatWorker(t, c, worker.Options{FlushEvery: time.Second}, func(ctx context.Context) error {
			m, err := pawl.StartMessage(ctx, pawl.Reply{})
			if err != nil {
				return err
			}
			return errors.Join(m.Text("said in the last moment"), errors.New("the model is away"))
		})
		waitForState(t, p, task, pawl.ItemFailed)
		waitUntil(t, "the message has ended", func() bool { return message().Status == pawl.MessageError })
		if m := message(); m.Text() != "said in the last moment" {
			t.Errorf("%+v", m)
		}
	})
}

// When a worker stops, it finishes the items it can and releases the others at their
// last step. Another worker continues the open messages.
func TestAStopLeavesNoMessageBehind(t *testing.T) {
	eachService(t, func(t *testing.T, p *pawltest.Pawl, c pawl.Claimer) {
		tasks, messages := make([]pawl.Task, 2), make([]func() pawl.Message, 2)
		for i, typ := range []string{`"short"`, `"long"`} {
			tasks[i], messages[i] = createChat(t, p, func(n *pawl.NewTask) { n.Payload = json.RawMessage(typ) })
		}
		begun, stopping := make(chan bool, 2), make(chan bool)
		stop := runChatWorker(
			t,
			limitClaims(2, c),
			worker.Options{Concurrency: 2, StopGrace: 300 * time.Millisecond, FlushEvery: time.Millisecond},
			func(ctx context.Context) error {
				m, err := pawl.StartMessage(ctx, pawl.Reply{})
				if err != nil {
					return err
				}
				if err := m.Text("one "); err != nil {
					return err
				}
				if _, err := m.Step(ctx, nil); err != nil {
					return err
				}
				if err := m.Text("two "); err != nil {
					return err
				}
				l, _ := pawl.ItemFrom(ctx)
				if string(l.Input) == `"short"` {
					err = m.Finish(ctx, nil) // here, since 300 ms may be too short for it
				}
				begun <- true
				<-stopping
				if string(l.Input) == `"long"` {
					<-ctx.Done()
					return ctx.Err()
				}
				return err
			},
		)
		receive(t, begun)
		receive(t, begun)
		close(stopping)
		if err := stop(); !errors.Is(err, worker.ErrGivenBack) {
			t.Errorf("stop: %v", err)
		}
		if m, it := messages[0](), only(t, p, tasks[0]); m.Status != pawl.MessageComplete || m.Text() != "one two " ||
			it.State != pawl.ItemCompleted {
			t.Errorf("the short one: %+v, %s", m, it.State)
		}
		if m, it := messages[1](), only(t, p, tasks[1]); m.Status != pawl.MessageStreaming || m.StepNumber != 1 || it.State != pawl.ItemQueued ||
			it.Failures != 0 {
			t.Errorf("the long one: %+v, %s", m, it.State)
		}
		runChatWorker(t, c, worker.Options{}, func(ctx context.Context) error {
			m, err := pawl.StartMessage(ctx, pawl.Reply{})
			if err != nil {
				return err
			}
			return errors.Join(m.Text(fmt.Sprint("after step ", m.StepNumber())), m.Finish(ctx, nil))
		})
		waitForState(t, p, tasks[1], pawl.ItemCompleted)
		if m := messages[1](); m.Status != pawl.MessageComplete || m.Text() != "one after step 1" {
			t.Errorf("the long one at its end: %+v", m)
		}
	})
}

// lossyClaimer executes calls and loses their answers, or loses the calls.
type lossyClaimer struct {
	pawl.Claimer
	mu sync.Mutex
	n  int
}

func withLostAnswers[C, R any](m *lossyClaimer, calls []C, do func() ([]pawl.Result[R], error)) ([]pawl.Result[R], error) {
	m.mu.Lock()
	m.n++
	n := m.n
	m.mu.Unlock()
	away := &pawl.Error{Code: pawl.CodeUnavailable, Message: "a mood"}
	switch n % 3 {
	case 0:
		return do()
	case 1:
		_, _ = do()
	}
	return nil, away
}

func (m *lossyClaimer) StartMessages(ctx context.Context, calls []pawl.StartCall) ([]pawl.Result[pawl.Message], error) {
	return withLostAnswers(m, calls, func() ([]pawl.Result[pawl.Message], error) { return m.Claimer.StartMessages(ctx, calls) })
}

func (m *lossyClaimer) Append(ctx context.Context, calls []pawl.AppendCall) ([]pawl.Result[pawl.Appended], error) {
	return withLostAnswers(m, calls, func() ([]pawl.Result[pawl.Appended], error) { return m.Claimer.Append(ctx, calls) })
}

func (m *lossyClaimer) StepMessages(ctx context.Context, calls []pawl.StepCall) ([]pawl.Result[pawl.CheckpointRef], error) {
	return withLostAnswers(m, calls, func() ([]pawl.Result[pawl.CheckpointRef], error) { return m.Claimer.StepMessages(ctx, calls) })
}

func (m *lossyClaimer) FinishMessages(ctx context.Context, calls []pawl.FinishCall) ([]pawl.Result[pawl.Message], error) {
	return withLostAnswers(m, calls, func() ([]pawl.Result[pawl.Message], error) { return m.Claimer.FinishMessages(ctx, calls) })
}

func TestLostCallsAndLostAnswersLoseNoWord(t *testing.T) {
	eachService(t, func(t *testing.T, p *pawltest.Pawl, c pawl.Claimer) {
		task := p.Create(pawl.NewTask{Type: "chat", Payload: json.RawMessage(`1`), Thread: "t"})
		want := ""
		for n := range 60 {
			want += fmt.Sprint(n, " ")
		}
		runChatWorker(t, &lossyClaimer{Claimer: c}, worker.Options{FlushEvery: time.Millisecond}, func(ctx context.Context) error {
			m, err := pawl.StartMessage(ctx, pawl.Reply{})
			if err != nil {
				return err
			}
			for n := range 60 {
				if err := m.Text(fmt.Sprint(n, " ")); err != nil {
					return err
				}
				if n%20 == 19 {
					if ref, err := m.Step(ctx, nil); err != nil || ref.ID == "" {
						return fmt.Errorf("step %+v: %w", ref, err)
					}
				}
			}
			return m.Finish(ctx, nil)
		})
		waitForState(t, p, task, pawl.ItemCompleted)
		list, err := p.Engine.ListMessages(t.Context(), pawl.MessageFilter{Thread: "t"})
		if err != nil || len(list.Items) != 1 || list.Items[0].Text() != want || list.Items[0].StepNumber != 3 ||
			list.Items[0].Status != pawl.MessageComplete {
			t.Errorf("%+v, %v", list.Items, err)
		}
	})
}

// Many chunks wait in the writer without filling the memory. They are cut into chunks that the
// message accepts.
func TestALongTextIsCutBetweenCharacters(t *testing.T) {
	eachService(t, func(t *testing.T, p *pawltest.Pawl, c pawl.Claimer) {
		task, message := createChat(t, p)
		long := strings.Repeat("é😀", 500_000) // 3 MB
		runChatWorker(t, c, worker.Options{}, func(ctx context.Context) error {
			m, err := pawl.StartMessage(ctx, pawl.Reply{})
			if err != nil {
				return err
			}
			for rest := long; rest != ""; {
				n := min(len(rest), 777_777)
				if err := m.Text(rest[:n]); err != nil {
					return err
				}
				rest = rest[n:]
			}
			return nil
		})
		waitForState(t, p, task, pawl.ItemCompleted)
		waitUntil(t, "the message has ended", func() bool { return message().Status == pawl.MessageComplete })
		if got := message().Text(); got != long {
			t.Errorf("%d bytes of %d came out", len(got), len(long))
		}
	})
}

// A chunk that the server refuses ends the message's writer with the error.
func TestWhatIsRefusedIsToldAtTheNextCall(t *testing.T) {
	eachService(t, func(t *testing.T, p *pawltest.Pawl, c pawl.Claimer) {
		task, message := createChat(t, p, func(n *pawl.NewTask) { n.MaxAttempts = 1 })
		reported := make(chan error, 1)
		runChatWorker(t, c, worker.Options{}, func(ctx context.Context) error {
			m, err := pawl.StartMessage(ctx, pawl.Reply{})
			if err != nil {
				return err
			}
			if err := errors.Join(m.Text("fine"), m.Write(pawl.Chunk{Type: "song"})); err != nil {
				return err
			}
			_, err = m.Step(ctx, nil)
			reported <- errors.Join(err, m.Text("after it"))
			return err
		})
		if err := receive(t, reported); !errors.Is(err, pawl.ErrInvalid) || !strings.Contains(err.Error(), "song") {
			t.Errorf("reported: %v", err)
		}
		waitForState(t, p, task, pawl.ItemFailed)
		waitUntil(t, "the message has ended", func() bool { return message().Status == pawl.MessageError })
	})
}

// A handler that returns, or suspends its item, while its last words are refused: the message is
// not to end without them as if it were complete.
func TestRefusedLastWordsFailTheAttempt(t *testing.T) {
	eachService(t, func(t *testing.T, p *pawltest.Pawl, c pawl.Claimer) {
		for name, last := range map[string]func(context.Context) error{
			"returns":  func(context.Context) error { return nil },
			"suspends": func(ctx context.Context) error { return pawl.Sleep(ctx, "rest", time.Hour) },
		} {
			task, message := createChat(t, p, func(n *pawl.NewTask) { n.MaxAttempts = 1 })
			stop := runChatWorker(t, limitClaims(1, c), worker.Options{FlushEvery: time.Second}, func(ctx context.Context) error {
				m, err := pawl.StartMessage(ctx, pawl.Reply{})
				if err != nil {
					return err
				}
				if err := m.Write(pawl.Chunk{Type: pawl.ChunkText, Text: "a\x00"}); err != nil {
					return err
				}
				return last(ctx)
			})
			waitUntil(t, "the attempt ends", func() bool {
				state := only(t, p, task).State
				return state != pawl.ItemQueued && state != pawl.ItemLeased && state != pawl.ItemInProgress
			})
			if it := only(t, p, task); it.State != pawl.ItemFailed || !strings.Contains(it.Error.Message, "NUL") {
				t.Fatalf("%s: %s, %v", name, it.State, it.Error)
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
			waitUntil(t, "the message has ended", func() bool { return message().Status == pawl.MessageError })
		}
	})
}
