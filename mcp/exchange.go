package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// lean carries out what most requests are, one call of a tool of the table by a
// client of a revision before the sessionless one, and answers it as JSON. It does
// what the SDK's own handler does, by a session of the SDK's that lasts as long as
// the call: but that handler reads each message seven times over, each time into
// 32 KB of its own. What is not quite so is left to it.
func (s *Server) lean(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		version := r.Header.Get("Mcp-Protocol-Version")
		if r.Method != http.MethodPost || !slices.Contains(s.leanly, version) || !plain(r) {
			next.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, "the body did not arrive whole", http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		call := callIn(body)
		if call == nil {
			next.ServeHTTP(w, r)
			return
		}
		call.Extra = &sdk.RequestExtra{TokenInfo: auth.TokenInfoFromContext(r.Context()), Header: r.Header}
		x := &exchange{asked: make(chan jsonrpc.Message, 1), answered: make(chan struct{}), closed: make(chan struct{})}
		x.asked <- call
		session, err := s.sdk.Connect(r.Context(), x, &sdk.ServerSessionOptions{State: &sdk.ServerSessionState{
			InitializeParams: &sdk.InitializeParams{ProtocolVersion: version}, InitializedParams: &sdk.InitializedParams{}, LogLevel: "info"}})
		if err != nil {
			http.Error(w, "no session could be made", http.StatusInternalServerError)
			return
		}
		defer session.Close()
		select {
		case <-r.Context().Done():
		case <-x.answered:
			x.send(w)
		}
	})
}

// revisions are those that may be served so: their messages say nothing in headers.
var revisions = []string{"2025-06-18", "2025-11-25"}

// largest is what is read whole to see what it is.
const largest = 1 << 20

// plain says that the SDK would refuse a request for none of its headers, as far
// as they are what clients send.
func plain(r *http.Request) bool {
	at, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return r.ContentLength > 0 && r.ContentLength <= largest && r.Header.Get("Last-Event-ID") == "" &&
		r.Header.Get("Content-Type") == asJSON && slices.Equal(r.Header.Values("Accept"), []string{"application/json, text/event-stream"}) &&
		(at == nil || !loopback(at.String()) || loopback(r.Host))
}

func loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// callIn is the call of a tool of the table that a body is, nil = it is something
// else, or not written as it should be, or says more of itself than a call does.
func callIn(body []byte) *jsonrpc.Request {
	var m struct {
		Version string          `json:"jsonrpc"`
		ID      any             `json:"id"`
		Method  string          `json:"method"`
		Params  json.RawMessage `json:"params"`
	}
	var p struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
		Meta      json.RawMessage `json:"_meta"`
	}
	known := jsonv2.RejectUnknownMembers(true)
	if jsonv2.Unmarshal(body, &m, known) != nil || m.Version != "2.0" || m.Method != "tools/call" || jsonv2.Unmarshal(m.Params, &p, known) != nil {
		return nil
	}
	if n, is := m.ID.(float64); is && n != float64(int64(n)) {
		return nil
	}
	id, err := jsonrpc.MakeID(m.ID)
	ours := slices.ContainsFunc(tools(), func(t tool) bool { return t.name == p.Name })
	if err != nil || !id.IsValid() || !ours || bytes.Contains(p.Meta, []byte("modelcontextprotocol")) || bytes.ContainsRune(p.Meta, '\\') {
		return nil
	}
	return &jsonrpc.Request{ID: id, Method: m.Method, Params: m.Params}
}

// exchange is a connection of the SDK's for one call.
type exchange struct {
	asked    chan jsonrpc.Message
	answered chan struct{}
	closed   chan struct{}
	close    sync.Once

	mu  sync.Mutex
	out [][]byte // what a program of its own has said meanwhile, and the answer
}

func (x *exchange) Connect(context.Context) (sdk.Connection, error) { return x, nil }

func (x *exchange) SessionID() string { return "" }

func (x *exchange) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case m := <-x.asked:
		return m, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-x.closed:
		return nil, io.EOF
	}
}

// rejected is the SDK's code of what a transport does not carry.
const rejected = -32005

func (x *exchange) Write(_ context.Context, m jsonrpc.Message) error {
	if req, ok := m.(*jsonrpc.Request); ok && req.IsCall() {
		return &jsonrpc.Error{Code: rejected, Message: "stateless servers cannot make requests"}
	}
	data, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.out = append(x.out, data)
	if _, ok := m.(*jsonrpc.Response); ok {
		close(x.answered)
	}
	return nil
}

func (x *exchange) Close() error {
	x.close.Do(func() { close(x.closed) })
	return nil
}

// send writes what was answered: as a stream if something was said before.
func (x *exchange) send(w http.ResponseWriter) {
	x.mu.Lock()
	defer x.mu.Unlock()
	w.Header().Set("Cache-Control", "no-cache, no-transform")
	if len(x.out) == 1 {
		w.Header().Set("Content-Type", asJSON)
		_, _ = w.Write(x.out[0]) // the caller may be gone
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, data := range x.out {
		_, _ = fmt.Fprintf(w, "event: message\ndata: %s\n\n", data)
	}
}
