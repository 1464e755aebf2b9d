// Command fuzz runs every fuzz target of the module for a while, one after the other: `go run
// ./internal/fuzz [-time 20s] [-plain]`. It finds them by their names, so new ones are included. Inputs
// that fail are stored in testdata/fuzz, where every later `go test` tries them. With -plain the inputs are
// random, and no code is instrumented to guide them: then nothing is compiled but the tests themselves.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// target is a fuzz test of a package.
type target struct{ dir, name string }

var targetLine = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(\w+ \*testing\.F\)`)

func main() {
	each := flag.Duration("time", 20*time.Second, "how long each target runs")
	plain := flag.Bool("plain", false, "compile nothing for fuzzing alone")
	flag.Parse()
	targets, err := find(".")
	if err != nil || len(targets) == 0 {
		fmt.Fprintln(os.Stderr, "fuzz: no targets found here:", err)
		os.Exit(2)
	}
	fmt.Printf("%d targets, %v each\n", len(targets), *each)
	command := guided
	if *plain {
		dir, err := os.MkdirTemp("", "fuzz-")
		if err == nil {
			defer os.RemoveAll(dir)
			err = compile(targets, dir)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "fuzz:", err)
			os.Exit(1)
		}
		command = func(t target, each time.Duration) *exec.Cmd { return unguided(t, each, dir) }
	}
	failed := false
	for _, t := range targets {
		fmt.Println("fuzz", t.dir, t.name)
		failed = !fuzz(t, command(t, *each)) || failed
	}
	if failed {
		os.Exit(1)
	}
}

// guided fuzzes with code that was compiled to guide the inputs.
func guided(t target, each time.Duration) *exec.Cmd {
	// By default go test may spend a minute on making one input that covers new code smaller.
	return exec.Command("go", "test", "-run", "^$", "-fuzz", "^"+t.name+"$",
		"-fuzztime", each.String(), "-fuzzminimizetime", "100x", "./"+t.dir)
}

// compile makes the tests of the targets' packages, in dir.
func compile(targets []target, dir string) error {
	args := []string{"test", "-c", "-vet=off", "-o", dir + string(filepath.Separator)}
	for _, t := range targets {
		if pkg := "./" + t.dir; !slices.Contains(args, pkg) {
			args = append(args, pkg)
		}
	}
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("go test -c: %w\n%s", err, out)
	}
	return nil
}

// unguided runs compiled tests. A test program is named for its package's folder.
func unguided(t target, each time.Duration, dir string) *exec.Cmd {
	name := path.Base(t.dir)
	if t.dir == "." {
		name = "pawl" // the module's
	}
	cmd := exec.Command(filepath.Join(dir, name+".test"), "-test.run=^$", "-test.fuzz=^"+t.name+"$", "-test.fuzztime="+each.String(),
		"-test.fuzzminimizetime=100x", "-test.fuzzcachedir="+filepath.Join(dir, "cache"))
	cmd.Dir = filepath.FromSlash(t.dir)
	return cmd
}

// fuzz runs one target and reports whether nothing was found.
func fuzz(t target, cmd *exec.Cmd) bool {
	out := progress{to: os.Stdout}
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	err := cmd.Run()
	switch {
	case err == nil:
	case onlyTimedOut(out.verdict.String()):
		fmt.Println("the time ended in the middle of an input; nothing was found")
	default:
		os.Stdout.Write(out.verdict.Bytes())
		fmt.Fprintf(os.Stderr, "fuzz: %s %s: %v\n", t.dir, t.name, err)
		return false
	}
	return true
}

// progress passes on the output of a run until it says that the run failed. What follows is
// the verdict.
type progress struct {
	to      io.Writer
	verdict bytes.Buffer
}

func (p *progress) Write(b []byte) (int, error) {
	pass := b
	if p.verdict.Len() > 0 {
		pass = nil
	} else if i := bytes.Index(b, []byte("--- FAIL")); i >= 0 {
		pass = b[:i]
	}
	p.verdict.Write(b[len(pass):])
	if _, err := p.to.Write(pass); err != nil {
		return 0, err
	}
	return len(b), nil
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
