package agent_test

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
	"github.com/pawl-work/pawl/agent"
	"github.com/pawl-work/pawl/client"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
	"github.com/pawl-work/pawl/worker"
)

// scriptedModel is a model that emits scripted turns, word by word. It finds the next turn from
// the conversation.
type scriptedModel struct {
	turns []string // words; "look(1)" calls a tool
	pause time.Duration
	asked atomic.Int32
	fail  func(turn, word int) error
}

func (m *scriptedModel) Name() string { return "scripted" }

func (m *scriptedModel) Stream(ctx context.Context, r agent.Request, say func(agent.Part) error) (agent.End, error) {
	m.asked.Add(1)
	turn := 0
	for _, said := range r.Messages {
		if said.Role == pawl.RoleAssistant {
			turn++
		}
	}
	end := agent.End{Finish: "stop"}
	for n, word := range strings.Fields(m.turns[turn]) {
		if m.fail != nil {
			if err := m.fail(turn, n); err != nil {
				return end, err
			}
		}
		select {
		case <-time.After(m.pause):
		case <-ctx.Done():
			return end, ctx.Err()
		}
		part := agent.Part{Chunk: pawl.Chunk{Type: pawl.ChunkText, Text: pawl.Words(word + " ")}}
		if name, input, ok := strings.Cut(strings.TrimSuffix(word, ")"), "("); ok {
			part.Chunk = pawl.Chunk{
				Type:       pawl.ChunkToolCall,
				ToolCallID: fmt.Sprintf("c%d.%d", turn, n),
				ToolName:   name,
				Input:      json.RawMessage(input),
			}
			end.Finish = "tool_calls"
		}
		if err := say(part); err != nil {
			return end, err
		}
		end.Usage.Output++
	}
	return end, nil
}

// number is a tool's schema.
const number = `{"type":"integer"}`

// countingTool is a tool that counts its runs.
func countingTool(runs *atomic.Int32) agent.Tool {
	return agent.Func("look", "looks", number, func(_ context.Context, n int) (int, error) {
		runs.Add(1)
		return 10 * n, nil
	})
}

// fixture is a database and a client of it: the engine or HTTP.
type fixture struct {
	*testing.T
	p *pawltest.Pawl
	c pawl.Claimer
}

func eachFixture(t *testing.T, fn func(h fixture)) {
	t.Helper()
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) { fn(fixture{t, p, p.Engine}) })
	for _, which := range pawltest.Databases {
		t.Run("client "+string(which), func(t *testing.T) {
			t.Parallel()
			p := pawltest.Open(t, which)
			srv := httptest.NewServer(server.New(p.Engine, server.Options{Log: slog.New(slog.DiscardHandler)}))
			t.Cleanup(srv.Close)
			fn(fixture{t, p, client.New(srv.URL, "")})
		})
	}
}

// work runs a worker of "chat" until stop.
func (h fixture) work(l agent.Loop, o worker.Options) (stop func() error) {
	h.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	o.Logger, o.FlushEvery = slog.New(slog.DiscardHandler), time.Millisecond
	go func() {
		done <- worker.RunWith(ctx, h.c, o, worker.Handle("chat", func(ctx context.Context, words string) (agent.Result, error) {
			return l.Run(ctx, []agent.Message{agent.Text(pawl.RoleUser, words)})
		}))
	}()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	h.Cleanup(func() { _ = stop() })
	return stop
}

func (h fixture) ask(reply pawl.Reply) (task pawl.Task) {
	h.Helper()
	task, err := pawl.Create(h.Context(), h.p.Engine, pawl.NewTask{Type: "chat", Payload: json.RawMessage(`"hello"`), Reply: &reply})
	if err != nil {
		h.Fatal(err)
	}
	return task
}

func (h fixture) message(task pawl.Task) pawl.Message {
	h.Helper()
	list, err := h.p.Engine.ListMessages(context.Background(), pawl.MessageFilter{TaskID: task.ID})
	if err != nil || len(list.Items) != 1 {
		h.Fatalf("%d messages, %v", len(list.Items), err)
	}
	return list.Items[0]
}

