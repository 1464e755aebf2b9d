package mcpgate_test

import (
	"bufio"
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/mcpgate"
	"github.com/pawl-work/pawl/pawltest"
)

// raw is the gate between a client and a server that write lines.
type raw struct {
	*testing.T
	p                *pawltest.Pawl
	toGate, toClient io.WriteCloser
	client, server   *bufio.Scanner
	done             chan error
}

func rawly(t *testing.T) *raw {
	t.Helper()
	p := pawltest.Open(t, pawltest.SQLite)
	ctx, session, err := mcpgate.Begin(t.Context(), p.Service, mcpgate.Options{Name: "raw", Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := mcpgate.New(mcpgate.Options{Name: "raw", Ledger: p.Service, Fence: session.Fence, Log: quiet,
		Tools: map[string]mcpgate.Tool{"look": {Read: true}}})
	if err != nil {
		t.Fatal(err)
	}
	clientIn, toGate := io.Pipe()
	clientOut, toClient := io.Pipe()
	serverIn, fromGate := io.Pipe()
	serverOut, toGateFromServer := io.Pipe()
	r := &raw{T: t, p: p, toGate: toGate, toClient: toGateFromServer, client: bufio.NewScanner(clientOut), server: bufio.NewScanner(serverIn),
		done: make(chan error, 1)}
	go func() {
		err := proxy.Run(ctx, mcpgate.Lines(clientIn, toClient, toClient.Close), mcpgate.Lines(serverOut, fromGate, fromGate.Close))
		_ = session.End(ctx, err)
		r.done <- err
	}()
	return r
}

// ask writes a line of the client, and answer one of the server.
func (r *raw) ask(line string)    { _, _ = io.WriteString(r.toGate, line+"\n") }
func (r *raw) answer(line string) { _, _ = io.WriteString(r.toClient, line+"\n") }

func (r *raw) next(s *bufio.Scanner, want ...string) string {
	r.Helper()
	if !s.Scan() {
		r.Fatal("there is nothing more")
	}
	for _, text := range want {
		if !strings.Contains(s.Text(), text) {
			r.Errorf("it lacks %s: %s", text, s.Text())
		}
	}
	return s.Text()
}

// lists answers the gate's question for the tools of the server.
func (r *raw) lists() {
	r.Helper()
	var m struct{ ID json.RawMessage }
	if err := json.Unmarshal([]byte(r.next(r.server, `"tools/list"`)), &m); err != nil {
		r.Fatal(err)
	}
	r.answer(`{"jsonrpc":"2.0","id":` + string(m.ID) +
		`,"result":{"tools":[{"name":"pay"},{"name":"look","annotations":{"readOnlyHint":true}}]}}`)
}

func (r *raw) close() []pawl.EffectRecord {
	r.Helper()
	r.toGate.Close()
	r.toClient.Close()
	<-r.done
	list, err := r.p.Service.ListEffects(r.Context(), pawl.EffectFilter{})
	if err != nil {
		r.Fatal(err)
	}
	return list.Items
}

// Questions of the server and cancellations pass. A call that asks for input is one effect with the call that goes on.
func TestACallThatAsksGoesOn(t *testing.T) {
	r := rawly(t)
	r.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay","arguments":{"n":1}}}`)
	r.lists()
	r.next(r.server, `"id":1`, `"pay"`)
	r.answer(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"sure?"}}`)
	r.next(r.client, "elicitation/create", "sure?")
	r.ask(`{"jsonrpc":"2.0","id":"q","result":{"action":"accept"}}`)
	r.next(r.server, `"accept"`)
	r.answer(`{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","requestState":"s"}}`)
	r.next(r.client, "input_required")
	r.ask(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"pay","arguments":{"n": 1},"requestState":"s","inputResponses":{}}}`)
	r.next(r.server, `"id":2`)
	r.answer(`{"jsonrpc":"2.0","id":2,"result":{"content":[]}}`)
	r.next(r.client, `"id":2`, mcpgate.EffectMeta)
	r.ask(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"pay","arguments":{"n":3}}}`)
	r.next(r.server, `"id":3`)
	r.ask(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`)
	r.next(r.server, "notifications/cancelled")
	r.answer(`{"jsonrpc":"2.0","id":3,"error":{"code":-32602,"message":"no"}}`) // it did not run
	r.next(r.client, `-32602`)
	r.ask(`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"pay","arguments":{"n":4}}}`)
	r.next(r.server, `"id":4`)
	r.answer(`{"jsonrpc":"2.0","id":4,"error":{"code":-32603,"message":"broken"}}`) // it may have run
	r.next(r.client, `-32603`)
	r.ask(`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"pay","arguments":{"n":5}}}`)
	r.next(r.server, `"id":5`) // and no answer
	states := map[pawl.EffectState]int{}
	for _, f := range r.close() {
		states[f.State]++
		if f.Sendings != 1 {
			t.Errorf("%s was sent %d times", f.ID, f.Sendings)
		}
	}
	if states[pawl.EffectDone] != 1 || states[pawl.EffectFailed] != 1 || states[pawl.EffectUnknown] != 2 {
		t.Errorf("the effects are %v", states)
	}
}

// A message that another reader may take for another one does not pass.
func TestNoCallGoesAroundTheGate(t *testing.T) {
	r := rawly(t)
	call := `"params":{"name":"pay"}`
	for _, line := range []string{
		`[{"jsonrpc":"2.0","id":1,"method":"tools/call",` + call + `}]`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","method":"ping",` + call + `}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"look","name":"pay"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call",` + call + `}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call"`,
	} {
		r.ask(line)
		r.next(r.client, "-32700")
	}
	r.ask(`{"jsonrpc":"2.0","method":"tools/call",` + call + `}`) // without an id nothing comes back
	r.ask(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{}}`)
	r.next(r.client, "-32602")
	r.ask(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"look","Name":"pay"}}`)
	r.next(r.client, "-32602")
	r.ask(`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"look"}}`)
	r.lists()
	r.next(r.server, `"id":4`)
	if effects := r.close(); len(effects) != 0 {
		t.Errorf("the effects are %v", effects)
	}
}

// A result of the tasks extension is passed on, and recorded, as it came.
func TestAResultOfAnotherTypeStaysAsItIs(t *testing.T) {
	r := rawly(t)
	for n, line := range []string{`{"resultType":"task","taskId":"t1"}`, `{"own":1}`} {
		id := strconv.Itoa(n)
		r.ask(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"pay","arguments":{"n":` + id + `}}}`)
		if n == 0 {
			r.lists()
		}
		r.next(r.server, "tools/call")
		r.answer(`{"jsonrpc":"2.0","id":` + id + `,"result":` + line + `}`)
		r.next(r.client, strings.Trim(line, "{}"), "io.github.pawl-work/effect")
	}
	r.close()
}
