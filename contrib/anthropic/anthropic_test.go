package anthropic_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/agent"
	"github.com/pawl-work/pawl/contrib/anthropic"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/worker"
)

// fakeServer is a fake of the provider's server. Its second turn breaks off the first time.
type fakeServer struct {
	mu   sync.Mutex
	asks map[string][]ask // by model
}

type ask struct {
	Model     string `json:"model"`
	Stream    bool   `json:"stream"`
	MaxTokens int    `json:"max_tokens"`
	System    []struct{ Text string }
	Messages  []struct {
		Role    string            `json:"role"`
		Content []json.RawMessage `json:"content"`
	} `json:"messages"`
	Tools []struct {
		Name        string         `json:"name"`
		InputSchema map[string]any `json:"input_schema"`
	} `json:"tools"`
}

// turns are the model's output: the events between a message's start and end.
var turns = [][]string{{
	`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"sig"}}`,
	`{"type":"content_block_stop","index":0}`,
	`{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"xyz"}}`,
	`{"type":"content_block_stop","index":1}`,
	`{"type":"content_block_start","index":2,"content_block":{"type":"text","text":""}}`,
	`{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"Let me "}}`,
	`{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"look. "}}`,
	`{"type":"content_block_stop","index":2}`,
	`{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"call_a","name":"look","input":{}}}`,
	`{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":""}}`,
	`{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{\"n\""}}`,
	`{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":":7}"}}`,
	`{"type":"content_block_stop","index":3}`,
	`{"type":"content_block_start","index":4,"content_block":{"type":"tool_use","id":"call_b","name":"look","input":{}}}`,
	`{"type":"content_block_delta","index":4,"delta":{"type":"input_json_delta","partial_json":"{\"n\":8}"}}`,
	`{"type":"content_block_stop","index":4}`,
}, {
	`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"It is "}}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"70 and 80 😀."}}`,
	`{"type":"content_block_stop","index":0}`,
}}

func (w *fakeServer) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	var a ask
	if err := json.NewDecoder(r.Body).Decode(&a); err != nil || r.URL.Path != "/v1/messages" || r.Header.Get("X-Api-Key") != "k" ||
		!a.Stream ||
		a.MaxTokens != 8192 {
		http.Error(rw, `{"type":"error","error":{"type":"invalid_request_error","message":"bad request"}}`, http.StatusBadRequest)
		return
	}
	turn := 0
	for _, m := range a.Messages {
		if m.Role == "assistant" {
			turn++
		}
	}
	w.mu.Lock()
	w.asks[a.Model] = append(w.asks[a.Model], a)
	cut := len(w.asks[a.Model]) == 2
	w.mu.Unlock()
	rw.Header().Set("Content-Type", "text/event-stream")
	send := func(event string) {
		var e struct{ Type string }
		_ = json.Unmarshal([]byte(event), &e)
		fmt.Fprintf(rw, "event: %s\ndata: %s\n\n", e.Type, event)
		rw.(http.Flusher).Flush()
	}
	send(
		fmt.Sprintf(
			`{"type":"message_start","message":{"id":"msg_x","type":"message","role":"assistant","model":%q,"content":[],"stop_reason":null,`+
				`"stop_sequence":null,"usage":{"input_tokens":10,"output_tokens":1}}}`,
			a.Model,
		),
	)
	for n, event := range turns[turn] {
		if cut && n == 2 {
			return // the connection breaks, as it does: without a word
		}
		send(event)
	}
	send(
		`{"type":"message_delta","delta":{"stop_reason":"` + map[int]string{0: "tool_use", 1: "end_turn"}[turn] +
			`","stop_sequence":null},"usage":{"output_tokens":5}}`,
	)
	send(`{"type":"message_stop"}`)
}

func (w *fakeServer) asked(model string) []ask {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asks[model]
}

var server = &fakeServer{asks: map[string][]ask{}}

func TestMain(m *testing.M) {
	srv := httptest.NewServer(server)
	for name, value := range map[string]string{"ANTHROPIC_BASE_URL": srv.URL, "ANTHROPIC_API_KEY": "k"} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	pawltest.Main(m)
}

