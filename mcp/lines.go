package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/internal/strictjson"
)

// lines is a transport of one message on each line. The SDK's own ends at the first line that is no message;
// this one answers it, and goes on with the next.
type lines struct {
	in  io.Reader
	out io.Writer
}

// Connect implements sdk.Transport.
func (t lines) Connect(context.Context) (sdk.Connection, error) {
	c := &lineConn{out: t.out, came: make(chan line), closed: make(chan struct{})}
	go c.receive(bufio.NewReaderSize(t.in, 64<<10), c.came)
	return c, nil
}

// line is a line of the client, or why no more come.
type line struct {
	text []byte
	long bool // it was longer than a message may be
	err  error
}

type lineConn struct {
	came   chan line
	closed chan struct{}
	close  sync.Once
	queue  []jsonrpc.Message // that were read and not returned
	end    error             // why no more lines come

	mu       sync.Mutex // of what follows
	out      io.Writer
	revision string // that was negotiated
	opened   jsonrpc.ID
	batches  map[jsonrpc.ID]*lineBatch // of calls that are not answered
}

// lineBatch are the answers to a batch of calls, which revisions before 2025-06-18 have.
type lineBatch struct {
	left    int
	answers []json.RawMessage
}

// unbatched is the first revision without batches.
const unbatched = "2025-06-18"

// SessionID implements sdk.Connection.
func (*lineConn) SessionID() string { return "" }

// Close implements sdk.Connection.
func (c *lineConn) Close() error {
	c.close.Do(func() { close(c.closed) })
	return nil
}

// receive passes lines on until the client ends or the connection is closed. A read of a terminal
// or a pipe cannot be interrupted: it may outlast the connection, which the program does not outlast.
func (c *lineConn) receive(in *bufio.Reader, came chan<- line) {
	for {
		var l line
		for {
			part, err := in.ReadSlice('\n')
			if l.long = l.long || len(l.text)+len(part) > pawl.MaxBodyBytes; l.long {
				l.text = nil
			} else {
				l.text = append(l.text, part...)
			}
			if err != bufio.ErrBufferFull {
				l.err = err
				break
			}
		}
		select {
		case came <- l:
		case <-c.closed:
			return
		}
		if l.err != nil {
			return
		}
	}
}

// Read implements sdk.Connection.
func (c *lineConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		if len(c.queue) > 0 {
			msg := c.queue[0]
			c.queue = c.queue[1:]
			return msg, nil
		}
		if c.end != nil {
			return nil, c.end
		}
		var l line
		select {
		case l = <-c.came:
		case <-c.closed:
			return nil, io.EOF
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		c.end = l.err
		if err := c.take(bytes.TrimSpace(l.text), l.long); err != nil {
			return nil, err
		}
	}
}

// take reads a line's messages into the queue, or answers the line.
func (c *lineConn) take(text []byte, long bool) error {
	switch {
	case long:
		return c.refuse(nil, jsonrpc.CodeInvalidRequest, "the message is over "+strconv.Itoa(pawl.MaxBodyBytes>>20)+" MiB")
	case len(text) == 0:
		return nil
	case !utf8.Valid(text) || !json.Valid(text):
		return c.refuse(nil, jsonrpc.CodeParseError, "the line is not JSON")
	case text[0] == '[':
		return c.takeBatch(text)
	}
	msg, id, why := readMessage(text)
	if why != "" {
		return c.refuse(id, jsonrpc.CodeInvalidRequest, why)
	}
	if req, ok := msg.(*jsonrpc.Request); ok && req.Method == "initialize" {
		c.mu.Lock()
		c.opened = req.ID
		c.mu.Unlock()
	}
	c.queue = append(c.queue, msg)
	return nil
}

func (c *lineConn) takeBatch(text []byte) error {
	c.mu.Lock()
	old := c.revision != "" && c.revision < unbatched
	c.mu.Unlock()
	values, _, _ := strictjson.Values(text)
	if !old || len(values) == 0 {
		return c.refuse(nil, jsonrpc.CodeInvalidRequest, "the line is no message; this revision has no batches")
	}
	batch := &lineBatch{}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, value := range values {
		msg, id, why := readMessage(value)
		if why != "" {
			batch.answers = append(batch.answers, refusalOf(id, jsonrpc.CodeInvalidRequest, why))
			continue
		}
		if req, ok := msg.(*jsonrpc.Request); ok && req.IsCall() {
			if c.batches[req.ID] != nil {
				batch.answers = append(batch.answers, refusalOf(id, jsonrpc.CodeInvalidRequest, "the id is in use"))
				continue
			}
			if c.batches == nil {
				c.batches = map[jsonrpc.ID]*lineBatch{}
			}
			batch.left++
			c.batches[req.ID] = batch
		}
		c.queue = append(c.queue, msg)
	}
	if batch.left > 0 || len(batch.answers) == 0 {
		return nil
	}
	return c.send(batch)
}

