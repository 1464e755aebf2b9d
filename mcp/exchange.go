package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// exchange is one call and its answer over HTTP, as a connection of the SDK. The answer is
// JSON; if the session sends a notification before it, such as progress, both are events of
// a stream.
type exchange struct {
	call *direct
	in   chan jsonrpc.Message // to the session: the call, its cancellation, refusals of the session's own calls
	end  chan struct{}        // the session has closed the connection
	sent delivery
	shut sync.Once
	done chan struct{} // the call is answered

	mu     sync.Mutex
	w      http.ResponseWriter // nil once the call is answered or the client is gone
	stream bool                // an event has been sent

	answered bool // all of the answer was sent
}

// theCall identifies the call in its session, which has no other. The client's own id may be
// a number that the SDK would round.
const theCall = "call"

// exchange answers a call.
func (s *Server) exchange(w http.ResponseWriter, r *http.Request, call *direct) {
	x := &exchange{call: call, in: make(chan jsonrpc.Message, 1), end: make(chan struct{}), done: make(chan struct{}), w: w}
	id, _ := jsonrpc.MakeID(theCall) // a string always makes one
	x.in <- &jsonrpc.Request{ID: id, Method: callTool, Params: json.RawMessage(call.params),
		Extra: &sdk.RequestExtra{TokenInfo: auth.TokenInfoFromContext(r.Context()), Header: r.Header}}
	state := &sdk.ServerSessionState{}
	if call.revision < sessionless { // as after an initialization
		state.InitializeParams, state.InitializedParams = &sdk.InitializeParams{ProtocolVersion: call.revision}, &sdk.InitializedParams{}
		state.LogLevel = "info"
	}
	session, err := s.sdk.Connect(context.WithValue(r.Context(), deliveryKey{}, &x.sent), x, &sdk.ServerSessionOptions{State: state})
	if err != nil {
		answer(w, http.StatusInternalServerError, json.RawMessage(call.id), wireError{jsonrpc.CodeInternalError, "the session does not begin"})
		return
	}
	defer func() {
		_ = session.Close() // waits for the tool
		x.mu.Lock()
		sent := x.answered
		x.mu.Unlock()
		x.sent.end(sent && r.Context().Err() == nil)
	}()
	select {
	case <-x.done:
	case <-x.end:
	case <-r.Context().Done():
		x.mu.Lock()
		x.w = nil
		x.mu.Unlock()
		if call.revision >= sessionless || waits(call.tool) { // a request that ends is the cancellation of its call
			x.tell(&jsonrpc.Request{Method: "notifications/cancelled", Params: json.RawMessage(`{"requestId":"` + theCall + `"}`)})
		}
	}
}

func (x *exchange) Connect(context.Context) (sdk.Connection, error) { return x, nil }

func (x *exchange) SessionID() string { return "" }

func (x *exchange) Read(context.Context) (jsonrpc.Message, error) {
	select {
	case msg := <-x.in:
		return msg, nil
	case <-x.end:
		return nil, io.EOF
	}
}

// tell sends a message to the session.
func (x *exchange) tell(msg jsonrpc.Message) {
	select {
	case x.in <- msg:
	case <-x.end:
	}
}

// Write sends a message of the session to the client. What comes after the answer, or when
// the client is gone, is dropped.
func (x *exchange) Write(_ context.Context, msg jsonrpc.Message) error {
	if req, ok := msg.(*jsonrpc.Request); ok && req.IsCall() { // the client could not answer it
		x.tell(&jsonrpc.Response{ID: req.ID, Error: &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest,
			Message: "a server without sessions makes no calls"}})
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	res, last := msg.(*jsonrpc.Response)
	switch {
	case x.w == nil:
		return nil
	case !last:
		text, err := jsonrpc.EncodeMessage(msg)
		if err == nil {
			_ = x.event(text) // the client may be gone
		}
		return err
	}
	x.answered = x.answer(res) == nil
	x.w = nil
	close(x.done)
	return nil
}

// answer sends the answer of the call.
func (x *exchange) answer(res *jsonrpc.Response) error {
	text, status := x.encode(res)
	if x.stream {
		return x.event(text)
	}
	x.head(asJSON)
	x.w.WriteHeader(status)
	_, err := x.w.Write(text)
	return err
}

// encode returns the text of an answer, and the HTTP status that the revision gives it.
func (x *exchange) encode(res *jsonrpc.Response) ([]byte, int) {
	var text bytes.Buffer
	text.Grow(len(res.Result) + len(x.call.id) + len(`{"jsonrpc":"2.0","id":,"result":}`))
	text.WriteString(`{"jsonrpc":"2.0","id":`)
	text.Write(x.call.id)
	if res.Error == nil {
		text.WriteString(`,"result":`)
		text.Write(res.Result)
		text.WriteByte('}')
		return text.Bytes(), http.StatusOK
	}
	told, exact := res.Error.(*jsonrpc.Error)
	if !exact {
		told = &jsonrpc.Error{Message: res.Error.Error()}
		var within *jsonrpc.Error
		if errors.As(res.Error, &within) {
			told.Code = within.Code
		}
	}
	raw, _ := json.Marshal(told) // texts and what was JSON always encode
	text.WriteString(`,"error":`)
	text.Write(raw)
	text.WriteByte('}')
	if x.call.revision < sessionless {
		return text.Bytes(), http.StatusOK
	}
	switch told.Code {
	case jsonrpc.CodeMethodNotFound:
		return text.Bytes(), http.StatusNotFound
	case jsonrpc.CodeInvalidParams, sdk.CodeUnsupportedProtocolVersion, sdk.CodeMissingRequiredClientCapabilities:
		return text.Bytes(), http.StatusBadRequest
	}
	return text.Bytes(), http.StatusOK
}

// event sends a message as an event of the stream.
func (x *exchange) event(text []byte) error {
	if !x.stream {
		x.head(asStream)
		x.stream = true
	}
	if _, err := x.w.Write(slices.Concat([]byte("event: message\ndata: "), text, []byte("\n\n"))); err != nil {
		return err
	}
	if err := http.NewResponseController(x.w).Flush(); !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

func (x *exchange) head(kind string) {
	x.w.Header().Set("Content-Type", kind)
	x.w.Header().Set("Cache-Control", "no-cache, no-transform")
}

func (x *exchange) Close() error {
	x.shut.Do(func() { close(x.end) })
	return nil
}
