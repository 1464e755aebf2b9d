package mcp_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/mcp"
	"github.com/pawl-work/pawl/pawltest"
)

// late is a service whose claims are answered only after the client has said its
// last word.
type late struct {
	pawl.Service
	silent chan struct{}
}

func (l late) Claim(ctx context.Context, req pawl.ClaimRequest) ([]pawl.Lease, error) {
	<-l.silent
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(50 * time.Millisecond): // in which a call that is dropped would learn of it
		return l.Service.Claim(ctx, req)
	}
}

// script says its lines, and tells when it has none left.
type script struct {
	io.Reader
	silent chan struct{}
}

func (s script) Read(b []byte) (int, error) {
	n, err := s.Reader.Read(b)
	if errors.Is(err, io.EOF) {
		close(s.silent)
	}
	return n, err
}

const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","clientInfo":{"name":"t",` +
	`"version":"1"},"capabilities":{}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
`

// A client that writes its calls and closes its end, as a script does, gets every
// answer.
func TestStdioAnswersAllThatWasAsked(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		task, err := pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "a"})
		if err != nil {
			t.Fatal(err)
		}
		silent := make(chan struct{})
		in := script{strings.NewReader(hello +
			`{"jsonrpc":"2.0","id":"out","method":"tools/call","params":{"name":"work_checkout","arguments":{"worker_id":"w"}}}` + "\n" +
			`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"work_get","arguments":{"task_id":"` + task.ID + `"}}}` + "\n"), silent}
		var out bytes.Buffer
		if err := mcp.New(late{p.Service, silent}, mcp.Options{Log: quiet}).Stdio(t.Context(), in, &out); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{`"id":1`, `"id":"out"`, `"id":3`} {
			if !strings.Contains(out.String(), id+`,"result"`) {
				t.Errorf("no answer to %s in\n%s", id, out.String())
			}
		}
		if item, err := p.Service.ListItems(t.Context(), pawl.ItemFilter{TaskID: task.ID}); err != nil || item.Items[0].State != pawl.ItemLeased {
			t.Errorf("the item is %+v, %v", item.Items, err)
		}
	})
}

// Being stopped does not wait for calls.
func TestStdioStopsWhenItIsTold(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	ctx, stop := context.WithCancel(t.Context())
	in, lines := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- mcp.New(p.Service, mcp.Options{Log: quiet}).Stdio(ctx, in, io.Discard) }()
	if _, err := io.WriteString(lines,
		hello+`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"work_checkout","arguments":{"worker_id":"w",`+
			`"wait_seconds":60}}}`+"\n"); err != nil {
		t.Fatal(err)
	}
	if err := lines.Close(); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
