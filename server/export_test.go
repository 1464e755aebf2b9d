package server

import "time"

// Impatient makes streams beat and cut slow readers sooner, for one test.
func Impatient(d time.Duration) (undo func()) {
	b, s := beat, slowest
	beat, slowest = d, d
	return func() { beat, slowest = b, s }
}
