// Package clock is the only place that reads the wall clock. SQLite databases use this clock.
// PostgreSQL has its own (pawl.now()).
package clock

import "time"

// Now returns the machine's wall clock, with its monotonic reading.
func Now() time.Time { return time.Now() }
