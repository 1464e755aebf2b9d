package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/api"
)

// checked examines a request before the SDK: the number of its calls, whether it calls a
// tool of Pawl, and the header that names a task for proxies, which the SDK compares only
// for its own methods.
func (s *Server) checked(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if rebound(r) {
			http.Error(w, "this server does not go by the name "+r.Host+
				"; behind server.New, its option Hosts names the hosts", http.StatusForbidden)
			return
		}
		r, err := chosen(r)
		if err != nil {
			answer(w, http.StatusBadRequest, nil, wireError{jsonrpc.CodeInvalidRequest, sentence(api.ProblemOf(err, ""))})
			return
		}
		if r.Method != http.MethodPost {
			next.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, pawl.MaxBodyBytes))
		if err != nil {
			http.Error(w, "the body is over its limit, or did not arrive whole", http.StatusRequestEntityTooLarge)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if err := s.count(r.Context(), body); err != nil {
			s.opts.Gate.Refused(r.Context(), "batch", err, "door", "mcp")
			p := api.ProblemOf(err, "")
			if ms := problemOf(p, err).RetryAfterMS; ms > 0 {
				w.Header().Set("Retry-After", strconv.FormatInt((ms+999)/1000, 10))
			}
			answer(w, p.Status, nil, wireError{jsonrpc.CodeInvalidRequest, sentence(p)})
			return
		}
		if batched(w, r, body, next) {
			return
		}
		if call := s.directly(r, body); call != nil {
			s.exchange(w, r, call)
			return
		}
		if r.Header.Get("Mcp-Protocol-Version") < sessionless {
			next.ServeHTTP(w, r)
			return
		}
		var call struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				TaskID string `json:"taskId"`
			} `json:"params"`
		}
		about := json.Unmarshal(body, &call) == nil && slices.Contains([]string{"tasks/get", "tasks/update", "tasks/cancel"}, call.Method)
		if about && r.Header.Get("Mcp-Name") != call.Params.TaskID {
			answer(w, http.StatusBadRequest, call.ID, wireError{sdk.CodeHeaderMismatch, "the header Mcp-Name is to be the task's id"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// count bounds a batch and counts its calls towards the rate of the caller's key, all or
// none. One call has been counted already.
func (s *Server) count(ctx context.Context, body []byte) error {
	if body = bytes.TrimSpace(body); len(body) == 0 || body[0] != '[' {
		return nil
	}
	var calls []json.RawMessage
	if json.Unmarshal(body, &calls) != nil || len(calls) == 0 {
		return nil // the SDK says what is wrong with it
	}
	if len(calls) > pawl.MaxMCPBatch {
		return &pawl.Error{Code: pawl.CodeInvalid, Message: fmt.Sprintf("the batch has %d calls; at most %d are allowed", len(calls),
			pawl.MaxMCPBatch)}
	}
	return s.opts.Gate.Count(access.Of(ctx), len(calls)-1)
}

// answer refuses a request in the protocol's form.
func answer(w http.ResponseWriter, status int, id json.RawMessage, e wireError) {
	w.Header().Set("Content-Type", asJSON)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": id, "error": e}) // the caller may be gone
}

// rebound reports a request to a loopback address under another name, which a web page can
// send by DNS rebinding. A server that gave the request a pass has checked the name itself: behind a proxy on
// the same machine, every request comes from a loopback address under a public name.
func rebound(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && !access.Passed(r.Context()) && access.Loopback(local.String()) && !access.Loopback(r.Host)
}
