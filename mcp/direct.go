package mcp

import (
	"encoding/json"
	"mime"
	"net/http"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The SDK's HTTP handler decodes each message seven times, each time into a buffer of 32 KB.
// Most requests call one of Pawl's own tools. Pawl decodes these itself, once, and passes
// them to a session of the SDK (see exchange). Every other request goes to the SDK's handler:
// other methods, notifications, batches, tools of the program, and all that is not valid.
// So only the SDK's handler refuses requests.

// direct is a call of one of Pawl's tools in a valid request.
type direct struct {
	id       jsontext.Value // a string or an integer, as the client wrote it
	params   jsontext.Value
	tool     string
	stated   string // the revision in the call's _meta
	revision string // of the request
}

const (
	sessionless = "2026-07-28" // the first revision without sessions; a call names it twice
	unstated    = "2025-03-26" // the revision of a request that names none
)

// directly returns the call in a request; nil if the SDK's handler has to answer it.
func (s *Server) directly(r *http.Request, body []byte) *direct {
	call := s.decode(body)
	if call == nil || !acceptable(r.Header) || r.Header.Values("Last-Event-ID") != nil {
		return nil
	}
	call.revision = r.Header.Get("Mcp-Protocol-Version")
	switch {
	case call.revision == "" && call.stated == "":
		call.revision = unstated
	case !slices.Contains(s.revisions, call.revision):
		return nil
	case call.revision < sessionless && call.stated == "" && !s.opts.Sessions:
	case call.stated != call.revision || call.revision < sessionless,
		r.Header.Get("Mcp-Method") != callTool || r.Header.Get("Mcp-Name") != call.tool:
		return nil
	}
	return call
}

const callTool = "tools/call"

// decode decodes a call of one of Pawl's tools; nil for everything else. It is strict: names
// are compared exactly and may not be there twice, so that the SDK, which decodes the
// parameters again, finds the same.
func (s *Server) decode(body []byte) *direct {
	var msg struct {
		Version string         `json:"jsonrpc"`
		ID      jsontext.Value `json:"id"`
		Method  jsontext.Value `json:"method"`
		Params  jsontext.Value `json:"params"`
	}
	if jsonv2.Unmarshal(body, &msg) != nil || msg.Version != "2.0" || string(msg.Method) != `"`+callTool+`"` || !isID(msg.ID) {
		return nil
	}
	var params struct {
		Name string `json:"name"`
		Meta struct {
			Revision string `json:"io.modelcontextprotocol/protocolVersion"`
		} `json:"_meta"`
	}
	if jsonv2.Unmarshal(msg.Params, &params) != nil || !s.own[params.Name] {
		return nil
	}
	return &direct{id: msg.ID, params: msg.Params, tool: params.Name, stated: params.Meta.Revision}
}

// isID reports whether a value identifies a call: a string or an integer.
func isID(v jsontext.Value) bool {
	var n json.Number
	switch v.Kind() {
	case '"':
		return true
	case '0':
		n = json.Number(v)
	}
	_, err := n.Int64()
	return err == nil
}

// acceptable reports whether a request has JSON, and its client takes both media types in
// which it can be answered, as the protocol demands.
func acceptable(h http.Header) bool {
	if got, _, err := mime.ParseMediaType(h.Get("Content-Type")); err != nil || got != asJSON {
		return false
	}
	var plain, stream bool
	for _, list := range h.Values("Accept") {
		for kind := range strings.SplitSeq(list, ",") {
			kind, _, _ = strings.Cut(kind, ";")
			switch strings.ToLower(strings.TrimSpace(kind)) {
			case asJSON, "application/*":
				plain = true
			case asStream, "text/*":
				stream = true
			case "*/*":
				plain, stream = true, true
			}
		}
	}
	return plain && stream
}
