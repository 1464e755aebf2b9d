package mcp

import (
	"context"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pawl-work/pawl"
)

// drained is a transport that reports its end only when every call in flight has been
// answered. The SDK drops calls in flight when its client closes its side of the
// connection, but that client still reads.
type drained struct {
	sdk.Transport
	calls *deliveries
}

func (t drained) Connect(ctx context.Context) (sdk.Connection, error) {
	conn, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &draining{Connection: conn, calls: t.calls, asked: map[jsonrpc.ID]bool{}, closed: make(chan struct{})}, nil
}

type draining struct {
	sdk.Connection
	calls  *deliveries
	closed chan struct{}
	close  sync.Once

	mu    sync.Mutex
	asked map[jsonrpc.ID]bool // and not answered
	none  chan struct{}       // closed when all is answered; nil = no goroutine waits for that
}

// longestDrain is the longest time that a call may wait, plus a margin.
const longestDrain = (pawl.MaxMCPWait + 10) * time.Second

func (d *draining) Read(ctx context.Context) (jsonrpc.Message, error) {
	msg, err := d.Connection.Read(ctx)
	if err != nil {
		d.drain(ctx)
		return msg, err
	}
	req, ok := msg.(*jsonrpc.Request)
	if ok && !req.IsCall() {
		d.calls.cancelled(req)
	}
	if ok && req.IsCall() {
		d.calls.begin(req)
		d.mu.Lock()
		d.asked[req.ID] = true
		d.mu.Unlock()
	}
	return msg, nil
}

func (d *draining) Write(ctx context.Context, msg jsonrpc.Message) error {
	err := d.Connection.Write(ctx, msg)
	if res, ok := msg.(*jsonrpc.Response); ok {
		d.calls.end(res.ID, err == nil)
		d.mu.Lock()
		delete(d.asked, res.ID)
		if len(d.asked) == 0 && d.none != nil {
			close(d.none)
			d.none = nil
		}
		d.mu.Unlock()
	}
	return err
}

func (d *draining) Close() error {
	d.close.Do(func() { close(d.closed) })
	return d.Connection.Close()
}

func (d *draining) drain(ctx context.Context) {
	d.mu.Lock()
	none := make(chan struct{})
	if len(d.asked) == 0 {
		close(none)
	} else {
		d.none = none
	}
	d.mu.Unlock()
	late := time.NewTimer(longestDrain)
	defer late.Stop()
	select {
	case <-none:
	case <-d.closed:
	case <-ctx.Done():
	case <-late.C:
	}
}
