package relays

import (
	"context"
	"embed"
	"encoding/json"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

//go:embed relays.sql
var sqlFile embed.FS

var texts = store.Texts(sqlFile, "relays.sql")

// prefix begins the names of the cursors of relays.
const prefix = "relay."

// detail is what a relay's row stores besides its position.
type detail struct {
	Epoch       int64               `json:"epoch,omitempty"`
	Kind        string              `json:"kind,omitempty"`
	Sent        int64               `json:"sent,omitempty"`
	Refused     int64               `json:"refused,omitempty"`
	LastRefused []pawl.RefusedEvent `json:"last_refused,omitempty"`
	Error       string              `json:"error,omitempty"`
	FailingAt   *time.Time          `json:"failing_at,omitempty"`
	DisabledAt  *time.Time          `json:"disabled_at,omitempty"`
	Holder      string              `json:"holder,omitempty"`
	HeldUntil   *time.Time          `json:"held_until,omitempty"`
}

// read reads the state of the relay to a sink. It returns false when there was never such a relay.
func read(ctx context.Context, tx store.Tx, sink string) (pawl.Relay, bool, error) {
	return one(ctx, tx, "relay", sink)
}

// lock is read that also keeps other transactions from changing the relay until this one ends.
func lock(ctx context.Context, tx store.Tx, sink string) (pawl.Relay, bool, error) {
	return one(ctx, tx, "hold relay", sink)
}

// start is lock that first creates a missing relay at the beginning of the event log.
func start(ctx context.Context, tx store.Tx, sink string) (pawl.Relay, error) {
	if err := store.StartCursor(ctx, tx, prefix+sink); err != nil {
		return pawl.Relay{}, err
	}
	r, _, err := lock(ctx, tx, sink)
	return r, err
}

func one(ctx context.Context, tx store.Tx, query, sink string) (pawl.Relay, bool, error) {
	list, err := rows(ctx, tx, query, prefix+sink)
	if err != nil || len(list) == 0 {
		return pawl.Relay{}, false, err
	}
	return list[0], true, nil
}

// list reads the relays, in the order of their names.
func list(ctx context.Context, tx store.Tx) ([]pawl.Relay, error) {
	return rows(ctx, tx, "relays", most)
}

func rows(ctx context.Context, tx store.Tx, query string, arg any) ([]pawl.Relay, error) {
	return store.All(ctx, tx, texts[query], []any{arg}, func(rows store.Rows, r *pawl.Relay) error {
		var text string
		var at int64
		if err := rows.Scan(&r.Sink, &r.Position, &text, &at); err != nil {
			return err
		}
		var d detail
		if err := json.Unmarshal([]byte(text), &d); err != nil {
			return err
		}
		r.Sink, r.UpdatedAt = strings.TrimPrefix(r.Sink, prefix), store.Stamp(at)
		r.Epoch, r.Kind, r.Sent, r.Refused, r.LastRefused, r.Error = d.Epoch, d.Kind, d.Sent, d.Refused, d.LastRefused, d.Error
		r.FailingAt, r.DisabledAt, r.Holder, r.HeldUntil = d.FailingAt, d.DisabledAt, d.Holder, d.HeldUntil
		return nil
	})
}

// write writes the state of a relay, after lock or start.
func write(ctx context.Context, tx store.Tx, now int64, r pawl.Relay) error {
	text, err := json.Marshal(detail{r.Epoch, r.Kind, r.Sent, r.Refused, r.LastRefused, r.Error, r.FailingAt, r.DisabledAt, r.Holder,
		r.HeldUntil})
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, texts["write relay"], prefix+r.Sink, r.Position, string(text), now)
	return err
}

// Each changes all relays, for a database that is adopted or moved.
func Each(ctx context.Context, tx store.Tx, change func(now int64, r *pawl.Relay) error) error {
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	all, err := list(ctx, tx)
	if err != nil {
		return err
	}
	for _, r := range all {
		if r, _, err = lock(ctx, tx, r.Sink); err != nil {
			return err
		}
		if err := change(now, &r); err != nil {
			return err
		}
		if err := write(ctx, tx, now, r); err != nil {
			return err
		}
	}
	return nil
}
