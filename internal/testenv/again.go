package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

const (
	againTimes = 3 // how often a failed test has to pass
	againTests = 5 // of more failures none is run again
)

// final finds what no second run excuses: a data race, a panic, and a random test, which names its
// seed and would now draw another.
var final = regexp.MustCompile(`(?m)race detected|DATA RACE|^\s*panic: |\bseed\b`)

// Again runs the failed tests of a run once more, each one alone and three times, because a busy
// machine can break a test that waits for something. A test that passes each time is unstable: the
// summary names it, and it does not fail the run. Again reports whether nothing else failed. run runs
// go test for one package and reports whether that succeeded.
func (r *Report) Again(run func(f failure, filter string) bool) bool {
	var tests []failure
	for _, f := range r.failures {
		if f.final {
			return false
		}
		if !r.isParent(f) {
			tests = append(tests, f)
		}
	}
	if r.broken || len(tests) == 0 || len(tests) > againTests {
		return false
	}
	for _, f := range tests {
		fmt.Fprintf(r.out, "again: %s.%s\n", f.pkg, f.test)
		if !run(f, filterOf(f.test)) {
			return false
		}
	}
	r.unstable, r.failures, r.failed = tests, nil, 0
	return true
}

// isParent reports whether one of the failed tests is a subtest of f.
func (r *Report) isParent(f failure) bool {
	return slices.ContainsFunc(r.failures, func(of failure) bool { return of.pkg == f.pkg && strings.HasPrefix(of.test, f.test+"/") })
}

// filterOf returns the value of -run that selects one test or subtest.
func filterOf(test string) string {
	parts := strings.Split(test, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}

// again runs the failed tests of a run of all packages once more, and reports whether only
// unstable ones had failed.
func again(ctx context.Context, args, env []string, report *Report) bool {
	if !slices.Contains(args, allPackages) {
		return false
	}
	return report.Again(func(f failure, filter string) bool {
		var said strings.Builder
		alone := f.in
		alone.args = slices.Concat(withoutPackages(args), alone.detector(), []string{"-count", fmt.Sprint(againTimes), "-run", filter, f.pkg})
		code := alone.run(ctx, env, NewReport(&said, true))
		return code == 0 && strings.Count(said.String(), "--- PASS: "+f.test+" (") == againTimes
	})
}
