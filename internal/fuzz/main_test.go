package main

import (
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
