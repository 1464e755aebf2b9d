// Command fuzz runs every fuzz target of the module for a while, one after the other: `go run
// ./internal/fuzz [-time 20s]`. It finds them by their names, so new ones are included. Inputs
// that fail are stored in testdata/fuzz, where every later `go test` tries them.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// target is a fuzz test of a package.
type target struct{ dir, name string }

var targetLine = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(\w+ \*testing\.F\)`)

func main() {
	each := flag.Duration("time", 20*time.Second, "how long each target runs")
	flag.Parse()
	targets, err := find(".")
	if err != nil || len(targets) == 0 {
		fmt.Fprintln(os.Stderr, "fuzz: no targets found here:", err)
		os.Exit(2)
	}
	fmt.Printf("%d targets, %v each\n", len(targets), *each)
	failed := false
	for _, t := range targets {
		fmt.Println("fuzz", t.dir, t.name)
		cmd := exec.Command("go", "test", "-run", "^$", "-fuzz", "^"+t.name+"$", "-fuzztime", each.String(), "./"+t.dir)
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = io.MultiWriter(os.Stdout, &said), os.Stderr
		if err := cmd.Run(); err != nil && !onlyTimedOut(said.String()) {
			fmt.Fprintf(os.Stderr, "fuzz: %s %s: %v\n", t.dir, t.name, err)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}

// onlyTimedOut reports whether a run failed only because its time ended in the middle of an input.
// go test before 1.27 reports that as a failure (go.dev/issue/75804), although nothing was
// found.
func onlyTimedOut(output string) bool {
	return strings.Contains(output, "context deadline exceeded") && !strings.Contains(output, "Failing input written")
}

// find lists the targets of the module at root. Other modules below it are left out.
func find(root string) (out []target, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil && path != root || d.Name() == "testdata" || d.Name() == "node_modules" {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		source, err := os.ReadFile(path)
		for _, m := range targetLine.FindAllSubmatch(source, -1) {
			out = append(out, target{filepath.ToSlash(filepath.Dir(path)), string(m[1])})
		}
		return err
	})
	return out, err
}
