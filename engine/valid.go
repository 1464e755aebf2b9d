package engine

import (
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/store"
)

func micros(t *time.Time) *int64 { return kernel.Micros(t) }

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
	return kernel.Actor(c, kind, id)
}
