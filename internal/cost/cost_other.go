//go:build !unix

package cost

import (
	"time"

	"github.com/pawl-work/pawl/internal/clock"
)

var start = clock.Now()

// processorTime returns the time that has passed, because this system does not report
// processor time.
func processorTime() time.Duration { return clock.Now().Sub(start) }
