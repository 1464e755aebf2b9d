package mcp

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// delivery is the way of one answer to its caller. A call that takes something for its caller
// says how to undo that. It is undone if the caller gave up before the answer was sent.
type delivery struct {
	keyed bool // the caller may ask again: nothing is undone
	waits bool // once begins the long call

	mu     sync.Mutex
	failed bool   // the caller gave up
	undo   func() // nil = nothing
}

// orElse sets what is done if the answer is not delivered.
func (d *delivery) orElse(undo func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.keyed {
		d.undo = undo
	}
}

// giveUp records that the caller does not wait for the answer any more.
func (d *delivery) giveUp() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failed = true
}

// end is called when the answer was sent, or will not be. Further calls do nothing.
func (d *delivery) end(sent bool) {
	d.mu.Lock()
	undo := d.undo
	if sent && !d.failed {
		undo = nil
	}
	d.undo = nil
	d.mu.Unlock()
	if undo != nil {
		undo()
	}
}

type (
	deliveryKey   struct{} // of a *delivery
	deliveriesKey struct{} // of a *deliveries
)

// deliveryOf returns the delivery of a call. One of a transport that knows none is never
// ended: what the call takes stays taken.
func deliveryOf(ctx context.Context) *delivery {
	if d, ok := ctx.Value(deliveryKey{}).(*delivery); ok {
		return d
	}
	return &delivery{}
}

// delivered adds the delivery of a call over stdio to its context.
func delivered(ctx context.Context, req *sdk.CallToolRequest) context.Context {
	if all, ok := ctx.Value(deliveriesKey{}).(*deliveries); ok && req.Extra != nil {
		all.mu.Lock()
		defer all.mu.Unlock()
		if d := all.of[req.Extra]; d != nil {
			return context.WithValue(ctx, deliveryKey{}, d)
		}
	}
	return ctx
}

// deliveries are the calls of a connection that are not answered yet. A call finds its own by
// the SDK's extra information, which the connection adds to its request and the SDK passes on.
type deliveries struct {
	mu sync.Mutex
	by map[jsonrpc.ID]*sdk.RequestExtra
	of map[*sdk.RequestExtra]*delivery
}

func newDeliveries() *deliveries {
	return &deliveries{by: map[jsonrpc.ID]*sdk.RequestExtra{}, of: map[*sdk.RequestExtra]*delivery{}}
}

// begin records a call.
func (a *deliveries) begin(req *jsonrpc.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	extra := &sdk.RequestExtra{}
	req.Extra, a.by[req.ID], a.of[extra] = extra, extra, &delivery{}
}

// cancelled records that the client has cancelled a call.
func (a *deliveries) cancelled(req *jsonrpc.Request) {
	var params struct {
		RequestID any `json:"requestId"`
	}
	if req.Method != "notifications/cancelled" || json.Unmarshal(req.Params, &params) != nil {
		return
	}
	id, err := jsonrpc.MakeID(params.RequestID)
	if err != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if d := a.of[a.by[id]]; d != nil {
		d.giveUp()
	}
}

// end ends the delivery of a call's answer.
func (a *deliveries) end(id jsonrpc.ID, sent bool) {
	a.mu.Lock()
	extra := a.by[id]
	d := a.of[extra]
	delete(a.by, id)
	delete(a.of, extra)
	a.mu.Unlock()
	if d != nil {
		d.end(sent)
	}
}

// close ends the calls whose answers were not sent before the connection closed.
func (a *deliveries) close() {
	a.mu.Lock()
	left := a.of
	a.by, a.of = map[jsonrpc.ID]*sdk.RequestExtra{}, map[*sdk.RequestExtra]*delivery{}
	a.mu.Unlock()
	for _, d := range left {
		d.end(false)
	}
}

// waits reports whether a call of a tool may wait. Nothing can carry its answer to a client
// that has ended the request, in no revision, so the end of the request ends the wait.
func waits(tool string) bool { return tool == checkoutTool || tool == waitTool }

const (
	checkoutTool = "work_checkout"
	waitTool     = "work_wait"
)