func TestAGenerationThatBreaksOffGoesOn(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		name := "m-" + rand.Text() // the model of this run alone
		var runs atomic.Int64
		look := agent.Func(
			"look",
			"Looks",
			`{"type":"object","properties":{"n":{"type":"integer"}}}`,
			func(_ context.Context, in struct{ N int }) (int, error) {
				runs.Add(1)
				return 10 * in.N, nil
			},
		)
		loop := agent.Loop{Model: anthropic.New(anthropic.Options{Model: name}), System: "Be brief.", Tools: []agent.Tool{look}}
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() {
			done <- worker.RunWith(ctx, p.Engine, worker.Options{Logger: slog.New(slog.DiscardHandler)},
				worker.Handle("chat", func(ctx context.Context, words string) (agent.Result, error) {
					return loop.Run(ctx, []agent.Message{agent.Text(pawl.RoleUser, words)})
				}))
		}()
		defer func() { stop(); <-done }()
		task, err := pawl.Create(ctx, p.Engine, pawl.NewTask{Type: "chat", Payload: json.RawMessage(`"7 and 8?"`), Reply: &pawl.Reply{}})
		if err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
			now, err := p.Engine.GetTask(ctx, task.ID)
			if err != nil || time.Now().After(end) || now.State == pawl.TaskFailed {
				t.Fatal(now.State, now.Error, err)
			}
			if now.State == pawl.TaskCompleted {
				break
			}
			p.Advance(50 * time.Millisecond) // it is tried again after a second
			if _, err := p.Engine.Sweep(ctx); err != nil {
				t.Fatal(err)
			}
		}
		list, err := p.Engine.ListMessages(ctx, pawl.MessageFilter{TaskID: task.ID})
		if err != nil || len(list.Items) != 1 {
			t.Fatal(list, err)
		}
		m := list.Items[0]
		if m.Text() != "Let me look. It is 70 and 80 😀." || m.StepNumber != 2 || string(m.Usage) != `{"input_tokens":20,"output_tokens":10}` ||
			m.Attempt != 2 ||
			runs.Load() != 2 {
			t.Errorf("%d runs, %+v\n%s", runs.Load(), m, m.Content)
		}
		if !strings.Contains(string(m.Content), `"abandoned"`) || !strings.Contains(string(m.Content), `{"type":"reasoning","text":"hm"}`) {
			t.Errorf("%s", m.Content)
		}
		checkRequests(t, server.asked(name))
	})
}

// checkRequests checks the requests.
func checkRequests(t *testing.T, asks []ask) {
	t.Helper()
	if len(asks) != 3 {
		t.Fatalf("asked %d times", len(asks))
	}
	a := asks[2]
	var said []string
	for _, m := range a.Messages {
		for _, block := range m.Content {
			said = append(said, m.Role+" "+string(block))
		}
	}
	want := []string{`user {"text":"7 and 8?","type":"text"}`,
		`assistant {"signature":"sig","thinking":"hm","type":"thinking"}`, `assistant {"data":"xyz","type":"redacted_thinking"}`,
		`assistant {"text":"Let me look. ","type":"text"}`,
		`assistant {"id":"call_a","input":{"n":7},"name":"look","type":"tool_use"}`,
		`assistant {"id":"call_b","input":{"n":8},"name":"look","type":"tool_use"}`,
		`user {"tool_use_id":"call_a","is_error":false,"content":[{"text":"70","type":"text"}],"type":"tool_result"}`,
		`user {"tool_use_id":"call_b","is_error":false,"content":[{"text":"80","type":"text"}],"type":"tool_result"}`}
	if strings.Join(said, "\n") != strings.Join(want, "\n") {
		t.Errorf("asked\n%s", strings.Join(said, "\n"))
	}
	if len(a.System) != 1 || a.System[0].Text != "Be brief." || len(a.Tools) != 1 || a.Tools[0].Name != "look" ||
		a.Tools[0].InputSchema["type"] != "object" {
		t.Errorf("%+v, %+v", a.System, a.Tools)
	}
}

func TestErrorsSayWhetherTheyPass(t *testing.T) {
	for status, again := range map[int]bool{400: false, 401: false, 404: false, 429: true, 500: true, 503: true} {
		srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "application/json")
			rw.Header().Set("Retry-After", "7")
			rw.WriteHeader(status)
			_, _ = io.WriteString(rw, `{"type":"error","error":{"type":"x","message":"no"}}`)
		}))
		m := anthropic.New(anthropic.Options{Model: "m", Client: []option.RequestOption{option.WithBaseURL(srv.URL), option.WithMaxRetries(0)}})
		_, err := m.Stream(t.Context(), agent.Request{}, func(agent.Part) error { return nil })
		srv.Close()
		if retry, after := pawl.RetryOf(err); retry != again || again && (after == nil || *after != 7*time.Second) {
			t.Errorf("%d: %v, retried: %v after %v", status, err, retry, after)
		}
	}
	m := anthropic.New(
		anthropic.Options{Model: "m", Client: []option.RequestOption{option.WithBaseURL("http://127.0.0.1:1"), option.WithMaxRetries(0)}},
	)
	_, err := m.Stream(t.Context(), agent.Request{}, nil)
	if retry, after := pawl.RetryOf(err); !retry || after == nil {
		t.Errorf("no server: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.Stream(ctx, agent.Request{}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
