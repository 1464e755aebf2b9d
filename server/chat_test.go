package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
)

// uiMessage is what a client of the AI SDK makes of a UI message stream, according to the
// SDK's documentation. sdk/typescript tests the client itself.
type uiMessage struct {
	id     string
	parts  []map[string]any
	open   map[string]map[string]any
	types  []string
	ended  string
	faults []string
}

func (m *uiMessage) take(data string) {
	if data == "[DONE]" {
		m.types = append(m.types, data)
		return
	}
	var c map[string]any
	if err := json.Unmarshal([]byte(data), &c); err != nil {
		m.faults = append(m.faults, data)
		return
	}
	kind, _ := c["type"].(string)
	m.types = append(m.types, kind)
	id, _ := c["id"].(string)
	what, verb, _ := strings.Cut(kind, "-")
	switch {
	case kind == "start":
		m.id, m.parts, m.open = c["messageId"].(string), nil, map[string]map[string]any{}
	case kind == "start-step":
		m.parts = append(m.parts, map[string]any{"type": "step-start"})
	case kind == "reset-step":
		for n := len(m.parts); m.parts[n-1]["type"] != "step-start"; n-- {
			m.parts = m.parts[:n-1]
		}
		clear(m.open)
	case kind == "finish", kind == "abort", kind == "error":
		m.ended += kind + " "
	case what == "text" || what == "reasoning":
		m.words(what, verb, id, c)
	case kind == "tool-input-available":
		m.parts = append(m.parts, map[string]any{"type": "tool-" + c["toolName"].(string), "id": c["toolCallId"], "input": c["input"]})
	case strings.HasPrefix(kind, "tool-output-"):
		for _, p := range slices.Backward(m.parts) {
			if p["id"] == c["toolCallId"] {
				p["output"], p["error"] = c["output"], c["errorText"]
				return
			}
		}
		m.faults = append(m.faults, "a result without its call: "+data)
	case what == "data" && c["transient"] == true:
	case kind == "file", what == "data":
		m.parts = append(m.parts, c)
	case kind != "finish-step":
		m.faults = append(m.faults, data)
	}
}

func (m *uiMessage) words(what, verb, id string, c map[string]any) {
	p := m.open[what+id]
	switch {
	case verb == "start":
		m.open[what+id] = map[string]any{"type": what, "text": ""}
		m.parts = append(m.parts, m.open[what+id])
	case p == nil:
		m.faults = append(m.faults, fmt.Sprint(c))
	case verb == "end":
		delete(m.open, what+id)
	default:
		p["text"] = p["text"].(string) + c["delta"].(string)
	}
}

func (m *uiMessage) text() string {
	text := ""
	for _, p := range m.parts {
		if p["type"] == "text" {
			text += p["text"].(string)
		}
	}
	return text
}

// filled returns the parts, without steps that are empty.
func (m *uiMessage) filled() (out []map[string]any) {
	for i, p := range m.parts {
		if p["type"] != "step-start" || i+1 < len(m.parts) && m.parts[i+1]["type"] != "step-start" {
			out = append(out, p)
		}
	}
	return out
}

// chat is a user of a server who makes only HTTP calls.
type chat struct {
	*testing.T
	srv   *httptest.Server
	token string
}

