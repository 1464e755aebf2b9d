//go:build !linux

package postgres

import "time"

// Elsewhere than on Linux the limits of statements do the same, later.
func setUserTimeout(uintptr, time.Duration) {}
