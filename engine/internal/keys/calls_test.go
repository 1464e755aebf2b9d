package keys_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

func TestMain(m *testing.M) { pawltest.Main(m) }

func need[T any](t testing.TB) func(v T, err error) T { return pawltest.Must[T](t) }

// A look at a key does not begin it, and takes a call in flight for one without an answer.
func TestAnswered(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		e := p.Engine
		answered := func() bool { return need[bool](t)(e.Answered(t.Context(), pawl.KeyName{Scope: "test", Key: "k"})) }
		if answered() {
			t.Error("before the call")
		}
		_, replayed, err := e.Idempotent(t.Context(), pawl.KeyBegin{Scope: "test", Key: "k", RequestHash: "h"},
			func(ctx context.Context, e pawl.Service) (*pawl.Answer, error) {
				_, err := pawl.Create(ctx, e, pawl.NewTask{Type: "a"})
				if p.Database != pawltest.SQLite && answered() {
					t.Error("while the call is in flight")
				}
				return &pawl.Answer{Code: 201}, err
			})
		if err != nil || replayed || !answered() {
			t.Errorf("after the call, replayed %t, %v", replayed, err)
		}
		if p.Advance(pawl.DefaultKeyTTL + time.Second); answered() {
			t.Error("after the key has expired")
		}
	})
}

// A call in several transactions holds its key for 60 s after its process died.
func TestTheKeyOfALongCallIsTakenOver(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		key := pawl.KeyBegin{Scope: "test", Key: "k", RequestHash: "h"}
		died := make(chan struct{})
		go func() { // its process dies in the call: nothing is stored after it
			defer close(died)
			_, _, _ = p.Engine.IdempotentSteps(t.Context(), key, func(context.Context, pawl.Service) (*pawl.Answer, error) {
				runtime.Goexit()
				return nil, nil
			})
		}()
		<-died
		var e *pawl.Error
		for range 2 {
			_, _, err := p.Engine.IdempotentSteps(t.Context(), key, nil)
			if !errors.As(err, &e) || e.Code != pawl.CodeKeyInFlight || e.RetryAfter != time.Minute {
				t.Fatalf("in flight: %v", err)
			}
		}
		p.Advance(time.Minute)
		runs := 0
		for range 2 {
			a, replayed, err := p.Engine.IdempotentSteps(t.Context(), key, func(context.Context, pawl.Service) (*pawl.Answer, error) {
				runs++
				return &pawl.Answer{Code: 204}, nil
			})
			if err != nil || a.Code != 204 {
				t.Errorf("%+v, %v, %v", a, replayed, err)
			}
		}
		if runs != 1 {
			t.Errorf("it ran %d times", runs)
		}
	})
}

// A call in several transactions renews its key's lease while it runs.
func TestTheKeyOfALongCallIsRenewed(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		key := pawl.KeyBegin{Scope: "test", Key: "k", RequestHash: "h", LockSeconds: 3}
		a, _, err := p.Engine.IdempotentSteps(t.Context(), key, func(ctx context.Context, e pawl.Service) (*pawl.Answer, error) {
			for range 3 {
				p.Advance(2 * time.Second)
				want := p.Now().Add(3 * time.Second)
				for lockedUntil(t, p, key.Scope).Before(want) {
					time.Sleep(10 * time.Millisecond)
				}
			}
			return &pawl.Answer{Code: 204}, nil
		})
		if err != nil || a.Code != 204 {
			t.Errorf("%+v, %v", a, err)
		}
	})
}

// A service inside a transaction says so: a key is not renewed in it, because it has one
// goroutine, and nothing is tried again after it broke.
func TestOnceInATransaction(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		a, _, err := p.Engine.Idempotent(t.Context(), pawl.KeyBegin{Scope: "test", Key: "k", RequestHash: "h"},
			func(ctx context.Context, e pawl.Service) (*pawl.Answer, error) {
				n, err := pawl.Once(ctx, e, "inner", 1, func(context.Context) (int, error) { return 7, nil })
				if in, ok := e.(interface{ InTransaction() bool }); !ok || !in.InTransaction() {
					t.Error("the service does not say that it is in a transaction")
				}
				return &pawl.Answer{Code: 200 + n}, err
			})
		if err != nil || a.Code != 207 {
			t.Errorf("%+v, %v", a, err)
		}
	})
}

// lockedUntil reads the lease of the only key of a scope.
func lockedUntil(t *testing.T, p *pawltest.Pawl, scope string) time.Time {
	t.Helper()
	var until int64
	err := p.Engine.DB().Do(t.Context(), func(ctx context.Context, tx store.Tx) error {
		rows, err := tx.Query(ctx, "SELECT locked_until FROM pawl.idempotency_keys WHERE scope = $1", scope)
		if err != nil {
			return err
		}
		defer rows.Close()
		if !rows.Next() {
			return errors.Join(rows.Err(), errors.New("no key"))
		}
		return rows.Scan(&until)
	})
	if err != nil {
		t.Fatal(err)
	}
	return time.UnixMicro(until)
}