// begin makes a request and returns when the stream has begun.
func (c *chat) begin(ctx context.Context, method, path, body string) (*http.Response, *bufio.Scanner) {
	c.Helper()
	req, err := http.NewRequestWithContext(ctx, method, c.srv.URL+path, strings.NewReader(body))
	if err != nil {
		c.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", c.token)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { res.Body.Close() })
	return res, bufio.NewScanner(res.Body)
}

// hear reads a stream to its end, or until enough returns true.
func hear(in *bufio.Scanner, enough func(*uiMessage) bool) *uiMessage {
	m := &uiMessage{}
	for in.Scan() {
		if data, ok := strings.CutPrefix(in.Text(), "data: "); ok {
			m.take(data)
		}
		if enough != nil && enough(m) {
			break
		}
	}
	return m
}

// utter has an agent claim an item and write to its open message.
func utter(t *testing.T, svc pawl.Service, worker string) (pawl.Lease, func(...pawl.Chunk)) {
	t.Helper()
	ls, err := svc.Claim(t.Context(), pawl.ClaimRequest{WorkerID: worker, WaitSeconds: 30})
	if err != nil || len(ls) != 1 || ls[0].OpenMessage == nil {
		t.Fatal(ls, err)
	}
	at := ls[0].OpenMessage.Offset
	return ls[0], func(chunks ...pawl.Chunk) {
		t.Helper()
		a, err := pawltest.First(svc.Append(t.Context(), []pawl.AppendCall{{MessageFence: writer(ls[0]), Offset: at, Chunks: chunks}}))
		if err != nil {
			t.Fatal(err)
		}
		at = a.Offset
	}
}

func writer(l pawl.Lease) pawl.MessageFence {
	return pawl.MessageFence{MessageID: l.OpenMessage.ID, WorkerID: l.WorkerID, Attempt: l.Attempt}
}

func words(text string) pawl.Chunk { return pawl.Chunk{Type: "text", Text: pawl.Words(text)} }

var (
	weather  = pawl.Chunk{Type: "tool_call", ToolCallID: "c1", ToolName: "weather", Input: []byte(`{"in": "Turku"}`)}
	forecast = pawl.Chunk{Type: "tool_result", ToolCallID: "c1", ToolName: "weather", Output: []byte(`"snow"`)}
	noMap    = pawl.Chunk{Type: "tool_result", ToolCallID: "c2", Output: []byte(`"no map"`), IsError: true}
)

const hello = `{"id":"c/1 ä","trigger":"submit-message","topic":["x"],"model":"m1",` +
	`"messages":[{"id":"u1","role":"user","metadata":{"n":1},"parts":[{"type":"text","text":"Hello?"},` +
	`{"type":"file","mediaType":"image/png","url":"data:,"}]}]}`

// A stock client sends a message and gets the reply from one server. The same call gets the
// same reply.
func TestChat(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		c := &chat{T: t, srv: serve(t, p.Service, server.Options{})}
		res, in := c.begin(t.Context(), "POST", "/v1/chat/talk", hello)
		if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" || res.Header.Get(api.UIStreamHeader) != "v1" {
			t.Fatalf("%s %v", res.Status, res.Header)
		}
		l, say := utter(t, p.Service, "w")
		if l.Type != "talk" || string(l.Input) != `{"id":"c/1 ä","model":"m1","topic":["x"],"trigger":"submit-message"}` {
			t.Errorf("claimed %s %s", l.Type, l.Input)
		}
		say(pawl.Chunk{Type: "reasoning", Text: "Hm"}, weather)
		say(forecast, words("It "), words("snows."))
		say(pawl.Chunk{Type: "data", Data: []byte(`{"type":"data-map","id":"m","data":{"x":1}}`)},
			pawl.Chunk{Type: "file", MediaType: "text/plain", URL: "data:,a"}, noMap)
		p.Complete(l, "")
		got := hear(in, nil)
		want := []string{"start", "start-step", "reasoning-start", "reasoning-delta", "reasoning-end", "tool-input-available",
			"tool-output-available", "finish-step",
			"start-step", "text-start", "text-delta", "text-delta", "text-end", "data-map", "file", "tool-input-available", "tool-output-error",
			"finish-step", "finish", "[DONE]"}
		if !reflect.DeepEqual(got.types, want) || got.faults != nil || got.id != l.OpenMessage.ID || got.text() != "It snows." {
			t.Errorf("%v\nof %s: %v", got.types, got.id, got.faults)
		}
		_, in = c.begin(t.Context(), "POST", "/v1/chat/talk", hello)
		if again := hear(in, nil); !reflect.DeepEqual(again, got) {
			t.Errorf("sent again: %+v\nnot %+v", again, got)
		}
		if res, _ := c.begin(t.Context(), "GET", "/v1/chat/talk/c%2F1%20%C3%A4/stream", ""); res.StatusCode != 204 {
			t.Errorf("nothing is under way: %s", res.Status)
		}
		list, err := p.Service.ListMessages(t.Context(), pawl.MessageFilter{Thread: "c/1 ä"})
		if err != nil || len(list.Items) != 2 {
			t.Fatal(list.Items, err)
		}
		user, reply := list.Items[0], list.Items[1]
		if string(user.Content) != `[{"type":"text","text":"Hello?"},{"type":"file","mediaType":"image/png","url":"data:,"}]` ||
			string(user.Metadata) != `{"chat":{"id":"u1","metadata":{"n":1}}}` {
			t.Errorf("kept %s %s", user.Content, user.Metadata)
		}
		if reply.ID != got.id || reply.Model != "m1" || reply.Text() != got.text() {
			t.Errorf("the reply is %+v", reply)
		}
	})
}

