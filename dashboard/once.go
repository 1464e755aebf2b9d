package dashboard

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"time"

	"github.com/pawl-work/pawl"
)

// marks is the namespace of what once marks: none that callers have, which may be moved to another database.
const marks = pawl.ReservedPrefix + "dashboard"

// once marks in the database, if the service can, that something has happened, for as long as
// lasts. It reports whether it had not happened before. Callers of the API cannot write such marks.
func (d *server) once(ctx context.Context, kind, id string, lasts time.Duration) (first bool, err error) {
	if before, err := d.happenedBefore(ctx, kind, id); err != nil || before {
		return false, err
	}
	return d.mark(ctx, marks, kind, id, lasts, &pawl.Answer{Code: http.StatusNoContent})
}

// happened reports whether once has marked it.
func (d *server) happened(ctx context.Context, kind, id string) (bool, error) {
	first, err := d.mark(ctx, marks, kind, id, time.Hour, nil) // without an answer, nothing is stored
	if err != nil || !first {
		return !first, err
	}
	return d.happenedBefore(ctx, kind, id)
}

// happenedBefore looks where older servers mark: in the default namespace, unless that was moved.
func (d *server) happenedBefore(ctx context.Context, kind, id string) (bool, error) {
	first, err := d.mark(ctx, pawl.DefaultNamespace, kind, id, time.Hour, nil)
	if errors.Is(err, pawl.ErrMoved) {
		return false, nil
	}
	return !first, err
}

func (d *server) mark(ctx context.Context, in, kind, id string, lasts time.Duration, as *pawl.Answer) (first bool, err error) {
	keys, able := d.svc.(pawl.Idempotent)
	if !able {
		return true, nil
	}
	sum := sha256.Sum256([]byte(id))
	name := hex.EncodeToString(sum[:])
	seconds := int64(max(lasts, pawl.DefaultKeyLease)/time.Second) + 1
	k := pawl.KeyBegin{Scope: pawl.ReservedPrefix + kind, Key: name, RequestHash: name, TTLSeconds: seconds}
	_, before, err := keys.Idempotent(pawl.As(ctx, pawl.Caller{Namespace: in}), k,
		func(context.Context, pawl.Service) (*pawl.Answer, error) { return as, nil })
	if pawl.CodeOf(err) == pawl.CodeKeyInFlight && as != nil {
		return false, nil
	}
	return !before, err
}
