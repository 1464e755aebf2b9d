package mcp

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pawl-work/pawl"
)

// named holds a request about a task against the header that names the task for
// whatever lies between: the SDK does so for its own methods only.
func named(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.Header.Get("Mcp-Protocol-Version") < sessionless {
			next.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, pawl.MaxBodyBytes))
		if err != nil {
			http.Error(w, "the body is over its limit, or did not arrive whole", http.StatusRequestEntityTooLarge)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		var call struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				TaskID string `json:"taskId"`
			} `json:"params"`
		}
		about := json.Unmarshal(body, &call) == nil && slices.Contains([]string{"tasks/get", "tasks/update", "tasks/cancel"}, call.Method)
		if about && r.Header.Get("Mcp-Name") != call.Params.TaskID {
			w.Header().Set("Content-Type", asJSON)
			w.WriteHeader(http.StatusBadRequest)
			_ = json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": call.ID, "error": wireError{sdk.CodeHeaderMismatch, "the header Mcp-Name is to be the task's id"}}) // the caller may be gone
			return
		}
		next.ServeHTTP(w, r)
	})
}
