package mcpgate

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"github.com/pawl-work/pawl/internal/strictjson"
)

// Codes of JSON-RPC errors.
const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeNoMethod       = -32601
	codeInvalidParams  = -32602
	codeInternal       = -32603
)

// message is one message of JSON-RPC. Params, Result and Error are as they came.
type message struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  json.RawMessage
	text   []byte // the whole
}

var errMessage = errors.New("it is not one message of JSON-RPC")

// readMessage reads a message. Names that are there twice, or that differ from a known one in case alone, are
// refused, because the other side may read the other value.
func readMessage(text []byte) (m message, err error) {
	if err := strictjson.Scan(text); err != nil {
		return m, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil || members == nil {
		return m, errMessage
	}
	if !plain(members, "jsonrpc", "id", "method", "params", "result", "error") {
		return m, errMessage
	}
	m = message{ID: members["id"], Params: members["params"], Result: members["result"], Error: members["error"], text: text}
	if method, there := members["method"]; there {
		err = json.Unmarshal(method, &m.Method)
	}
	return m, err
}

// plain reports whether no member differs from one of the names in case alone.
func plain(members map[string]json.RawMessage, names ...string) bool {
	for member := range members {
		for _, name := range names {
			if member != name && strings.EqualFold(member, name) {
				return false
			}
		}
	}
	return true
}

// isRequest reports whether the message wants an answer.
func (m *message) isRequest() bool { return m.Method != "" && len(m.ID) > 0 }

// isResponse reports whether the message is an answer.
func (m *message) isResponse() bool { return m.Method == "" && len(m.ID) > 0 }

// idOf is an id as a key of a map.
func idOf(id json.RawMessage) string { return string(bytes.TrimSpace(id)) }

func encode(v any) []byte {
	b, _ := json.Marshal(v) // of values that always marshal
	return b
}

func responseTo(id json.RawMessage, result any) []byte {
	return encode(map[string]any{"jsonrpc": "2.0", "id": id, "result": result})
}

func errorTo(id json.RawMessage, code int, text string) []byte {
	if len(id) == 0 {
		id = json.RawMessage("null")
	}
	return encode(map[string]any{"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": code, "message": text}})
}

// toolCall is what a call of a tool says.
type toolCall struct {
	Name      string
	Arguments json.RawMessage
	Meta      map[string]json.RawMessage
	Resumes   bool // it goes on with an earlier call that asked for input
}

// readToolCall reads the params of tools/call.
func readToolCall(params json.RawMessage) (c toolCall, err error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(params, &members); err != nil {
		return c, err
	}
	if !plain(members, "name", "arguments", "_meta", "requestState", "inputResponses") {
		return c, errMessage
	}
	if err := json.Unmarshal(members["name"], &c.Name); err != nil {
		return c, err
	}
	if meta, there := members["_meta"]; there {
		err = json.Unmarshal(meta, &c.Meta)
	}
	c.Arguments, c.Resumes = members["arguments"], members["requestState"] != nil || members["inputResponses"] != nil
	return c, err
}

// canonical is JSON without white space between values.
func canonical(raw json.RawMessage) []byte {
	if len(raw) == 0 {
		return []byte("{}")
	}
	var out bytes.Buffer
	if json.Compact(&out, raw) != nil {
		return raw
	}
	return out.Bytes()
}
