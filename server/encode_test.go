package server

import (
	"bufio"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
)

// BenchmarkEncode encodes a task, a thousand tasks with small payloads, and tasks with 32 MiB
// of payloads.
func BenchmarkEncode(b *testing.B) {
	tasks := func(n, size int) pawl.List[pawl.Task] {
		payload := json.RawMessage(`"` + strings.Repeat("x", size) + `"`)
		return pawl.List[pawl.Task]{Items: slices.Repeat([]pawl.Task{{ID: "tsk_1", Type: "a", Payload: payload}}, n)}
	}
	for name, answer := range map[string]any{
		"one":   tasks(1, 20),
		"many":  tasks(1000, 20),
		"large": tasks(32, 1<<20),
	} {
		b.Run(name, func(b *testing.B) {
			w := bufio.NewWriterSize(io.Discard, 2048) // like that of net/http
			b.ReportAllocs()
			for b.Loop() {
				if err := encode(w, answer); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// writerFunc is a function as a writer.
type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// A large payload goes to the caller as it was read: it is not copied into the answer first.
func TestPayloadsAreNotCopied(t *testing.T) {
	payload, sent, text := json.RawMessage(`[ "`+strings.Repeat("x", 100<<10)+`" ]`), false, ""
	err := encode(writerFunc(func(b []byte) (int, error) {
		sent = sent || len(b) > 0 && &b[len(b)-1] == &payload[len(payload)-1]
		text += string(b)
		return len(b), nil
	}), map[string]any{"a": payload, "b": 1})
	if err != nil || !sent || text != `{"a":`+string(payload)+`,"b":1}`+"\n" {
		t.Errorf("%d bytes, sent as it is: %t, %v", len(text), sent, err)
	}
}
