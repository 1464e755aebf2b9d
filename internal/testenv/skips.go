package main

import "strings"

// mayBeSkipped lists the reasons for which a test may be skipped even with CI=true. They are
// for tests that are left out on purpose, never for something that is missing. A reason
// matches if it is a part of the test's reason.
var mayBeSkipped = []struct{ Reason, Why string }{
	{"PAWL_TORTURE=1", "the long runs of `make torture`; a short one of each runs here"},
	{"root may write everywhere", "what permissions refuse is tried as an ordinary user"},
}

// unexcused reports whether a skip with this reason is a failure in CI.
func unexcused(reason string) bool {
	for _, m := range mayBeSkipped {
		if strings.Contains(reason, m.Reason) {
			return false
		}
	}
	return true
}
