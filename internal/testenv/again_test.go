package main

import (
	"slices"
	"strings"
	"testing"
)

func failing(test, said string) string {
	return `{"Action":"output","Package":"p","Test":"` + test + `","Output":"` + said + `\n"}` + "\n" +
		`{"Action":"fail","Package":"p","Test":"` + test + `"}` + "\n"
}

// What failed is run again, but not what a second run cannot excuse.
func TestAgain(t *testing.T) {
	bad := failing("TestBad", "    a_test.go:5: 1 is not 2")
	for _, c := range []struct {
		name, events string
		passes       bool // in each run alone
		asked        []string
		ok           bool
	}{
		{"it passes", events + bad + endFail, true, []string{"^TestBad$"}, true},
		{"it fails again", events + bad + endFail, false, []string{"^TestBad$"}, false},
		{"a subtest", events + failing("TestBad/a(b)/c", "no") + failing("TestBad/a(b)", "") + bad + endFail, true,
			[]string{`^TestBad$/^a\(b\)$/^c$`}, true},
		{"two tests", events + bad + failing("TestBadder", "no") + endFail, true, []string{"^TestBad$", "^TestBadder$"}, true},
		{"a data race", events + bad + failing("TestRace", "testing.go:1: race detected during execution of test") + endFail, true, nil, false},
		{"a panic", events + failing("TestPanic", "panic: oh no [recovered]") + endFail, true, nil, false},
		{"a random test", events + failing("TestRandom", "    a_test.go:7: seed 12: 1 is not 2") + endFail, true, nil, false},
		{"a test that did not end", events + broken + endFail, true, nil, false},
		{"a package without a failed test", events + bad + endFail + strings.ReplaceAll(endFail, `"p"`, `"q"`), true, nil, false},
		{"many", events + strings.Repeat(bad, againTests+1) + endFail, true, nil, false},
		{"nothing failed", events + endOK, true, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			r := NewReport(&out, false)
			if err := r.Read(strings.NewReader(c.events), goTest{dir: "module"}); err != nil {
				t.Fatal(err)
			}
			var asked []string
			ok := r.Again(func(f failure, filter string) bool {
				if f.pkg != "p" || f.in.dir != "module" {
					t.Errorf("%+v", f)
				}
				asked = append(asked, filter)
				return c.passes
			})
			if ok != c.ok || !slices.Equal(asked, c.asked) {
				t.Errorf("ok %t, ran %q", ok, asked)
			}
			if named := r.Close(ok); named != c.ok || strings.Contains(out.String(), "unstable: p.TestBad") != c.ok ||
				strings.Contains(out.String(), "failed: ") == c.ok && c.name != "nothing failed" {
				t.Errorf("ok %t:\n%s", named, out.String())
			}
		})
	}
}
