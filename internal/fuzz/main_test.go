package main

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestAllTargetsAreFound(t *testing.T) {
	targets, err := find("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []target{{"../../schema", "FuzzCheck"}, {"../../server", "FuzzRequests"}, {"../..", "FuzzDedupe"}} {
		if !slices.Contains(targets, want) {
			t.Errorf("%v is not among %v", want, targets)
		}
	}
	for _, target := range targets { // each has a budget
		files, err := os.ReadDir(target.dir)
		if err != nil {
			t.Fatal(err)
		}
		bounded := slices.ContainsFunc(files, func(f os.DirEntry) bool {
			source, _ := os.ReadFile(target.dir + "/" + f.Name())
			_, body, found := strings.Cut(string(source), "func "+target.name+"(")
			body, _, _ = strings.Cut(body, "\n}\n")
			return found && strings.Contains(body, "cost.")
		})
		if !bounded {
			t.Errorf("%s of %s has no budget of package cost", target.name, target.dir)
		}
	}
}

func TestOnlyWhatIsFoundFails(t *testing.T) {
	late := "--- FAIL: FuzzX (20.01s)\n    context deadline exceeded\nFAIL\n"
	if !onlyTimedOut(late) || onlyTimedOut(late+"    Failing input written to testdata/fuzz/FuzzX/1\n") ||
		onlyTimedOut("--- FAIL: FuzzX\n    a panic\n") {
		t.Error("the end of the time is taken for a fault, or a fault for it")
	}
}

func TestAFailureIsHeldBack(t *testing.T) {
	var shown bytes.Buffer
	p := progress{to: &shown}
	for _, line := range []string{"elapsed: 3s\n", "elapsed: 6s\n--- FAIL: FuzzX (20.01s)\n", "    context deadline exceeded\n", "FAIL\n"} {
		if n, err := p.Write([]byte(line)); n != len(line) || err != nil {
			t.Fatal(n, err)
		}
	}
	if got, want := shown.String(), "elapsed: 3s\nelapsed: 6s\n"; got != want {
		t.Errorf("shown: %q, want %q", got, want)
	}
	if got := p.verdict.String(); !onlyTimedOut(got) {
		t.Errorf("held back: %q", got)
	}
}
