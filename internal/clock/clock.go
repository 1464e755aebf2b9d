// Package clock is the one place that reads the wall clock. PostgreSQL has its
// own (pawl.now()); SQLite is handed this one; nothing else tells time.
package clock

import "time"

// Now is the machine's wall clock, with its monotonic reading.
func Now() time.Time { return time.Now() }
