package server_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
)

// filled returns a body of at most 8 MiB that repeats an element up to most times.
func filled(before, element, after string, most int) string {
	n := min(most, (pawl.MaxBodyBytes-len(before)-len(after))/(len(element)+1))
	return before + strings.Repeat(element+",", n-1) + element + after
}

// allocated returns how many bytes and objects fn allocates.
func allocated(fn func()) (size, objects uint64) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fn()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, after.Mallocs - before.Mallocs
}

// A body that is refused costs memory in proportion to its size, and so does its answer.
func TestRefusingALargeBodyIsCheap(t *testing.T) {
	h := server.New(pawltest.Open(t, pawltest.SQLite).Service, server.Options{Log: slog.New(slog.DiscardHandler)})
	all := pawl.MaxBodyBytes
	for name, body := range map[string]string{
		"a list":              filled(`[`, `{"":0}`, `]`, all),
		"items":               filled(`{"type":"a","items":[`, `{"":0}`, `]}`, all),
		"items within bounds": filled(`{"type":"a","items":[`, `{"":0}`, `]}`, 100_000),
		"payload":             filled(`{"type":"a","payload":[`, `{"":0}`, `]}`, all),
		"scalars":             filled(`{"type":"a","items":[`, `0`, `]}`, all),
		"scalars in bounds":   filled(`{"type":"a","items":[`, `0`, `]}`, 900_000),
		"lists in lists":      filled(`{"type":"a","items":[`, `{"input":1,"after":[`+strings.Repeat("0,", 999)+`0]}`, `]}`, 900),
		"depth":               `{"type":"a","payload":` + strings.Repeat("[", all/2) + strings.Repeat("]", all/2-30) + `}`,
		"NUL in the deep": `{"type":"a","payload":` + strings.Repeat(`{"":`, 6000) + `"` + strings.Repeat(`\u0000`, 100_000) + `"` +
			strings.Repeat(`}`, 6000) + `}`,
	} {
		w := httptest.NewRecorder()
		size, objects := allocated(func() {
			r := httptest.NewRequest(http.MethodPost, "/v1/tasks", strings.NewReader(body))
			r.Host = "localhost"
			h.ServeHTTP(w, r)
		})
		if w.Code != http.StatusBadRequest && w.Code != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: status %d: %.300s", name, w.Code, w.Body)
		}
		if n := w.Body.Len(); n > 64<<10 {
			t.Errorf("%s: the answer has %d bytes", name, n)
		}
		if size > 400<<20 || objects > 4_000_000 {
			t.Errorf("%s: %d MiB in %d objects were allocated", name, size>>20, objects)
		}
		t.Logf("%s: %d, %d MiB, %d objects", name, w.Code, size>>20, objects)
	}
}