func (h fixture) waitForState(task pawl.Task, state pawl.ItemState) (it pawl.Item) {
	h.Helper()
	h.waitUntil(string(state), func() bool {
		list, err := h.p.Engine.ListItems(context.Background(), pawl.ItemFilter{TaskID: task.ID})
		if err != nil || len(list.Items) != 1 {
			h.Fatal(list, err)
		}
		it = list.Items[0]
		return it.State == state
	})
	return it
}

func (h fixture) waitUntil(what string, so func() bool) {
	h.Helper()
	for end := time.Now().Add(time.Minute); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			h.Fatal("not so: " + what)
		}
	}
}

func (h fixture) result(task pawl.Task) (r agent.Result) {
	h.Helper()
	if err := json.Unmarshal(h.waitForState(task, pawl.ItemCompleted).Result, &r); err != nil {
		h.Fatal(err)
	}
	return r
}

// expire ends all leases of up to a minute.
func (h fixture) expire() {
	h.Helper()
	h.p.Advance(time.Minute)
	h.waitUntil("a lease has run out", func() bool { // a sweep passes over what a heartbeat holds
		s, err := h.p.Engine.Sweep(h.Context())
		if err != nil {
			h.Fatal(err)
		}
		return s.Recovered > 0
	})
}

// content returns a message in a short form.
func content(m pawl.Message) string {
	parts, _ := m.Parts()
	var out []string
	for _, p := range parts {
		s := p.Type
		if p.Text != nil {
			s = strings.TrimSpace(*p.Text)
		}
		if p.Output != nil {
			s += "=" + string(p.Output)
		}
		if p.Status != "" {
			s += "/" + p.Status
		}
		out = append(out, s)
	}
	return strings.Join(out, " | ")
}

func TestAModelAndItsToolsMakeAMessageInSteps(t *testing.T) {
	eachFixture(t, func(h fixture) {
		var runs atomic.Int32
		m := &scriptedModel{turns: []string{"let me look(1) look(2)", "and once more look(3)", "done"}}
		h.work(agent.Loop{Model: m, Tools: []agent.Tool{countingTool(&runs)}}, worker.Options{})
		task := h.ask(pawl.Reply{Model: "theirs"})
		r := h.result(task)
		msg := h.message(task)
		if r.Text != "let me and once more done " || r.Steps != 3 || r.Finish != "stop" || r.Usage.Output != 9 || r.MessageID != msg.ID {
			h.Errorf("%+v", r)
		}
		want := "let me | tool-call | tool-call | tool-result=10 | tool-result=20 | and once more | tool-call | tool-result=30 | done"
		if got := content(msg); got != want || msg.Status != pawl.MessageComplete || msg.StepNumber != 3 ||
			string(msg.Usage) != `{"input_tokens":0,"output_tokens":9}` {
			h.Errorf("%s\n%+v", got, msg)
		}
		if runs.Load() != 3 || m.asked.Load() != 3 {
			h.Errorf("%d runs, %d turns", runs.Load(), m.asked.Load())
		}
	})
}

// One attempt is lost in the middle of a turn, the next in the middle of a tool call. A complete
// turn and the result of a tool are not produced again.
func TestWhatIsSavedIsNotMadeAgain(t *testing.T) {
	eachFixture(t, func(h fixture) {
		var runs atomic.Int32
		reached := make(chan int, 10)
		var cuts atomic.Int32
		m := &scriptedModel{turns: []string{"one look(1)", "two look(2) wait(0)", "three"}}
		m.fail = func(turn, word int) error {
			if turn == 1 && word == 1 && cuts.CompareAndSwap(0, 1) {
				reached <- 1
				select {} // it is heard of no more
			}
			return nil
		}
		wait := agent.Func("wait", "", "", func(ctx context.Context, _ any) (string, error) {
			if cuts.CompareAndSwap(1, 2) {
				reached <- 2
				<-ctx.Done()
				return "", ctx.Err()
			}
			return "waited", nil
		})
		loop := agent.Loop{Model: m, Tools: []agent.Tool{countingTool(&runs), wait}}
		h.work(loop, worker.Options{LeaseSeconds: 30, Concurrency: 2, StopGrace: -1})
		task := h.ask(pawl.Reply{})
		for want := 1; want <= 2; want++ {
			if got := <-reached; got != want {
				h.Fatalf("reached %d", got)
			}
			h.expire()
		}
		r := h.result(task)
		if r.Text != "one two three " || r.Steps != 3 || r.Usage.Output != 6 {
			h.Errorf("%+v", r)
		}
		if runs.Load() != 2 || m.asked.Load() != 4 {
			h.Errorf("the tool ran %d times, the model was asked %d times", runs.Load(), m.asked.Load())
		}
		msg := h.message(task)
		if msg.Text() != "one two three " || msg.StepNumber != 3 || msg.Status != pawl.MessageComplete {
			h.Errorf("%s", content(msg))
		}
	})
}

