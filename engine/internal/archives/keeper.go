package archives

import (
	"context"
	"log/slog"
	"sync"

	"github.com/pawl-work/pawl/store"
)

// Keeper archives tasks, and reads their archives. It is safe for concurrent use.
type Keeper struct {
	DB    store.DB
	Dir   string // "" = archives are in a table
	NewID func(prefix string) string
	Log   *slog.Logger
	// Signed returns how a transaction that begins after the call reads the newest checkpoint of the transparency log that a
	// known key has signed; nil = none has signed any.
	Signed func() (readSigned, error)
	// Scratch opens a database without tasks in a directory: Peek reads large archives there. nil = it reads all in DB.
	Scratch func(ctx context.Context, dir string) (store.DB, error)
	Tasks   Remover

	encoders sync.Pool // of *zstd.Encoder
	frames   sync.Pool // of *zstd.Encoder, for frames of segments
	rooms    sync.Pool // of *store.PlainRoom
}

// Remover removes what is left of tasks, in bounded transactions: see sweep.Sweeper.
type Remover interface {
	Resume(ctx context.Context, namespace, taskID string) error
	RemoveCopy(ctx context.Context, taskID string) error
	DropCopy(ctx context.Context, c *store.Copy)
	ChildrenEnded(ctx context.Context, ended store.ChildrenEnded)
}

// do runs fn in a transaction, with the transaction's time.
func (s *Keeper) do(ctx context.Context, fn func(ctx context.Context, tx store.Tx, now int64) error) error {
	return store.Sweeping{DB: s.DB}.In(ctx, fn)
}

// readSigned reads the newest signed checkpoint. Without one it is the zero value.
type readSigned = func(ctx context.Context, tx store.Tx) (store.SignedRoot, error)

// signed is Signed, or reads none.
func (s *Keeper) signed() (readSigned, error) {
	if s.Signed == nil {
		return func(context.Context, store.Tx) (r store.SignedRoot, err error) { return r, nil }, nil
	}
	return s.Signed()
}

// newestSigned reads the newest signed checkpoint in a transaction of its own. The log of later
// transactions continues it.
func (s *Keeper) newestSigned(ctx context.Context) (out store.SignedRoot, err error) {
	read, err := s.signed()
	if err != nil { // of the signer's files: they keep nothing from being archived
		s.Log.WarnContext(ctx, "archives have no proofs: the checkpoint beside the signing key cannot be read", "error", err)
		return out, nil
	}
	err = s.DB.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		out, err = read(ctx, tx)
		return err
	})
	return out, err
}
