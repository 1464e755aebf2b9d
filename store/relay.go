package store

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
)

var relaySQL = Texts(sqlFiles, "relay.sql")

// RelayPrefix begins the names of the cursors of relays.
const RelayPrefix = "relay."

// relayDetail is what a relay's row stores besides its position.
type relayDetail struct {
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

// ReadRelay reads the state of the relay to a sink. It returns false when there was never
// such a relay.
func ReadRelay(ctx context.Context, tx Tx, sink string) (pawl.Relay, bool, error) {
	return readRelay(ctx, tx, "relay", RelayPrefix+sink)
}

// LockRelay is ReadRelay that also keeps other transactions from changing the relay until
// this one ends.
func LockRelay(ctx context.Context, tx Tx, sink string) (pawl.Relay, bool, error) {
	return readRelay(ctx, tx, "hold relay", RelayPrefix+sink)
}

// StartRelay is LockRelay that first creates a missing relay at the beginning of the event
// log.
func StartRelay(ctx context.Context, tx Tx, sink string) (pawl.Relay, error) {
	if err := StartCursor(ctx, tx, RelayPrefix+sink); err != nil {
		return pawl.Relay{}, err
	}
	r, _, err := LockRelay(ctx, tx, sink)
	return r, err
}

func readRelay(ctx context.Context, tx Tx, query, row string) (pawl.Relay, bool, error) {
	list, err := relays(ctx, tx, query, row)
	if err != nil || len(list) == 0 {
		return pawl.Relay{}, false, err
	}
	return list[0], true, nil
}

// ListRelays reads up to limit relays, in the order of their names.
func ListRelays(ctx context.Context, tx Tx, limit int) ([]pawl.Relay, error) {
	return relays(ctx, tx, "relays", limit)
}

func relays(ctx context.Context, tx Tx, query string, arg any) ([]pawl.Relay, error) {
	rows, err := tx.Query(ctx, relaySQL[query], arg)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []pawl.Relay
	for rows.Next() {
		var r pawl.Relay
		var detail string
		var at int64
		if err := rows.Scan(&r.Sink, &r.Position, &detail, &at); err != nil {
			return nil, err
		}
		var d relayDetail
		if err := json.Unmarshal([]byte(detail), &d); err != nil {
			return nil, err
		}
		r.Sink, r.UpdatedAt = strings.TrimPrefix(r.Sink, RelayPrefix), Stamp(at)
		r.Epoch, r.Kind, r.Sent, r.Refused, r.LastRefused, r.Error = d.Epoch, d.Kind, d.Sent, d.Refused, d.LastRefused, d.Error
		r.FailingAt, r.DisabledAt, r.Holder, r.HeldUntil = d.FailingAt, d.DisabledAt, d.Holder, d.HeldUntil
		out = append(out, r)
	}
	return out, rows.Err()
}

// WriteRelay writes the state of a relay, after LockRelay or StartRelay.
func WriteRelay(ctx context.Context, tx Tx, now int64, r pawl.Relay) error {
	detail, err := json.Marshal(relayDetail{r.Epoch, r.Kind, r.Sent, r.Refused, r.LastRefused, r.Error, r.FailingAt, r.DisabledAt, r.Holder,
		r.HeldUntil})
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, relaySQL["write relay"], RelayPrefix+r.Sink, r.Position, string(detail), now)
	return err
}