func TestALoopEndsAtItsMostSteps(t *testing.T) {
	eachFixture(t, func(h fixture) {
		var runs atomic.Int32
		m := &scriptedModel{turns: strings.Split(strings.Repeat("more look(1);", 20), ";")}
		h.work(agent.Loop{Model: m, Tools: []agent.Tool{countingTool(&runs)}}, worker.Options{})
		for most, task := range map[int]pawl.Task{10: h.ask(pawl.Reply{}), 4: h.ask(pawl.Reply{MaxSteps: 4})} {
			if r := h.result(task); r.Steps != most || r.Finish != agent.FinishMaxSteps || h.message(task).StepNumber != most {
				h.Errorf("at most %d: %+v", most, r)
			}
		}
	})
	eachFixture(t, func(h fixture) {
		var runs atomic.Int32
		m := &scriptedModel{turns: strings.Split(strings.Repeat("more look(1);", 20), ";")}
		h.work(agent.Loop{Model: m, Tools: []agent.Tool{countingTool(&runs)}, MaxSteps: 2}, worker.Options{})
		if r := h.result(h.ask(pawl.Reply{})); r.Steps != 2 {
			h.Errorf("at most 2: %+v", r)
		}
	})
}

func TestAStopEndsALoopAtOnce(t *testing.T) {
	eachFixture(t, func(h fixture) {
		m := &scriptedModel{turns: []string{strings.Repeat("word ", 100_000)}, pause: time.Millisecond}
		h.work(agent.Loop{Model: m}, worker.Options{})
		task := h.ask(pawl.Reply{})
		h.waitUntil("it speaks", func() bool { return strings.HasPrefix(h.message(task).Text(), "word ") })
		if _, err := h.p.Engine.StopMessages(h.Context(), []pawl.StopCall{{MessageID: h.message(task).ID}}); err != nil {
			h.Fatal(err)
		}
		r := h.result(task)
		if msg := h.message(task); r.Finish != agent.FinishStopped || !strings.HasPrefix(r.Text, "word ") || msg.Status != pawl.MessageStopped {
			h.Errorf("%+v, %s", r, msg.Status)
		}
	})
}

// The model gets its errors as tool results and continues.
func TestAModelIsToldWhatToolsCannotTake(t *testing.T) {
	eachFixture(t, func(h fixture) {
		var runs atomic.Int32
		m := &scriptedModel{turns: []string{`look("x") sing(1) look({ grumble(1)`, "sorry"}}
		grumble := agent.Func("grumble", "", "", func(context.Context, any) (any, error) { return nil, errors.New("not today") })
		h.work(agent.Loop{Model: m, Tools: []agent.Tool{countingTool(&runs), grumble}}, worker.Options{})
		task := h.ask(pawl.Reply{})
		r := h.result(task)
		got := content(h.message(task))
		if r.Text != "sorry " || runs.Load() != 0 || strings.Count(got, "does not fit") != 2 ||
			!strings.Contains(got, `there is no tool \"sing\"`) ||
			!strings.Contains(got, "not today") {
			h.Errorf("%+v\n%s", r, got)
		}
	})
}