// A reply is generated again when the client asks for it, but only once. A message that is
// changed is another message.
func TestChatGoesOn(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		c := &chat{T: t, srv: serve(t, p.Service, server.Options{})}
		const user = `{"id":"u1","role":"user","parts":[{"type":"text","text":"Hello?"}]}`
		answered := func(body, with string) *uiMessage {
			t.Helper()
			_, in := c.begin(t.Context(), "POST", "/v1/chat/talk", body)
			l, say := utter(t, p.Service, "w")
			say(words(with))
			p.Complete(l, "")
			return hear(in, nil)
		}
		kept := `{"id":"a0","role":"assistant","parts":[{"type":"step-start"},{"type":"text","text":"Hi"},` +
			`{"type":"tool-add","toolCallId":"t1","state":"output-available","input":[1],"output":2},` +
			`{"type":"dynamic-tool","toolName":"sub","toolCallId":"t2","state":"output-error","input":{},"errorText":"no"}]}`
		first := answered(`{"id":"t","messages":[`+kept+`,`+user+`]}`, "one")
		again := `{"id":"t","trigger":"regenerate-message","messages":[` + user + `]}`
		second := answered(again, "two")
		third := answered(`{"id":"t","message":{"id":"u1","role":"user","parts":[{"type":"text","text":"Hello!"}]},"messageId":"u1"}`, "three")
		named := `{"id":"t","trigger":"regenerate-message","messageId":"` + third.id + `","messages":[` + user + `]}`
		fourth := answered(named, "four")
		_, in := c.begin(t.Context(), "POST", "/v1/chat/talk", named)
		if same := hear(in, nil); same.id != fourth.id || first.text()+second.text()+third.text()+fourth.text() != "onetwothreefour" ||
			first.id == second.id || second.id == third.id {
			t.Errorf("%v %v %v %v, again %v", first, second, third, fourth, same)
		}
		ctx, gone := context.WithCancel(t.Context())
		_, in = c.begin(ctx, "POST", "/v1/chat/talk", again)
		fifth := hear(in, func(m *uiMessage) bool { return m.id != "" })
		gone()
		_, in = c.begin(t.Context(), "POST", "/v1/chat/talk", again)
		if same := hear(in, func(m *uiMessage) bool { return m.id != "" }); same.id != fifth.id {
			t.Errorf("asked for again while it is made: %s, not %s", same.id, fifth.id)
		}
		_, in = c.begin(t.Context(), "POST", "/v1/chat/talk", strings.ReplaceAll(again, `"u1"`, `"u9"`))
		if other := hear(in, func(m *uiMessage) bool { return m.id != "" }); other.id == "" || other.id == fifth.id {
			t.Errorf("the reply to another message, which is being made, is answered: %q", other.id)
		}
		list, err := p.Service.ListMessages(t.Context(), pawl.MessageFilter{Thread: "t"})
		if err != nil || len(list.Items) != 9 {
			t.Fatal(len(list.Items), err)
		}
		if got, want := string(list.Items[0].Content), `[{"type":"text","text":"Hi"},`+
			`{"type":"tool-call","toolCallId":"t1","toolName":"add","input":[1]},`+
			`{"type":"tool-result","toolCallId":"t1","toolName":"add","output":2},`+
			`{"type":"tool-call","toolCallId":"t2","toolName":"sub","input":{}},`+
			`{"type":"tool-result","toolCallId":"t2","toolName":"sub","output":"no","isError":true}]`; got != want {
			t.Errorf("what the client had is kept as %s\nnot %s", got, want)
		}
	})
}

