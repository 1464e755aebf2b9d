package engine

import (
	"fmt"

	"github.com/pawl-work/pawl"
)

// callBytes counts the bytes that one call stores: a short call may store many by
// cloning or by a plan.
type callBytes struct {
	Op   string // the verb, for the error
	used int
}

// Take counts n bytes. It returns an error with code too_large, and counts nothing,
// if the call would store more than pawl.MaxCallBytes.
func (r *callBytes) Take(n int) error {
	if r.used+n > pawl.MaxCallBytes {
		return &pawl.Error{
			Code:    pawl.CodeTooLarge,
			Op:      r.Op,
			Message: fmt.Sprintf("the call would store more than %d bytes; make several calls of it", pawl.MaxCallBytes),
		}
	}
	r.used += n
	return nil
}
