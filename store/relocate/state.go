package relocate

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pawl-work/pawl/store"
)

// The sides of a move.
const (
	Source = "source"
	Target = "target"
)

// The steps of a move.
const (
	Copying = "copying" // the source is used, and its rows are copied
	Fenced  = "fenced"  // the source refuses changes
	Flipped = "flipped" // the target has what moves
	done    = "done"
)

// Relocation is a row of relocations: one side of a move.
type Relocation struct {
	ID, Side  string
	Namespace string // "" = the whole database
	Step      string
	Peer      string // what store.Place.Named is of the other side
	URL       string // what callers are told; "" = nothing
	Detail    Detail
	Fence     int64 // until when changes of the source are refused; 0 = they are not
	CreatedAt int64
	ChangedAt int64

	mover string // the process that moves
}

// Detail says in the target how far its rows are copied, and in the source how far they are removed.
type Detail struct {
	Table string `json:"table,omitempty"` // the table whose rows are being copied
	After []any  `json:"after,omitempty"` // the key of the last one
	All   bool   `json:"all,omitempty"`   // all tables were copied once
	// Bound is the number of the newest event when the copy of the events of a namespace began. Newer
	// ones are copied with the changes: so those of a task keep their order. -1 = there was none.
	Bound int64 `json:"bound,omitempty"`
	Told  bool  `json:"told,omitempty"` // servers of the source had the time to learn of the move
}

// begun reports whether rows were copied.
func (d Detail) begun() bool { return d.Table != "" || d.All }

// Moving reports whether the move is not over.
func (r Relocation) Moving() bool { return r.Step != done && (r.Side == Target || r.Step != Flipped) }

// Over reports whether nothing of the move is left to do on this side.
func (r Relocation) Over() bool { return r.Step == done }

// Left reports whether the source has given away what moves.
func (r Relocation) Left() bool { return r.Side == Source && (r.Step == Flipped || r.Step == done) }

const relocationColumns = "id, side, namespace, step, peer, url, detail, COALESCE(fenced_until, 0), created_at, changed_at"

// List reads all moves that a database knows, oldest first.
func List(ctx context.Context, tx store.Tx) (out []Relocation, err error) {
	err = store.EachRow(ctx, tx, func(rows store.Rows) error {
		var r Relocation
		var url store.Text
		var detail string
		if err := rows.Scan(&r.ID, &r.Side, &r.Namespace, &r.Step, &r.Peer, &url, &detail, &r.Fence, &r.CreatedAt, &r.ChangedAt); err != nil {
			return err
		}
		r.URL = string(url)
		out = append(out, r)
		return json.Unmarshal([]byte(detail), &out[len(out)-1].Detail)
	}, "SELECT "+relocationColumns+"\nFROM pawl.relocations\nORDER BY created_at, id")
	return out, err
}

func put(ctx context.Context, tx store.Tx, r *Relocation) error {
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	r.CreatedAt, r.ChangedAt = now, now
	_, err = tx.Exec(ctx, "INSERT INTO pawl.relocations (id, side, namespace, step, peer, url, mover, detail, created_at, changed_at)\n"+
		"VALUES ($1, $2, $3, $4, $5, $6, $7, '{}', $8, $8)",
		r.ID, r.Side, r.Namespace, r.Step, r.Peer, store.Text(r.URL), r.mover, now)
	return err
}

// setStep notes a step. The fence of the source ends after a time, by the clock of its database.
func setStep(ctx context.Context, tx store.Tx, r *Relocation, step string, clock string, fenced time.Duration) error {
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	until := "NULL"
	if step == Fenced {
		until = fmt.Sprintf("%s + %d", clock, fenced.Microseconds())
	}
	r.Step, r.ChangedAt = step, now
	return mine(tx.Exec(ctx, "UPDATE pawl.relocations\n"+
		"SET step = $3, fenced_until = "+until+", changed_at = $4, url = $5\nWHERE id = $1 AND mover = $2",
		r.ID, r.mover, step, now, store.Text(r.URL)))
}

// mine returns why a mover may not go on, if no row of a move is its own any more.
func mine(rows int64, err error) error {
	if err == nil && rows == 0 {
		return conflict("another `pawl move` goes on with this move, or has cancelled it")
	}
	return err
}

// keep refuses the transaction of a mover that is not the present one, and lets no other become it until the transaction ends.
func keep(ctx context.Context, tx store.Tx, r *Relocation) error {
	return mine(tx.Exec(ctx, "UPDATE pawl.relocations\nSET mover = $2\nWHERE id = $1 AND mover = $2", r.ID, r.mover))
}

// take makes a mover the one that goes on with a move. A mover that runs writes nothing to this side from then on. It
// reads what that one has done.
func take(ctx context.Context, tx store.Tx, r *Relocation, mover string) error {
	if err := mine(tx.Exec(ctx, "UPDATE pawl.relocations\nSET mover = $2\nWHERE id = $1", r.ID, mover)); err != nil {
		return err
	}
	list, err := List(ctx, tx)
	for _, x := range list {
		if x.ID == r.ID {
			*r = x
			r.mover = mover
		}
	}
	return err
}

// within runs fn in a transaction of the mover, which the triggers of the move let pass.
func within(ctx context.Context, db store.DB, r *Relocation, fn func(ctx context.Context, tx store.Tx) error) error {
	return db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		if err := setOpen(ctx, tx, r, 1); err != nil {
			return err
		}
		if err := fn(ctx, tx); err != nil {
			return err
		}
		return setOpen(ctx, tx, r, 0)
	})
}

func setOpen(ctx context.Context, tx store.Tx, r *Relocation, open int) error {
	return mine(tx.Exec(ctx, "UPDATE pawl.relocations\nSET open = $3\nWHERE id = $1 AND mover = $2", r.ID, r.mover, open))
}

func setDetail(ctx context.Context, tx store.Tx, r *Relocation, d Detail) error {
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	r.Detail = d
	return mine(tx.Exec(ctx, "UPDATE pawl.relocations\nSET detail = $3\nWHERE id = $1 AND mover = $2", r.ID, r.mover, string(text)))
}
