package engine

import (
	"cmp"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

func micros(t *time.Time) *int64 {
	if t == nil {
		return nil
	}
	us := t.UnixMicro()
	return &us
}

// seconds returns a time in seconds; 0 = none.
func seconds(n int) *int64 {
	if n == 0 {
		return nil
	}
	s := int64(n)
	return &s
}

func stamp(us int64) time.Time { return time.UnixMicro(us).UTC() }

// actor returns the actor of an event: the one that the caller states, or the verb's
// default.
func actor(c pawl.Caller, kind, id string) store.Actor {
	return store.Actor{Type: cmp.Or(c.ActorType, kind), ID: cmp.Or(c.ActorID, id), Key: c.Key}
}
