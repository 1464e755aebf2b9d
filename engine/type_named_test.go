package engine_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// logText is the text of a log.
type logText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// take returns what was written since the last call.
func (l *logText) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.text.Reset()
	return l.text.String()
}

// A task of a type that no program has named is created, and a warning says so once.
func TestATypeThatNoProgramHasNamed(t *testing.T) {
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			var log logText
			p := pawltest.OpenWith(t, which, engine.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
			need[struct{}](t)(struct{}{}, p.Service.RegisterWorker(t.Context(), pawl.WorkerInfo{WorkerID: "w", Types: []string{"invoice"}}))
			need[[]pawl.TypeRef](t)(nil, errOf(p.Service.PutTypes(t.Context(), []pawl.Type{{Name: "letter"}})))
			create := func(e *engine.Engine, typ string) string {
				need[pawl.Task](t)(pawl.Create(t.Context(), e, pawl.NewTask{Type: typ}))
				return log.take()
			}
			for typ, want := range map[string]string{
				"invoice": "", "letter": "", "invoce": "did_you_mean=invoice", "anything": "type=anything namespace=default\n",
			} {
				if got := create(p.Engine, typ); (want == "") != (got == "") || !strings.Contains(got, want) {
					t.Errorf("a task of %s: the log has %q, want %q", typ, got, want)
				}
			}
			need[pawl.Task](t)(p.Engine.Bulk(t.Context(), pawl.BulkCall{Verb: pawl.BulkCancel,
				Filter: pawl.BulkFilter{Type: pawl.Texts{"letter"}}}))
			if got := log.take(); got != "" {
				t.Errorf("a bulk call: the log has %q", got)
			}
			if again := create(p.Engine, "anything"); again != "" {
				t.Errorf("again: %q", again)
			}
			if another := create(p.Another(engine.Options{Log: slog.New(slog.NewTextHandler(&log, nil))}), "anything"); another != "" {
				t.Errorf("another server, later: %q", another)
			}
		})
	}
}
