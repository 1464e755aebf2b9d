package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/store/relocate"
)

// Calls with an idempotency key or with provenance, whose verbs share a transaction, wait while a move refuses changes,
// however often they are tried meanwhile. Then they are carried out, or are told that the namespace was moved.
func TestKeyedCallsWaitForAMove(t *testing.T) {
	t.Parallel()
	ns := pawl.DefaultNamespace
	for name, cancelled := range map[string]bool{"cancelled": true, "switched": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			someMoves(t, func(from, to pawltest.Database) bool { return from != to }, func(t *testing.T, from, to *pawltest.Pawl) {
				_, l := work(t, from)
				other := from.Another(engine.Options{})
				provenant := pawl.WithProvenance(t.Context(), pawl.Provenance{AgentName: "agent"})
				calls := map[string]func(e *engine.Engine) error{
					"keyed": func(e *engine.Engine) error {
						_, _, err := createOnce(t.Context(), e, "k", nil)
						return err
					},
					"a completion with provenance": func(e *engine.Engine) error {
						_, err := first(e.Complete(provenant, []pawl.CompleteCall{{Fence: l.Fence()}}))
						return err
					},
					"a create with provenance": func(e *engine.Engine) error {
						_, err := pawl.Create(provenant, e, pawl.NewTask{Type: "b", Dedupe: pawl.Dedupe{All: true}})
						return err
					},
				}
				var calling sync.WaitGroup
				answers := make(chan error, len(calls))
				_, err := from.Engine.Relocate(t.Context(), to.Engine, engine.Move{Namespace: ns, Step: func(step string) {
					if step != "fenced" {
						return
					}
					var tried sync.WaitGroup
					for name, call := range calls {
						tries := new(atomic.Int64)
						e := from.Another(engine.Options{Statement: func(query string) {
							if !strings.HasPrefix(query, "SELECT") {
								tries.Add(1) // the first change of each try is refused
							}
						}})
						ended := make(chan struct{})
						calling.Go(func() {
							defer close(ended)
							err := call(e)
							if err != nil {
								err = fmt.Errorf("the call %s: %w", name, err)
							}
							answers <- err
						})
						tried.Go(func() {
							for waits := true; waits && tries.Load() < 12; {
								select {
								case <-ended:
									waits = false // its answer is looked at below
								case <-time.After(10 * time.Millisecond):
								}
							}
						})
					}
					tried.Wait()
					if cancelled {
						if _, err := other.CancelMove(t.Context(), nil, engine.Move{Namespace: ns}); err != nil {
							t.Error(err)
						}
					}
				}})
				if (err != nil) != cancelled {
					t.Error(err)
				}
				calling.Wait()
				for range calls {
					if err := <-answers; cancelled && err != nil || !cancelled && !errors.Is(err, pawl.ErrMoved) {
						t.Error(err)
					}
				}
				if cancelled { // the target gets rid of its part
					need[relocate.Cancelled](t)(other.CancelMove(t.Context(), to.Another(engine.Options{}), engine.Move{Namespace: ns}))
				}
			})
		})
	}
}

// A keyed call whose transaction is lost again and again is unavailable: it may be made again.
func TestAKeyedCallThatLosesIsUnavailable(t *testing.T) {
	p := pawltest.OpenNew(t, pawltest.Postgres, engine.Options{})
	alter(t, p, `CREATE FUNCTION pawl.loses() RETURNS trigger LANGUAGE plpgsql
		AS $$ BEGIN RAISE EXCEPTION 'lost' USING ERRCODE = 'deadlock_detected'; END $$`)
	alter(t, p, "CREATE TRIGGER loses BEFORE INSERT ON pawl.idempotency_keys EXECUTE FUNCTION pawl.loses()")
	if _, _, err := createOnce(t.Context(), p.Engine, "k", nil); !errors.Is(err, pawl.ErrUnavailable) || !store.OfDatabase(err) {
		t.Error(err)
	}
	alter(t, p, "DROP FUNCTION pawl.loses CASCADE")
	need[string](t)(func() (string, error) { id, _, err := createOnce(t.Context(), p.Engine, "k", nil); return id, err }())
}
