//go:build !unix

package cost

import (
	"time"

	"github.com/pawl-work/pawl/internal/clock"
)

var start = clock.Now()

// processorTime is the time that has passed: the system does not say more.
func processorTime() time.Duration { return clock.Now().Sub(start) }
