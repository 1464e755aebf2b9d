package kernel_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/identity"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

func TestMain(m *testing.M) { pawltest.Main(m) }

// What a Write does after the commit is not done if the Write, or the whole of which it is a part, is rolled back.
func TestAfterTheCommit(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		k := kernel.New(&kernel.DB{DB: p.Engine.DB(), Wake: func() {}}, slog.Default())
		refused := errors.New("refused")
		var done []string
		write := func(k *kernel.Kernel, name string, err error) error {
			return k.Write(t.Context(), func(ctx context.Context, w *kernel.Write) error {
				now, clock := w.Now(ctx)
				row := identity.PlaceRow{Kind: identity.PlaceExpected, Place: name, CreatedAt: now}
				w.After(func() { done = append(done, name) })
				return errors.Join(err, clock, identity.PutPlace(ctx, w.Tx, row))
			})
		}
		whole := func(err error) error {
			s, failed := k.Together(t.Context(), nil, func(_ context.Context, k *kernel.Kernel) error {
				_ = write(k, "refused part", refused)
				failed := write(k, "part", nil)
				if len(done) > 0 {
					t.Errorf("before the commit: %v", done)
				}
				return errors.Join(failed, err)
			})
			return k.Finish(t.Context(), s, failed)
		}
		for _, c := range []struct {
			name string
			do   func() error
			err  error
			want []string
		}{
			{"a write", func() error { return write(k, "alone", nil) }, nil, []string{"alone"}},
			{"a refused write", func() error { return write(k, "no", refused) }, refused, nil},
			{"a whole that is rolled back", func() error { return whole(refused) }, refused, nil},
			{"a whole", func() error { return whole(nil) }, nil, []string{"part"}},
		} {
			if done = nil; !errors.Is(c.do(), c.err) || !slices.Equal(done, c.want) {
				t.Errorf("%s: done %v, want %v", c.name, done, c.want)
			}
		}
		rows, err := kernel.Read(t.Context(), k, func(ctx context.Context, tx store.Tx, ns string) (out []string, err error) {
			all, err := identity.Places(ctx, tx)
			for _, r := range all {
				if r.Kind == identity.PlaceExpected && ns == pawl.DefaultNamespace {
					out = append(out, r.Place)
				}
			}
			return out, err
		})
		slices.Sort(rows)
		if err != nil || !slices.Equal(rows, []string{"alone", "part"}) {
			t.Errorf("stored: %v, %v", rows, err)
		}
	})
}
