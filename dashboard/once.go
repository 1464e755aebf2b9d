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
	keys, able := d.svc.(pawl.Idempotent)
	if !able {
		return true, nil
	}
	if before, err := d.marked(ctx, pawl.DefaultNamespace, kind, id); err != nil || before {
		return false, err
	}
	name := markName(kind, id)
	seconds := int64(max(lasts, pawl.DefaultKeyLease)/time.Second) + 1
	k := pawl.KeyBegin{Scope: name.Scope, Key: name.Key, RequestHash: name.Key, TTLSeconds: seconds}
	_, before, err := keys.Idempotent(pawl.As(ctx, pawl.Caller{Namespace: marks}), k,
		func(context.Context, pawl.Service) (*pawl.Answer, error) {
			return &pawl.Answer{Code: http.StatusNoContent}, nil
		})
	if pawl.CodeOf(err) == pawl.CodeKeyInFlight {
		return false, nil
	}
	return !before, err
}

// happened reports whether once has marked it. It only reads: requests that look at the same time do not
// meet.
func (d *server) happened(ctx context.Context, kind, id string) (bool, error) {
	if so, err := d.marked(ctx, marks, kind, id); so || err != nil {
		return so, err
	}
	return d.marked(ctx, pawl.DefaultNamespace, kind, id)
}

// marked looks in a namespace. Older servers mark in the default one, unless that was moved.
func (d *server) marked(ctx context.Context, in, kind, id string) (bool, error) {
	keys, able := d.svc.(interface {
		Answered(context.Context, pawl.KeyName) (bool, error)
	})
	if !able {
		return false, nil
	}
	so, err := keys.Answered(pawl.As(ctx, pawl.Caller{Namespace: in}), markName(kind, id))
	if errors.Is(err, pawl.ErrMoved) && in != marks {
		return false, nil
	}
	return so, err
}

func markName(kind, id string) pawl.KeyName {
	sum := sha256.Sum256([]byte(id))
	return pawl.KeyName{Scope: pawl.ReservedPrefix + kind, Key: hex.EncodeToString(sum[:])}
}