// A reader that is disconnected connects to another server and gets the same message, although
// the agent died meanwhile and another one continued.
func TestChatResumesElsewhere(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		other := p.Another(engine.Options{})
		here, there := &chat{T: t, srv: serve(t, p.Service, server.Options{})}, &chat{T: t, srv: serve(t, other, server.Options{})}
		ctx, gone := context.WithCancel(t.Context())
		_, in := here.begin(ctx, "POST", "/v1/chat/talk", `{"id":"t","message":{"id":"u1","role":"user","parts":[]}}`)
		_, stays := here.begin(t.Context(), "GET", "/v1/chat/talk/t/stream", "")
		l, say := utter(t, p.Service, "w")
		say(words("It is "), weather, forecast)
		if _, err := pawltest.First(p.Service.StepMessages(t.Context(), []pawl.StepCall{{MessageFence: writer(l)}})); err != nil {
			t.Fatal(err)
		}
		say(words("co"), pawl.Chunk{Type: "tool_call", ToolCallID: "c2", ToolName: "map", Input: []byte("1")})
		heard := hear(in, func(m *uiMessage) bool { return strings.HasSuffix(m.text(), "co") })
		gone()
		if heard.text() != "It is co" {
			t.Errorf("heard %v", heard.parts)
		}
		_, back := there.begin(t.Context(), "GET", "/v1/chat/talk/t/stream", "")
		p.Advance(l.LeaseExpiresAt.Sub(p.Now()))
		if _, err := p.Engine.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		l, say = utter(t, other, "w2")
		say(words("cold"), noMap)
		_, late := here.begin(t.Context(), "GET", "/v1/chat/talk/t/stream", "")
		pawltest.NewCalls(t, other).Complete(l, "")
		got, same, last := hear(back, nil), hear(stays, nil), hear(late, nil)
		if got.text() != "It is cold" || len(got.parts) != 6 || !reflect.DeepEqual(got.parts, same.parts) ||
			!reflect.DeepEqual(got.parts, last.parts) {
			t.Errorf("he who came back has %v\nhe who stayed %v\nhe who came last %v", got.parts, same.parts, last.parts)
		}
		if faults := append(append(got.faults, same.faults...), last.faults...); faults != nil {
			t.Errorf("%v", faults)
		}
	})
}

func TestChatEndsAsItsMessageDoes(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		c := &chat{T: t, srv: serve(t, p.Service, server.Options{})}
		for n, end := range map[string]func(l pawl.Lease) error{
			"abort finish ": func(l pawl.Lease) error {
				_, err := pawltest.First(p.Service.StopMessages(t.Context(), []pawl.StopCall{{MessageID: l.OpenMessage.ID}}))
				return err
			},
			"error ": func(l pawl.Lease) error {
				_, err := pawltest.First(p.Service.Fail(t.Context(),
					[]pawl.FailCall{{Fence: l.Fence(), Error: pawl.Failure{Message: "out of words"}, Retryable: new(bool)}}))
				return err
			},
		} {
			_, in := c.begin(t.Context(), "POST", "/v1/chat/talk", `{"id":"`+n+`","message":{"id":"u1","role":"user","parts":[]}}`)
			l, say := utter(t, p.Service, "w")
			say(words("a"))
			if err := end(l); err != nil {
				t.Fatal(err)
			}
			var raw []string
			m := &uiMessage{}
			for in.Scan() {
				if data, ok := strings.CutPrefix(in.Text(), "data: "); ok {
					raw = append(raw, data)
					m.take(data)
				}
			}
			if m.ended != n || m.text() != "a" || m.types[len(m.types)-1] != "[DONE]" {
				t.Errorf("%q: %v", n, raw)
			}
			if n == "error " && raw[len(raw)-2] != `{"type":"error","errorText":"out of words"}` {
				t.Errorf("%v", raw)
			}
		}
	})
}

