package pawl_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/cost"
)

// BeginMessage and ChunkWriter implement pawl.MessageSession: the session keeps what is written.
func (s *session) BeginMessage(_ context.Context, call pawl.StartCall) (pawl.MessageRef, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ref := pawl.MessageRef{ID: fmt.Sprint("msg_", len(s.messages)+1), Status: pawl.MessageStreaming, Model: call.Model, MaxSteps: 10}
	s.messages = append(s.messages, ref)
	s.said = append(s.said, nil)
	return ref, nil
}

func (s *session) ChunkWriter(m pawl.MessageRef) pawl.ChunkWriter {
	for n := range s.messages {
		if s.messages[n].ID == m.ID {
			return &chunkWriter{s.item, n}
		}
	}
	panic("no such message")
}

type chunkWriter struct {
	*item
	n int
}

func (p *chunkWriter) Context() context.Context { return context.Background() }

func (p *chunkWriter) Write(chunks ...pawl.Chunk) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said[p.n] = append(p.said[p.n], chunks...)
	return p.fail
}

func (p *chunkWriter) Step(_ context.Context, call pawl.StepCall) (pawl.CheckpointRef, error) {
	if p.fail != nil {
		return pawl.CheckpointRef{}, p.fail
	}
	m := &p.messages[p.n]
	m.StepNumber++
	var metadata map[string]any
	_ = json.Unmarshal(call.Metadata, &metadata)
	merged, err := json.Marshal(map[string]any{"args": metadata["args"], "message_id": m.ID})
	if call.Name != "" {
		p.saved = append(p.saved, pawl.Checkpoint{Type: pawl.IterationEnd, Name: call.Name, ArgsHash: call.ArgsHash, Snapshot: call.Snapshot,
			Metadata: merged, Attempt: 1})
	}
	return pawl.CheckpointRef{Sequence: int64(m.StepNumber)}, err
}

func (p *chunkWriter) Finish(context.Context, json.RawMessage) error {
	p.messages[p.n].Status = pawl.MessageComplete
	return nil
}

// written returns the calls of a message's writer, in a short form.
func (i *item) written(n int) string {
	var out []string
	for _, c := range i.said[n] {
		out = append(out, strings.TrimRight(c.Type+":"+string(c.Text)+c.ToolName+string(c.Input)+string(c.Output), ":"))
	}
	return strings.Join(out, " ")
}

