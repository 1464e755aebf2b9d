package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/strictjson"
)

// Each message of a batch over HTTP is answered on its own, also one that cannot be read. The SDK
// refuses a batch with one of them as a whole, before it does anything. So they are set aside, and
// answered at the beginning of the stream.

// batch are the messages of a batch that the SDK takes, and the answers to the others.
type batch struct {
	left     [][]byte
	refusals []json.RawMessage
	ignored  int // notifications that have no answer
}

// batched answers a batch. It returns false for any other request, also for a batch of a revision that
// has none.
func batched(w http.ResponseWriter, r *http.Request, body []byte, next http.Handler) bool {
	if r.Header.Get("Mcp-Protocol-Version") >= unbatched {
		return false
	}
	values, rest, ok := strictjson.ValuesUpTo(body, pawl.MaxMCPBatch)
	if !ok || len(values) == 0 || len(bytes.TrimSpace(rest)) > 0 {
		return false
	}
	b := sift(values, false)
	first := b.serve(w, r, next)
	if !first.refused {
		return true
	}
	b = sift(values, true)
	if again := b.serve(w, r, next); again.refused {
		again.replay()
	}
	return true
}

// sift sets aside the messages that are none, and, with methods, those that the SDK refuses for their methods.
func sift(values [][]byte, methods bool) (b batch) {
	used := map[jsonrpc.ID]bool{}
	for _, value := range values {
		msg, id, why := readMessage(value)
		code := int64(jsonrpc.CodeInvalidRequest)
		if req, ok := msg.(*jsonrpc.Request); ok && why == "" {
			if methods {
				code, why = unfit(req)
			}
			if req.IsCall() && why == "" {
				if used[req.ID] {
					why = "the id is in use"
				}
				used[req.ID] = true
			} else if why == noAnswer {
				b.ignored++
				continue
			}
		}
		if why != "" {
			b.refusals = append(b.refusals, refusalOf(id, code, why))
		} else {
			b.left = append(b.left, value)
		}
	}
	return b
}

// noAnswer is why a notification is set aside whose method is not known.
const noAnswer = "-"

const notification = "notifications/"

// parametric lists the methods that need parameters, and others the remaining ones of the SDK.
var (
	parametric = []string{"completion/complete", "initialize", "logging/setLevel", "notifications/progress", "prompts/get",
		"resources/read", "resources/subscribe", "resources/unsubscribe", "tools/call"}
	others = []string{"notifications/cancelled", "notifications/initialized", "notifications/roots/list_changed", "ping",
		"prompts/list", "resources/list", "resources/templates/list", "tools/list"}
)

// unfit says why the SDK refuses a request for its method.
func unfit(req *jsonrpc.Request) (code int64, why string) {
	notice := strings.HasPrefix(req.Method, notification)
	switch needs := slices.Contains(parametric, req.Method); {
	case !needs && !slices.Contains(others, req.Method):
		if !req.IsCall() {
			return 0, noAnswer
		}
		return jsonrpc.CodeMethodNotFound, fmt.Sprintf("the method %.100q is not known", req.Method)
	case notice && req.IsCall():
		return jsonrpc.CodeInvalidRequest, "the message has an id, and is a notification"
	case !notice && !req.IsCall():
		return jsonrpc.CodeInvalidRequest, "the message has no id"
	case needs && len(req.Params) == 0:
		return jsonrpc.CodeInvalidRequest, "params is missing"
	}
	return jsonrpc.CodeInvalidRequest, ""
}

// serve has the SDK answer what is left.
func (b *batch) serve(w http.ResponseWriter, r *http.Request, next http.Handler) *batchWriter {
	bw := &batchWriter{w: w, header: http.Header{}, refusals: b.refusals}
	if len(b.left) == 0 {
		bw.WriteHeader(http.StatusAccepted)
		return bw
	}
	text := append([]byte("["), bytes.Join(b.left, []byte(","))...)
	text = append(text, ']')
	r = r.Clone(r.Context())
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	next.ServeHTTP(bw, r)
	return bw
}

// batchWriter adds the answers to the messages that were set aside. It holds back a refusal of the whole batch.
type batchWriter struct {
	w        http.ResponseWriter
	header   http.Header
	refusals []json.RawMessage
	wrote    bool
	refused  bool
	why      bytes.Buffer // the text of the refusal
}

func (b *batchWriter) Header() http.Header { return b.header }

func (b *batchWriter) WriteHeader(status int) {
	if b.wrote {
		return
	}
	b.wrote = true
	if status == http.StatusBadRequest {
		b.refused = true
		return
	}
	for name, values := range b.header {
		b.w.Header()[name] = values
	}
	if status == http.StatusAccepted && len(b.refusals) > 0 { // nothing else is answered
		b.w.Header().Set("Content-Type", asJSON)
		b.w.WriteHeader(http.StatusOK)
		_ = json.NewEncoder(b.w).Encode(b.refusals) // the caller may be gone
		return
	}
	b.w.WriteHeader(status)
	if status == http.StatusOK {
		for _, text := range b.refusals {
			_, _ = fmt.Fprintf(b.w, "event: message\ndata: %s\n\n", text) // the caller may be gone
		}
	}
}

func (b *batchWriter) Write(text []byte) (int, error) {
	b.WriteHeader(http.StatusOK)
	if b.refused {
		return b.why.Write(text)
	}
	return b.w.Write(text)
}

// Unwrap is for http.ResponseController.
func (b *batchWriter) Unwrap() http.ResponseWriter { return b.w }

// Flush implements http.Flusher.
func (b *batchWriter) Flush() {
	if !b.refused {
		b.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(b.w).Flush() // a writer that cannot sends at its end
	}
}

// replay writes the refusal that was held back.
func (b *batchWriter) replay() {
	for name, values := range b.header {
		b.w.Header()[name] = values
	}
	b.w.WriteHeader(http.StatusBadRequest)
	_, _ = b.w.Write(b.why.Bytes()) // the caller may be gone
}
