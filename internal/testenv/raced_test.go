package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A test that was renamed would drop out of the run with the race detector unseen.
func TestRacedTestsExist(t *testing.T) {
	for _, r := range raced {
		var found []string
		for _, dir := range r.packages {
			dir, below := strings.CutSuffix(dir, "/...")
			pattern := filepath.Join("..", "..", dir, "*_test.go")
			if below {
				pattern = filepath.Join("..", "..", dir, "*", "*_test.go")
			}
			files, err := filepath.Glob(pattern)
			if err != nil || len(files) == 0 {
				t.Errorf("%s has no tests: %v", dir, err)
			}
			for _, file := range files {
				source, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(source, -1) {
					found = append(found, string(m[1]))
				}
			}
		}
		for i, test := range r.tests {
			if !slices.Contains(found, test) || slices.Contains(r.tests[:i], test) {
				t.Errorf("%s is not a test of %v, or is listed twice", test, r.packages)
			}
		}
		for _, test := range r.onBoth {
			if !slices.Contains(r.tests, test) {
				t.Errorf("%s is not listed", test)
			}
		}
	}
}

// A package below the engine is listed if a test of it starts goroutines, and only then: without them a test shares nothing.
func TestPackagesWithGoroutinesAreRaced(t *testing.T) {
	starts := regexp.MustCompile(`\bgo (func|\w[\w.]*\()|\.Go\(|synctest\.`)
	has := map[string]bool{}
	for _, pattern := range []string{"../../engine/internal/*/*_test.go", "../../engine/internal/*/*/*_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %q, %v", pattern, files, err)
		}
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			dir := "." + strings.TrimPrefix(filepath.Dir(file), "../..")
			has[dir] = has[dir] || starts.Match(source)
		}
	}
	for dir, starts := range has {
		if starts != slices.Contains(raced[0].packages, dir) {
			t.Errorf("%s: tests start goroutines: %t; listed: %t", dir, starts, !starts)
		}
	}
}

func TestRuns(t *testing.T) {
	t.Chdir("../..")
	runs := runsOf([]string{"-timeout", "1h", "./..."}, true)
	var said []string
	for _, r := range runs {
		said = append(said, r.String())
	}
	all := strings.Join(said, "\n")
	for _, want := range []string{"go test -timeout 1h ./engine ./pawltest ./client ", "./internal/mutants ./...",
		"cd contrib/traces && go test -timeout 1h ./...",
		"go test -timeout 1h -race -gcflags=modernc.org/...=-race=false -d=checkptr=0 -skip ./^(postgres|client_sqlite)$ ",
		"-run ^(TestConcurrentWalk|"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is not in\n%s", want, all)
		}
	}
	var mu sync.Mutex
	made := 0
	if code := inStreams(runs, func(t goTest) int {
		mu.Lock()
		defer mu.Unlock()
		made++
		return made % 3
	}); code != 2 || made != len(runs) {
		t.Errorf("code %d of %d runs, %d made", code, len(runs), made)
	}
	if one := runsOf([]string{"./engine"}, false); len(one) != 1 || one[0].race || one[0].dir != "" {
		t.Errorf("%v", one)
	}
}
