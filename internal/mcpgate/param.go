package mcpgate

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// In the newer revision the schema of a tool may name a header for an argument, with x-mcp-header.
// Its server refuses a call over HTTP without the header Mcp-Param-NAME.

// param is an argument of a tool that a header repeats.
type param struct {
	path   []string // into the arguments
	header string
}

// inputSchema is what paramsOf reads of a schema.
type inputSchema struct {
	Header     any                    `json:"x-mcp-header"`
	Properties map[string]inputSchema `json:"properties"`
}

// token is what the name of a header may be.
var token = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// paramsOf returns the params of each tool in a list.
func paramsOf(result json.RawMessage) map[string][]param {
	var list struct {
		Tools []struct {
			Name   string      `json:"name"`
			Schema inputSchema `json:"inputSchema"`
		} `json:"tools"`
	}
	_ = json.Unmarshal(result, &list) // what it is else, the client finds
	out := map[string][]param{}
	for _, t := range list.Tools {
		out[t.Name] = t.Schema.params(nil, nil)
	}
	return out
}

func (s *inputSchema) params(path []string, found []param) []param {
	for name, p := range s.Properties {
		at := append(path[:len(path):len(path)], name)
		if header, _ := p.Header.(string); token.MatchString(header) { // else no request could have it
			found = append(found, param{at, header})
		}
		found = p.params(at, found)
	}
	return found
}

// learn keeps the params of the tools in an answer to m.
func (c *remote) learn(m, answer *message) {
	if m == nil || m.Method != "tools/list" || answer.Result == nil || idOf(answer.ID) != idOf(m.ID) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.params == nil {
		c.params = map[string][]param{}
	}
	maps.Copy(c.params, paramsOf(answer.Result))
}

// setParams sets the headers of a call of a tool.
func (c *remote) setParams(h http.Header, tool string, arguments json.RawMessage) {
	c.mu.Lock()
	params := c.params[tool]
	c.mu.Unlock()
	for _, p := range params {
		var at any
		_ = json.Unmarshal(arguments, &at) // the server refuses others than an object
		for _, name := range p.path {
			object, _ := at.(map[string]any)
			at = object[name]
		}
		if text, ok := headerText(at); ok {
			h.Set("Mcp-Param-"+p.header, text)
		}
	}
}

// headerText is a text, a truth or an integer as the text of a header.
func headerText(v any) (string, bool) {
	const exact = 1 << 53 // larger ones are not exact in JSON
	text, ok := v.(string)
	switch v := v.(type) {
	case bool:
		return strconv.FormatBool(v), true
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), v == math.Trunc(v) && math.Abs(v) < exact
	}
	other := func(r rune) bool { return r < ' ' || r > '~' }
	coded := strings.HasPrefix(text, "=?base64?") && strings.HasSuffix(text, "?=")
	if coded || strings.TrimSpace(text) != text || strings.ContainsFunc(text, other) {
		text = "=?base64?" + base64.StdEncoding.EncodeToString([]byte(text)) + "?="
	}
	return text, ok
}