func TestChatRefuses(t *testing.T) {
	h := open(t)
	for body, pointer := range map[string]string{
		`{"messages":[]}`:                        "/id",
		`{"id":"","message":{"id":"u"}}`:         "/id",
		`{"id":"t"}`:                             "/messages",
		`{"id":"t","messages":[],"trigger":"x"}`: "/trigger",
		`{"id":"t","messages":[{"id":"a","role":"assistant","parts":[]}]}`:                 "/messages/0/role",
		`{"id":"t","message":{"role":"user","parts":[]}}`:                                  "/messages/0/id",
		`{"id":"t","message":{"id":"u","role":"user","parts":[{"type":"text","text":7}]}}`: "/messages/0/parts/0",
		`{"id":"t","message":{"id":"u","role":"user","parts":[{"text":"a"}]}}`:             "/messages/0/parts/0",
	} {
		r := h.do(400, "POST", "/v1/chat/talk", body)
		if errs, _ := r.json["errors"].([]any); len(errs) == 0 || errs[0].(map[string]any)["pointer"] != pointer {
			t.Errorf("%s: %s", body, r.text)
		}
	}
	if r := ask(t, h.srv, "POST", "/v1/chat/talk", hello, api.KeyHeader, "k"); r.StatusCode != 400 {
		t.Errorf("with a key: %s %s", r.Status, r.text)
	}
	if l, err := h.p.Service.ListTasks(t.Context(), pawl.TaskFilter{}); err != nil || len(l.Items) != 0 {
		t.Errorf("refused calls left %v, %v", l.Items, err)
	}
}

// A chat belongs to the namespace of its key: a key of another namespace finds none.
func TestChatsHaveWalls(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	h := gated(t, p, access.Options{})
	_, ours := h.key(pawl.NewAPIKey{Roles: []string{"submitter", "reader"}, Namespace: "ours"})
	_, theirs := h.key(pawl.NewAPIKey{Roles: []string{"submitter", "reader"}, Namespace: "theirs"})
	c := &chat{T: t, srv: h.srv, token: ours}
	res, in := c.begin(t.Context(), "POST", "/v1/chat/talk", hello)
	one := hear(in, func(m *uiMessage) bool { return m.id != "" })
	if res.StatusCode != 200 || one.id == "" {
		t.Fatal(res.Status)
	}
	c.token = theirs
	if res, _ := c.begin(t.Context(), "GET", "/v1/chat/talk/c%2F1%20%C3%A4/stream", ""); res.StatusCode != 204 {
		t.Errorf("from behind the wall: %s", res.Status)
	}
	_, in = c.begin(t.Context(), "POST", "/v1/chat/talk", hello)
	if other := hear(in, func(m *uiMessage) bool { return m.id != "" }); other.id == "" || other.id == one.id {
		t.Errorf("%s is on both sides", other.id)
	}
}

