package main

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

func TestCountsAreRead(t *testing.T) {
	for _, c := range []struct {
		name          string
		counts        counter
		output        string
		passed, total int
		ok            bool
	}{
		{"node, spec", nodeTest, "ℹ tests 30\nℹ suites 0\nℹ pass 28\nℹ fail 2\n", 28, 30, true},
		{"node, tap", nodeTest, "# tests 3\n# pass 3\n", 3, 3, true},
		{"node without a summary", nodeTest, "it broke\n", 0, 0, false},
		{"pytest", pytest, "....\n======= 2 failed, 120 passed, 1 skipped in 31.40s (0:00:31) =======\n", 120, 123, true},
		{"pytest, quiet", pytest, "8 passed in 3.82s\n", 8, 8, true},
		{"pytest, an error", pytest, "==== 1 passed, 1 warning, 3 errors in 0.10s ====\n", 1, 4, true},
		{"pytest, twice", pytest, "2 passed in 1.00s\n3 passed in 1.00s\n", 5, 5, true},
		{"vitest", vitest, " Test Files  1 failed | 1 passed (2)\n      Tests  1 failed | 723 passed (724)\n", 723, 724, true},
		{"vitest, all", vitest, "      Tests  12 passed (12)\n", 12, 12, true},
		{"vitest, none", vitest, "      Tests  2 failed (2)\n", 0, 2, true},
		{"vitest that did not begin", vitest, "      Tests  no tests\n", 0, 0, false},
		{"pytest that did not end", pytest, "Killed\n", 0, 0, false},
	} {
		passed, total, ok := c.counts(c.output)
		if passed != c.passed || total != c.total || ok != c.ok {
			t.Errorf("%s: %d/%d %v, want %d/%d %v", c.name, passed, total, ok, c.passed, c.total, c.ok)
		}
	}
}

func TestFewerThanTheBaselineIsWrong(t *testing.T) {
	own, foreign := suite{name: "own"}, suite{name: "foreign", foreign: true}
	broken := errors.New("exit status 1")
	for _, c := range []struct {
		o        outcome
		baseline int
		want     string
	}{
		{outcome{suite: own, passed: 9, total: 9, counted: true}, 9, ""},
		{outcome{suite: own, passed: 10, total: 10, counted: true}, 9, ""},
		{outcome{suite: own, passed: 8, total: 9, counted: true}, 9, "fewer than the baseline"},
		{outcome{suite: own, passed: 9, total: 10, counted: true, err: broken}, 9, "its command failed"},
		{outcome{suite: foreign, passed: 9, total: 10, counted: true, err: broken}, 9, ""},
		{outcome{suite: foreign, err: broken}, 0, "does not say how many"},
	} {
		got := strings.Join(c.o.wrong(c.baseline), "; ")
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%+v with baseline %d: %q, want %q", c.o, c.baseline, got, c.want)
		}
	}
}

func TestEverySuiteHasABaseline(t *testing.T) {
	t.Chdir("../..")
	baseline, err := readBaseline()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range suites {
		if baseline[s.name] == 0 {
			t.Errorf("%s has no baseline in %s", s.name, baselineFile)
		}
		delete(baseline, s.name)
	}
	for name := range baseline {
		t.Errorf("%s has a baseline for %s, which is no suite", baselineFile, name)
	}
}

func TestASuiteThatFailsRunsOnceMore(t *testing.T) {
	script := `test -e "$FILE" && echo "1 passed in 0.1s" || { touch "$FILE"; exit 1; }`
	unstable := suite{name: "unstable", command: []string{"sh", "-c", script}, counts: pytest}
	env := []string{"PATH=/usr/bin:/bin", "FILE=" + filepath.Join(t.TempDir(), "ran")}
	if o := unstable.runTwice(t.Context(), env, 1); len(o.wrong(1)) != 0 || len(o.first) == 0 {
		t.Errorf("%+v", o)
	}
	if o := unstable.runTwice(t.Context(), env, 1); len(o.wrong(1)) != 0 || len(o.first) != 0 {
		t.Errorf("%+v", o)
	}
	if o := unstable.runTwice(t.Context(), env, 2); len(o.wrong(2)) == 0 || len(o.first) == 0 {
		t.Errorf("%+v", o)
	}
}