// A tool with side effects that was started and left no result is not run again before
// its outcome is known.
func TestAnUnknownOutcomeIsAskedAbout(t *testing.T) {
	for name, answer := range map[string]string{"it happened": `{"output":"sent"}`, "it did not": `{"again":true}`} {
		t.Run(name, func(t *testing.T) {
			eachFixture(t, func(h fixture) {
				var runs atomic.Int32
				running := make(chan bool, 10)
				send := agent.Func("send", "", "", func(ctx context.Context, _ any) (string, error) {
					running <- true
					if runs.Add(1) == 1 {
						<-ctx.Done()
						return "", ctx.Err()
					}
					return "sent", nil
				})
				send.SideEffects = true
				m := &scriptedModel{turns: []string{"now send(1)", "done"}}
				h.work(agent.Loop{Model: m, Tools: []agent.Tool{send}}, worker.Options{LeaseSeconds: 30})
				task := h.ask(pawl.Reply{})
				<-running
				h.expire()
				h.waitForState(task, pawl.ItemWaiting)
				key := agent.OutcomeKey(agent.Call{MessageID: h.message(task).ID, Step: 1, Number: 1}, 1)
				asked, err := h.p.Engine.ListCheckpoints(h.Context(), pawl.CheckpointFilter{TaskID: task.ID, Types: []string{pawl.ApprovalPoint}})
				if err != nil || len(asked.Items) != 1 || !strings.Contains(string(asked.Items[0].Snapshot), key) || runs.Load() != 1 {
					h.Errorf("%d runs; asked for %s: %+v, %v", runs.Load(), key, asked.Items, err)
				}
				if _, err := pawl.Signal(h.Context(), h.p.Engine, agent.OutcomeSignal, key, json.RawMessage(answer)); err != nil {
					h.Fatal(err)
				}
				r := h.result(task)
				want := map[string]int32{"it happened": 1, "it did not": 2}[name]
				if got := content(h.message(task)); runs.Load() != want || r.Text != "now done " ||
					!strings.HasSuffix(got, `now | tool-call | tool-result="sent" | done`) {
					h.Errorf("%d runs, %+v\n%s", runs.Load(), r, got)
				}
			})
		})
	}
}

// A call that was made again and lost again is asked about again. The first outcome does not count
// for the second call.
func TestAnUnknownOutcomeIsAskedAboutEachTime(t *testing.T) {
	eachFixture(t, func(h fixture) {
		running, asked := make(chan bool, 10), make(chan agent.Call, 10)
		send := agent.Func("send", "", "", func(ctx context.Context, _ any) (string, error) {
			running <- true
			<-ctx.Done()
			return "", ctx.Err()
		})
		send.SideEffects = true
		var times atomic.Int32
		h.work(
			agent.Loop{
				Model: &scriptedModel{turns: []string{"send(1)", "done"}},
				Tools: []agent.Tool{send},
				Ask: func(_ context.Context, c agent.Call) (agent.Outcome, error) {
					asked <- c
					if times.Add(1) == 1 {
						return agent.Outcome{Again: true}, nil
					}
					return agent.Outcome{Output: json.RawMessage(`"seen"`)}, nil
				},
			},
			worker.Options{LeaseSeconds: 30},
		)
		task := h.ask(pawl.Reply{})
		<-running
		h.expire()
		<-running
		h.expire()
		if r := h.result(task); r.Text != "done " || len(asked) != 2 || len(running) != 0 {
			h.Errorf("%+v; asked %d times", r, len(asked))
		}
		if c := <-asked; c.Name != "send" || c.ID != "c0.0" || string(c.Input) != "1" {
			h.Errorf("asked about %+v", c)
		}
	})
}

// When the model stays unavailable the budget is spent, and the content so far stays.
func TestAModelThatStaysAwayLeavesWhatItSaid(t *testing.T) {
	eachFixture(t, func(h fixture) {
		m := &scriptedModel{turns: []string{"half a"}, fail: func(_, word int) error {
			if word == 1 {
				return pawl.Permanent(errors.New("no credit"))
			}
			return nil
		}}
		h.work(agent.Loop{Model: m}, worker.Options{})
		task := h.ask(pawl.Reply{})
		if it := h.waitForState(task, pawl.ItemFailed); it.Error.Message != "no credit" {
			h.Errorf("%+v", it.Error)
		}
		h.waitUntil("the message has ended", func() bool { return h.message(task).Status == pawl.MessageError })
		if got := h.message(task).Text(); got != "half " {
			h.Errorf("%q", got)
		}
	})
}