// All streams of a message end with the same message, which is the stored one, or are aborted.
// That holds whatever is written, cut off and written again, and whenever a reader comes.
func TestUIStreamsSayTheSame(t *testing.T) {
	seed := rand.Uint64()
	for round := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, round))
		var frames []pawl.MessageFrame
		var chunks []pawl.Chunk
		var cuts []pawl.Cut
		step := int64(0)
		for range r.IntN(20) {
			n := int64(len(chunks))
			switch k := r.IntN(10); {
			case k == 0 && step < n:
				cut := pawl.Cut{From: step, To: n, Attempt: len(cuts) + 1}
				cuts, step = append(cuts, cut), n
				frames = append(frames, pawl.MessageFrame{Offset: n, Abandoned: &cut})
			case k <= 2:
				step = n
			default:
				id := fmt.Sprint("c", n) // a result follows its call in the same step, as when tools are run
				said := [][]pawl.Chunk{{words("a")}, {words("b")}, {{Type: "reasoning", Text: "r"}}, {{Type: "data", Data: []byte("1")}},
					{{Type: "tool_call", ToolCallID: id, ToolName: "x", Input: []byte("2")}},
					{{Type: "tool_call", ToolCallID: id, ToolName: "x", Input: []byte("2")},
						{Type: "tool_result", ToolCallID: id, ToolName: "x", Output: []byte("3")}}}[r.IntN(6)]
				chunks = append(chunks, said...)
				frames = append(frames, pawl.MessageFrame{Offset: n, Chunks: said})
			}
		}
		end := pawl.MessageFrame{Offset: int64(len(chunks)), End: &pawl.MessageEnd{Status: pawl.MessageComplete, Offset: int64(len(chunks))}}
		frames = append(frames, end)
		whole := pawl.Message{ID: "msg_1", Offset: int64(len(chunks)), Content: folded(chunks, cuts, false)}
		want := told(t, whole, frames)
		if got := contentOf(t, whole); !reflect.DeepEqual(got, textsOf(want)) || want.faults != nil {
			t.Fatalf("seed %d round %d: %v\nthe message says %v; %v", seed, round, want.parts, got, want.faults)
		}
		for known := range len(chunks) {
			then := pawl.Message{ID: "msg_1", Offset: int64(known)}
			then.Content = folded(chunks[:known], before(cuts, int64(known)), true)
			text, err := server.UIStream(then, frames)
			if err != nil {
				continue // the stream was aborted: its reader connects again
			}
			if got := read(text); !reflect.DeepEqual(got.filled(), want.filled()) || got.faults != nil {
				t.Fatalf("seed %d round %d from %d: %v %v\nnot %v", seed, round, known, got.parts, got.faults, want.parts)
			}
		}
	}
}

// folded returns the content of a message with these chunks: successive chunks of one kind are
// one part.
func folded(chunks []pawl.Chunk, cuts []pawl.Cut, open bool) json.RawMessage {
	parts := []pawl.MessagePart{}
	for i, c := range chunks {
		p := pawl.MessagePart{Type: strings.ReplaceAll(c.Type, "_", "-")}
		begins := false
		for _, cut := range cuts {
			begins = begins || int64(i) == cut.From || int64(i) == cut.To
			if int64(i) >= cut.From && int64(i) < cut.To {
				p.Status = pawl.PartAbandoned
			}
		}
		text := string(c.Text)
		if text != "" {
			p.Text = &text
		}
		if n := len(parts); n > 0 && !begins && p.Text != nil && parts[n-1].Type == p.Type {
			*parts[n-1].Text += text
			continue
		}
		parts = append(parts, p)
	}
	if n := len(parts); open && (n == 0 || parts[n-1].Status == pawl.PartAbandoned) {
		parts = append(parts, pawl.MessagePart{Type: pawl.ChunkText, Text: new(string), Status: pawl.PartStreaming})
	}
	b, _ := json.Marshal(parts) // plain values
	return b
}

// before returns the cuts that existed when a message had n chunks. It leaves out those that
// end at n: the reader may or may not have got them.
func before(cuts []pawl.Cut, n int64) []pawl.Cut {
	for i, c := range cuts {
		if c.To >= n {
			return cuts[:i]
		}
	}
	return cuts
}

func told(t *testing.T, m pawl.Message, frames []pawl.MessageFrame) *uiMessage {
	t.Helper()
	text, err := server.UIStream(m, frames)
	if err != nil {
		t.Fatalf("the stream is cut off: %v", err)
	}
	return read(text)
}

func read(text string) *uiMessage {
	m := &uiMessage{}
	for data := range strings.SplitSeq(text, "\n\n") {
		if data != "" {
			m.take(strings.TrimPrefix(data, "data: "))
		}
	}
	return m
}

// contentOf returns the texts of a message's parts that were not cut off.
func contentOf(t *testing.T, m pawl.Message) (texts []string) {
	parts, err := m.Parts()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range parts {
		if p.Text != nil && p.Status != pawl.PartAbandoned {
			texts = append(texts, p.Type+" "+*p.Text)
		}
	}
	return texts
}

func textsOf(m *uiMessage) (texts []string) {
	for _, p := range m.parts {
		if text, ok := p["text"].(string); ok {
			texts = append(texts, p["type"].(string)+" "+text)
		}
	}
	return texts
}
