package logs

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/store"
)

// Walk compares the log with the rows page by page.
type Walk = walk

// Methods of a Log are those of an Engine, also in tests.

// SignPauses returns the pauses of a signer whose next n signatures are refused.
func SignPauses(n int) (out []time.Duration) {
	var pause time.Duration
	for range n {
		pause = signPause(pause, errNoKey)
		out = append(out, pause)
	}
	if signPause(pause, nil) != 0 {
		panic("a signature that succeeded is followed by a pause")
	}
	return out
}

// SignAfter signs the log as a signer does that has signed size leaves, and returns how many it has signed then.
func (g *Log) SignAfter(ctx context.Context, size int64) (int64, error) {
	_, size, err := g.sign(ctx, size)
	return size, err
}

// Cosign has the witnesses asked for the checkpoint that was signed last, as Run does.
func (g *Log) Cosign(ctx context.Context) {
	c := &g.cosigners
	select {
	case c.now = <-c.next:
	default:
	}
	for _, w := range c.list {
		w.next = time.Time{}
	}
	g.cosign(ctx, c.due(time.Time{}))
}

// BeginLog begins a new history of the log with a new key, as after an adoption.
func (g *Log) BeginLog(ctx context.Context, leaves int64) error {
	err := g.k.DB.Do(kernel.ForAll(ctx), func(ctx context.Context, tx store.Tx) error { return Begin(ctx, tx, leaves) })
	return errors.Join(err, Rekey(ctx, g))
}
