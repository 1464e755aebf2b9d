package tasktypes_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

func TestMain(m *testing.M) { pawltest.Main(m) }

func need[T any](t testing.TB) func(v T, err error) T { return pawltest.Must[T](t) }

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A create that runs while another call reads the registry waits for that read. It does
// not go on without the rules of its type.
func TestCreatesAtOnceHaveTheRulesOfTheirType(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		need[pawl.TypeRef](t)(pawltest.First(p.Service.PutTypes(t.Context(), []pawl.Type{{Name: "a", Acceptance: true}})))
		for n := range 10 {
			e := p.Another(engine.Options{})
			var begin, done sync.WaitGroup
			begin.Add(1)
			for range 8 {
				done.Go(func() {
					begin.Wait()
					task, err := pawl.Create(t.Context(), e, pawl.NewTask{Type: "a"})
					if err != nil || task.TypeVersion != 1 {
						t.Errorf("engine %d: the task has version %d of its type, %v", n, task.TypeVersion, err)
					}
				})
			}
			begin.Done()
			done.Wait()
			if err := e.Close(); err != nil {
				t.Error(fmt.Errorf("close: %w", err))
			}
		}
	})
}

func TestRegisteredTypesOnly(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		older := need[pawl.Task](t)(
			pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "other", Items: []pawl.NewItem{{Key: "a"}, {Key: "b"}}}))
		e := p.Another(engine.Options{RegisteredTypesOnly: true, Types: []pawl.Type{{Name: "a"}, {Name: "b"}}})
		for _, c := range []struct {
			task    pawl.NewTask
			refused string
		}{
			{pawl.NewTask{Type: "a"}, ""},
			{pawl.NewTask{Type: "a", Items: []pawl.NewItem{{Type: "a"}, {Type: "b"}, {}}}, ""},
			{pawl.NewTask{Type: "other"}, "/type"},
			{pawl.NewTask{Type: "a", Items: []pawl.NewItem{{}, {Type: "other"}}}, "/items/1/type"},
		} {
			_, err := pawl.Create(t.Context(), e, c.task)
			checkRefused(t, err, c.refused)
		}
		for _, item := range []pawl.NewItem{{}, {Type: "other"}, {Type: "b"}} { // an older task still takes items
			_, err := pawltest.First(e.AddItems(t.Context(), []pawl.AddItems{{TaskID: older.ID, Items: []pawl.NewItem{item}}}))
			checkRefused(t, err, "")
		}
		_, err := pawltest.First(e.AddItems(t.Context(), []pawl.AddItems{{TaskID: older.ID, Items: []pawl.NewItem{{Type: "new"}}}}))
		checkRefused(t, err, "/items/0/type")
		_, err = pawltest.First(e.CloneTasks(t.Context(), []pawl.TaskClone{{TaskID: older.ID}}))
		checkRefused(t, err, "/type")
	})
}

// checkRefused checks that the error is about one field, or that there is none.
func checkRefused(t *testing.T, err error, pointer string) {
	t.Helper()
	var e *pawl.Error
	if errors.As(err, &e) && len(e.Fields) == 1 && e.Fields[0].Pointer == pointer {
		return
	}
	if err != nil || pointer != "" {
		t.Errorf("%v, want a refusal of %q", err, pointer)
	}
}

// A change of the registry that commits during a read of it in the same process is not hidden by
// what the read has found.
func TestATypeIsRegisteredWhileTheRegistryIsRead(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx := t.Context()
		need[pawl.TypeRef](t)(pawltest.First(p.Engine.PutTypes(ctx, []pawl.Type{{Name: "other"}})))
		var e *engine.Engine
		var put atomic.Bool
		e = p.Another(engine.Options{Statement: func(query string) {
			if strings.Contains(query, "MAX(t.version)") && put.CompareAndSwap(true, false) { // the snapshot of the read has begun
				need[pawl.TypeRef](t)(pawltest.First(e.PutTypes(ctx, []pawl.Type{{Name: "strict", PayloadSchema: []byte(`{"type":"object"}`)}})))
			}
		}})
		put.Store(true)
		need[pawl.Task](t)(pawl.Create(ctx, e, pawl.NewTask{Type: "a"}))
		if put.Load() {
			t.Fatal("the registry was not read")
		}
		if _, err := pawl.Create(ctx, e, pawl.NewTask{Type: "strict", Payload: []byte(`1`)}); pawl.CodeOf(err) != pawl.CodeInvalid {
			t.Errorf("a payload that the schema refuses: %v", err)
		}
	})
}

// A version that a database has lost and that was registered anew is the new one, also where the lost one was used.
func TestALostVersionOfATypeIsForgotten(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx := t.Context()
		put := func(schema string) {
			rs := need[[]pawl.Result[pawl.TypeRef]](t)(p.Engine.PutTypes(ctx, []pawl.Type{{Name: "a", InputSchema: json.RawMessage(schema)}}))
			check(t, rs[0].Err)
		}
		create := func() error {
			_, err := pawl.Create(ctx, p.Engine, pawl.NewTask{Type: "a", Payload: json.RawMessage(`1`)})
			return err
		}
		put(`{"type":"integer"}`)
		check(t, create())
		check(t, p.Exec("DELETE FROM pawl.types"))
		p.Advance(time.Second)
		put(`{"type":"string"}`)
		if err := create(); !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("it has the rules of the version that was lost: %v", err)
		}
	})
}

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
			check(t, p.Service.RegisterWorker(t.Context(), pawl.WorkerInfo{WorkerID: "w", Types: []string{"invoice"}}))
			need[pawl.TypeRef](t)(pawltest.First(p.Service.PutTypes(t.Context(), []pawl.Type{{Name: "letter"}})))
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
