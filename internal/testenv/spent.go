package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// span is what took a while.
type span struct {
	name string
	took time.Duration
	used time.Duration // of the processors, by a run and the programs that it started; 0 = not known
}

// spent is where the time of a run went. Tests and packages that run side by side each count in full. A package that
// did not run, because its result was known, took no time.
type spent struct {
	runs, packages, tests []span
	parents               map[string]bool // tests that have subtests
}

const slowest = 10 // of each kind are printed

// module is the beginning of names that says nothing here.
const module = "github.com/pawl-work/pawl"

func (s *spent) pkg(name string, seconds float64, of goTest) {
	s.packages = add(s.packages, short(name)+mark(of), seconds)
}

// test notes a test that ended. A test with subtests ends after them, and only these count.
func (s *spent) test(name testName, seconds float64, of goTest) {
	if s.parents == nil {
		s.parents = map[string]bool{}
	}
	full := short(name.pkg) + mark(of) + " " + name.test
	for i, c := range full {
		if c == '/' {
			s.parents[full[:i]] = true
		}
	}
	if !s.parents[full] {
		s.tests = add(s.tests, full, seconds)
	}
}

func add(spans []span, name string, seconds float64) []span {
	if seconds == 0 {
		return spans
	}
	return append(spans, span{name: name, took: time.Duration(seconds * float64(time.Second))})
}

func short(pkg string) string {
	if pkg == module {
		return "."
	}
	return strings.TrimPrefix(pkg, module+"/")
}

func mark(of goTest) string {
	if of.race {
		return " (race)"
	}
	return ""
}

// print prints the time of each run, and the slowest packages and tests.
func (s *spent) print(out io.Writer) {
	for _, list := range []struct {
		title string
		spans []span
	}{{"runs", s.runs}, {"slowest packages", top(s.packages)}, {"slowest tests", top(s.tests)}} {
		if len(list.spans) == 0 {
			continue
		}
		fmt.Fprintf(out, "%s:\n", list.title)
		for _, x := range list.spans {
			used := ""
			if x.used > 0 {
				used = fmt.Sprintf("  (%.1f s of the processors)", x.used.Seconds())
			}
			fmt.Fprintf(out, "  %7.1fs  %s%s\n", x.took.Seconds(), x.name, used)
		}
	}
}

func top(spans []span) []span {
	slices.SortStableFunc(spans, func(a, b span) int { return cmp.Compare(b.took, a.took) })
	return spans[:min(len(spans), slowest)]
}
