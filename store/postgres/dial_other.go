//go:build !linux

package postgres

import "time"

// setUserTimeout does nothing: on systems other than Linux the limits of statements have
// the same effect, later.
func setUserTimeout(uintptr, time.Duration) {}