func TestAConversationIsReadForAModel(t *testing.T) {
	list := []pawl.Message{
		{Role: pawl.RoleUser, Content: json.RawMessage(`[{"type":"text","text":"hello"}]`)},
		{
			Role: pawl.RoleAssistant,
			Content: json.RawMessage(`[{"type":"reasoning","text":"hm"},{"type":"text","text":"cut","status":"abandoned"},{"type":"text","text":"a"},
			{"type":"tool-call","toolCallId":"c1","toolName":"look","input":1},{"type":"tool-result","toolCallId":"c1","toolName":"look",` +
				`"output":2},{"type":"text","text":"b"}]`),
		},
		{Role: pawl.RoleUser, Content: json.RawMessage(`[{"type":"text","text":"and?"}]`)},
	}
	got, err := agent.Conversation(list)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, m := range got {
		s := m.Role + ":"
		for _, p := range m.Parts {
			s += " " + p.Type + string(p.Text)
		}
		out = append(out, s)
	}
	want := "user: texthello; assistant: texta tool_call; tool: tool_result; assistant: textb; user: textand?"
	if s := strings.Join(out, "; "); s != want {
		t.Errorf("%s, want\n%s", s, want)
	}
}

func TestBadToolsAreRefused(t *testing.T) {
	eachFixture(t, func(h fixture) {
		h.work(
			agent.Loop{Model: &scriptedModel{}, Tools: []agent.Tool{
				{Name: "a", Schema: json.RawMessage(`{"type":7}`), Run: countingTool(new(atomic.Int32)).Run}}},
			worker.Options{},
		)
		if it := h.waitForState(h.ask(pawl.Reply{}), pawl.ItemFailed); !strings.Contains(it.Error.Message, "/tools/0/schema") {
			h.Errorf("%+v", it.Error)
		}
	})
}

// listeningModel keeps the last message of each request.
type listeningModel struct {
	*scriptedModel
	heard chan string
}

func (m listeningModel) Stream(ctx context.Context, r agent.Request, say func(agent.Part) error) (agent.End, error) {
	m.heard <- string(r.Messages[len(r.Messages)-1].Parts[0].Text)
	return m.scriptedModel.Stream(ctx, r, say)
}

// An item that is sent back for rework asks the model again, with the reasons, and writes a new message. Each time.
func TestReworkAsksTheModelAgain(t *testing.T) {
	eachFixture(t, func(h fixture) {
		chat := pawl.Type{Name: "chat", Approval: pawl.Approval{Mode: pawl.ApprovalManual}}
		if _, err := h.p.Engine.PutTypes(h.Context(), []pawl.Type{chat}); err != nil {
			h.Fatal(err)
		}
		m := listeningModel{&scriptedModel{turns: []string{"some words"}}, make(chan string, 9)}
		h.work(agent.Loop{Model: m}, worker.Options{})
		task := h.ask(pawl.Reply{})
		for round := range 3 {
			h.waitForState(task, pawl.ItemSubmitted)
			if n := int(m.asked.Load()); n != round+1 {
				h.Fatalf("the model was asked %d times in %d rounds", n, round+1)
			}
			heard := <-m.heard
			if want := "Your earlier result was sent back:\n- /a: thin"; round > 0 && heard != want {
				h.Errorf("the model has heard %q", heard)
			}
			list, err := h.p.Engine.ListMessages(h.Context(), pawl.MessageFilter{TaskID: task.ID})
			if err != nil || len(list.Items) != round+1 {
				h.Errorf("%d messages in %d rounds, %v", len(list.Items), round+1, err)
			}
			rs, err := h.p.Engine.RejectTasks(h.Context(), []pawl.RejectCall{{TaskID: task.ID, AllowRework: true,
				Errors: []pawl.Complaint{{Code: "thin", Message: "thin", Field: "/a"}}}})
			if err != nil || rs[0].Err != nil {
				h.Fatal(err, rs)
			}
		}
	})
}