func mustT[T any](t *testing.T, v T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestACharacterCutBetweenTwoCallsComesOutWhole(t *testing.T) {
	i := newItem()
	m, err := pawl.StartMessage(i.attempt(1), pawl.Reply{})
	mustT(t, m, err)
	face := "😀"
	for _, part := range []string{"a" + face[:1], face[1:2], "", face[2:3], face[3:] + "b"} {
		if err := m.Text(part); err != nil {
			t.Fatal(err)
		}
	}
	if got := i.written(0); got != "text:a text:😀b" {
		t.Errorf("written %q", got)
	}
}

func TestWhatIsNoTextBecomesAReplacementCharacter(t *testing.T) {
	i := newItem()
	m, err := pawl.StartMessage(i.attempt(1), pawl.Reply{})
	mustT(t, m, err)
	_ = m.Text("a\xffb\x00c")
	_ = m.Text("half \xf0\x9f")
	_ = m.Reasoning("hm\xe2")
	_ = m.ToolCall("c1", "look", map[string]int{"n": 1})
	_ = m.Text("\xf0\x9f")
	mustT(t, pawl.CheckpointRef{}, m.Finish(t.Context(), nil))
	want := "text:a\uFFFDb\uFFFDc text:half  text:\uFFFD reasoning:hm reasoning:\uFFFD tool_call:look{\"n\":1} text:\uFFFD"
	if got := i.written(0); got != want {
		t.Errorf("written\n%q, want\n%q", got, want)
	}
}

func FuzzTextIsTheSameHoweverItIsCut(f *testing.F) {
	f.Add("a😀é\xff\x00b", uint8(1))
	f.Add("\xed\xa0\xbd\xed\xb8\x80", uint8(2))
	f.Fuzz(func(t *testing.T, text string, size uint8) {
		i := newItem()
		m, err := pawl.StartMessage(i.attempt(1), pawl.Reply{})
		mustT(t, m, err)
		n := int(size)%8 + 1
		cost.Check(t, len(text), func() {
			for rest := text; rest != ""; {
				k := min(n, len(rest))
				_ = m.Text(rest[:k])
				rest = rest[k:]
			}
			_ = m.Finish(t.Context(), nil)
		})
		got := ""
		for _, c := range i.said[0] {
			got += string(c.Text)
		}
		clean := func(s string) string { // how many bytes a run of bad ones has is not promised
			s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
			return strings.ReplaceAll(s, "\uFFFD", "")
		}
		if clean(got) != clean(text) {
			t.Errorf("cut in pieces of %d, %q came out as %q", n, text, got)
		}
	})
}

func TestAnEndedMessageIsNotSaidAgain(t *testing.T) {
	i := newItem()
	first := i.attempt(1)
	for _, text := range []string{"one", "two"} {
		m, err := pawl.StartMessage(first, pawl.Reply{Model: "m"})
		mustT(t, m, err)
		_ = m.Text(text)
		if _, err := m.Step(first, nil); err != nil || m.StepNumber() != 1 {
			t.Fatal(m.StepNumber(), err)
		}
		if text == "one" {
			mustT(t, m, m.Finish(first, nil))
		}
	}
	second := i.attempt(2)
	m, err := pawl.StartMessage(second, pawl.Reply{})
	if mustT(t, m, err); !m.Ended() || m.ID() != "msg_1" || m.StepNumber() != 1 || m.Model() != "m" {
		t.Errorf("the first: %+v", m)
	}
	_, err = m.Step(second, nil)
	if err := errors.Join(err, m.Text("one"), m.ToolCall("a", "b", nil), m.Finish(second, nil)); err != nil {
		t.Errorf("said again: %v", err)
	}
	if m, err = pawl.StartMessage(second, pawl.Reply{}); mustT(t, m, err).ID() != "msg_2" || m.Ended() {
		t.Errorf("the second: %+v", m)
	}
	_ = m.Text("more")
	if m, err = pawl.StartMessage(second, pawl.Reply{}); mustT(t, m, err).ID() != "msg_3" {
		t.Errorf("the third: %+v", m)
	}
	if i.written(0) != "text:one" || i.written(1) != "text:two text:more" {
		t.Errorf("written %q, %q", i.written(0), i.written(1))
	}
}

func TestAStoppedMessageIsNotBegunAgain(t *testing.T) {
	i := newItem()
	i.messages, i.said = []pawl.MessageRef{{ID: "msg_1", Status: pawl.MessageStopped}}, make([][]pawl.Chunk, 1)
	if _, err := pawl.StartMessage(i.attempt(1), pawl.Reply{}); !errors.Is(err, pawl.ErrStopped) {
		t.Errorf("err = %v", err)
	}
}

func TestAFailedMessageIsNotTakenAsWritten(t *testing.T) {
	i := newItem()
	i.messages, i.said = []pawl.MessageRef{{ID: "msg_1", Status: pawl.MessageError}}, make([][]pawl.Chunk, 1)
	if _, err := pawl.StartMessage(i.attempt(1), pawl.Reply{}); !errors.Is(err, pawl.ErrConflict) {
		t.Errorf("err = %v", err)
	}
}

func TestWhatNoChunkHoldsIsRefusedAtOnce(t *testing.T) {
	i := newItem()
	m, err := pawl.StartMessage(i.attempt(1), pawl.Reply{})
	mustT(t, m, err)
	for name, err := range map[string]error{
		"a function":  m.ToolCall("a", "b", func() {}),
		"2 MiB":       m.ToolResult("a", "b", strings.Repeat("x", 2<<20), false),
		"a bad usage": m.Finish(t.Context(), make(chan int)),
	} {
		if !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := m.Text("fine"); err != nil || i.written(0) != "text:fine" {
		t.Errorf("after it: %v, %q", err, i.written(0))
	}
}

func TestAMessageNeedsASession(t *testing.T) {
	if _, err := pawl.StartMessage(t.Context(), pawl.Reply{}); !errors.Is(err, pawl.ErrNoSession) {
		t.Errorf("err = %v", err)
	}
}

func TestMessagesBegunAtOnceAreTwo(t *testing.T) {
	i := newItem()
	ctx := i.attempt(1)
	var wg sync.WaitGroup
	var ids sync.Map
	for range 8 {
		wg.Go(func() {
			m, err := pawl.StartMessage(ctx, pawl.Reply{})
			if err != nil {
				t.Error(err)
				return
			}
			ids.Store(m.ID(), true)
		})
	}
	wg.Wait()
	n := 0
	ids.Range(func(any, any) bool { n++; return true })
	if n != 8 {
		t.Errorf("%d messages", n)
	}
}

// tell is a handler that writes two steps of a message; the second breaks after a word.
func tell(ctx context.Context, broken error, ran *[]string) (string, error) {
	m, err := pawl.StartMessage(ctx, pawl.Reply{})
	if err != nil {
		return "", err
	}
	out := ""
	for _, name := range []string{"one", "two"} {
		said, err := pawl.MessageStep(ctx, m, name, func(context.Context) (string, error) {
			*ran = append(*ran, name)
			if err := m.Text(name + " "); err != nil || name == "one" {
				return name, err
			}
			return name, broken
		}, map[string]string{"of": name})
		if err != nil {
			return "", err
		}
		out += said + " "
	}
	return out, m.Finish(ctx, nil)
}

func TestAStepOfAMessageIsWrittenOnce(t *testing.T) {
	i := newItem()
	broken := errors.New("broken")
	var ran []string
	if _, err := tell(i.attempt(1), broken, &ran); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	out, err := tell(i.attempt(2), nil, &ran)
	if err != nil || out != "one two " {
		t.Errorf("%q, %v", out, err)
	}
	if got := i.written(0); got != "text:one  text:two  text:two " { // the first "two" is abandoned by the database
		t.Errorf("written %q", got)
	}
	if strings.Join(ran, " ") != "one two two" || i.messages[0].StepNumber != 2 || i.messages[0].Status != pawl.MessageComplete {
		t.Error(ran, i.messages)
	}
}

func TestAStepOfAMessageThatWouldBeWrittenTwiceIsRefused(t *testing.T) {
	ctx := newItem().attempt(1)
	m, err := pawl.StartMessage(ctx, pawl.Reply{})
	mustT(t, m, err)
	write := func(context.Context) (int, error) { return 1, m.Text("a") }
	for name, want := range map[string]func() error{
		"is called before the step has ended": func() error {
			_, err := pawl.MessageStep(ctx, m, "s1", func(context.Context) (int, error) {
				_, err := m.Step(ctx, nil)
				return 1, err
			})
			return err
		},
		`step "s2" of the message is running`: func() error {
			_, err := pawl.MessageStep(ctx, m, "s2", func(ctx context.Context) (int, error) {
				return pawl.MessageStep(ctx, m, "s3", write)
			})
			return err
		},
		"has words that no step has ended": func() error {
			_, err := pawl.MessageStep(ctx, m, "s4", func(context.Context) (int, error) { return 1, errors.Join(m.Text("a"), errors.New("broken")) })
			if err == nil || errors.Is(err, pawl.ErrInvalid) {
				return err
			}
			_, err = pawl.MessageStep(ctx, m, "s4", write)
			_, stepErr := m.Step(ctx, nil)
			mustT(t, 0, stepErr) // a step without a name ends them
			return err
		},
	} {
		if err := want(); !errors.Is(err, pawl.ErrInvalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := pawl.MessageStep(ctx, m, "s5", write); err != nil {
		t.Error("after a step without a name: ", err)
	}
}

func TestAStepOfAMessageKnowsItsMessageAndArguments(t *testing.T) {
	i := newItem()
	ctx := i.attempt(1)
	m, err := pawl.StartMessage(ctx, pawl.Reply{})
	mustT(t, m, err)
	one := func(context.Context) (int, error) { return 1, nil }
	mustT(t, 0, failure(pawl.Step(ctx, "item", one)))
	mustT(t, 0, failure(pawl.MessageStep(ctx, m, "said", one, map[string]any{"model": "a", "n": 1}, 2)))
	for want, got := range map[string]error{
		`taken by a checkpoint of type tool_executed`: failure(pawl.MessageStep(ctx, m, "item", one)),
		`taken by a checkpoint of type iteration_end`: failure(pawl.Step(ctx, "said", one)),
		`for other arguments (/0/model, /2)`:          failure(pawl.MessageStep(ctx, m, "said", one, map[string]any{"model": "b", "n": 1}, 2, 3)),
	} {
		if !errors.Is(got, pawl.ErrInvalid) || retries(got) || !strings.Contains(got.Error(), want) {
			t.Errorf("%s: %v", want, got)
		}
	}
	mustT(t, m, m.Finish(ctx, nil))
	other, err := pawl.StartMessage(ctx, pawl.Reply{})
	mustT(t, other, err)
	if err := failure(pawl.MessageStep(ctx, other, "said", one, map[string]any{"model": "a", "n": 1}, 2)); err == nil ||
		!strings.Contains(err.Error(), "taken by a step of message "+m.ID()) {
		t.Error(err)
	}
}

func retries(err error) bool {
	retryable, _ := pawl.RetryOf(err)
	return retryable
}

// failure returns the error of a call.
func failure[T any](_ T, err error) error { return err }