// readMessage reads a message. If it is none, it says why, and which id its answer has.
func readMessage(text []byte) (msg jsonrpc.Message, id json.RawMessage, why string) {
	var head struct {
		ID     json.RawMessage `json:"id"`
		Method json.RawMessage `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	if json.Unmarshal(text, &head) != nil {
		return nil, nil, "the message is no object"
	}
	if len(head.ID) > 0 {
		switch first := head.ID[0]; {
		case first == '"' || first == '-' || first >= '0' && first <= '9':
			id = head.ID
		default:
			return nil, nil, "the id is neither a text nor a number"
		}
	}
	if err := strictjson.Scan(text); err != nil {
		return nil, id, sentence(api.ProblemOf(err, ""))
	}
	if len(head.Params) > 0 && head.Params[0] != '{' && head.Params[0] != '[' && string(head.Params) != "null" {
		return nil, id, "params is no object"
	}
	msg, err := jsonrpc.DecodeMessage(text)
	if err != nil {
		return nil, id, "the message is no request, notification or answer of JSON-RPC 2.0"
	}
	switch req := msg.(type) {
	case *jsonrpc.Response:
		if req.Error == nil && len(req.Result) == 0 {
			return nil, id, "the message has neither a method nor a result"
		}
	case *jsonrpc.Request:
		if req.IsCall() {
			if req.ID, err = exactID(id); err != nil {
				return nil, id, "the id is no text or number"
			}
		} else if req.Method == "notifications/cancelled" {
			req.Params = exactCancel(req.Params)
		}
	}
	return msg, id, ""
}

// numberID marks the ids that stand for numbers which the SDK would change: it reads ids as
// floating-point numbers and keeps integers of 64 bits.
const numberID = "\x00number "

// exactID returns the id that stands for that of a request.
func exactID(raw json.RawMessage) (jsonrpc.ID, error) {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return jsonrpc.ID{}, err
	}
	if n, ok := v.(float64); ok && (strconv.FormatInt(int64(n), 10) != string(raw) || n > 1<<53 || n < -1<<53) {
		v = numberID + string(raw)
	}
	return jsonrpc.MakeID(v)
}

// exactCancel names the call to cancel by the id that stands for its own.
func exactCancel(params json.RawMessage) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(params, &members) != nil || len(members["requestId"]) == 0 {
		return params
	}
	id, err := exactID(members["requestId"])
	if err != nil {
		return params
	}
	members["requestId"], _ = json.Marshal(id.Raw()) // a text or a number always marshals
	out, _ := json.Marshal(members)
	return out
}

// Write implements sdk.Connection.
func (c *lineConn) Write(ctx context.Context, msg jsonrpc.Message) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	text, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	res, ok := msg.(*jsonrpc.Response)
	if !ok {
		return c.write(text)
	}
	if id, _ := res.ID.Raw().(string); strings.HasPrefix(id, numberID) {
		was, _ := json.Marshal(id) // a text always marshals
		text = bytes.Replace(text, append([]byte(`"id":`), was...), []byte(`"id":`+strings.TrimPrefix(id, numberID)), 1)
	}
	if res.ID == c.opened && c.revision == "" {
		var result struct {
			Revision string `json:"protocolVersion"`
		}
		_ = json.Unmarshal(res.Result, &result) // an error has none
		c.revision = result.Revision
	}
	batch := c.batches[res.ID]
	if batch == nil {
		return c.write(text)
	}
	delete(c.batches, res.ID)
	batch.answers = append(batch.answers, text)
	if batch.left--; batch.left > 0 {
		return nil
	}
	return c.send(batch)
}

// send writes the answers to a batch. The caller holds mu, as that of write does.
func (c *lineConn) send(b *lineBatch) error {
	text, err := json.Marshal(b.answers)
	if err != nil {
		return err
	}
	return c.write(text)
}

func (c *lineConn) write(text []byte) error {
	_, err := c.out.Write(append(text, '\n'))
	return err
}

// refuse answers a line that is no message.
func (c *lineConn) refuse(id json.RawMessage, code int64, why string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.write(refusalOf(id, code, why))
}

func refusalOf(id json.RawMessage, code int64, why string) json.RawMessage {
	text, _ := json.Marshal(struct { // texts and numbers always marshal
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   wireError       `json:"error"`
	}{"2.0", id, wireError{code, why}})
	return text
}
