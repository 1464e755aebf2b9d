package main

import "strings"

// mayBeSkipped holds the reasons for which a test may be skipped even with
// CI=true: what is left out on purpose, never what could not be had. A reason
// matches when the test's contains it.
var mayBeSkipped = []struct{ Reason, Why string }{
	{"PAWL_TORTURE=1", "the long runs of `make torture`; a short one of each runs here"},
	{"root may write everywhere", "what permissions refuse is tried as an ordinary user"},
}

// unexcused says that a skip with this reason is a failure in CI.
func unexcused(reason string) bool {
	for _, m := range mayBeSkipped {
		if strings.Contains(reason, m.Reason) {
			return false
		}
	}
	return true
}
