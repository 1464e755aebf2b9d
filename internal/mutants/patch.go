package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// mutant is a patch: what is wrong with it in, and the test that has to notice.
type mutant struct {
	name, fault string
	path        string   // of the patch, absolute
	pkg         string   // the package of the test, as ./engine
	flags       []string // further arguments of go test, as -race
	run         string   // the value of -run
	files       []string // that it changes, from the root of the repository
}

var (
	header    = regexp.MustCompile(`\AFault: (\S.*)\nTest: (\.(?:/\S+)?)((?: -[\w=.]+)*) -run '([^']+)'\n\n`)
	changed   = regexp.MustCompile(`(?m)^\+\+\+ b/(\S+)$`)
	validName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
)

// read reads all patches of a directory, in the order of their names.
func read(dir string) (all []*mutant, err error) {
	found, _ := filepath.Glob(filepath.Join(dir, "*.patch")) // the pattern is valid
	for _, path := range found {
		m := &mutant{name: strings.TrimSuffix(filepath.Base(path), ".patch")}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if m.path, err = filepath.Abs(path); err != nil {
			return nil, err
		}
		head := header.FindSubmatch(text)
		if head == nil || !validName.MatchString(m.name) {
			return nil, fmt.Errorf("%s: a patch is named in lower case and begins with Fault: … and Test: ./package [flags] -run '…'", path)
		}
		m.fault, m.pkg, m.flags, m.run = string(head[1]), string(head[2]), strings.Fields(string(head[3])), string(head[4])
		for _, f := range changed.FindAllSubmatch(text, -1) {
			m.files = append(m.files, string(f[1]))
		}
		all = append(all, m)
	}
	return all, nil
}

// choose returns the mutants with one of these names, or whose names begin with one.
func choose(all []*mutant, names string) (chosen []*mutant, err error) {
	if names == "" {
		return all, nil
	}
	for name := range strings.SplitSeq(names, ",") {
		before := len(chosen)
		for _, m := range all {
			if strings.HasPrefix(m.name, name) {
				chosen = append(chosen, m)
			}
		}
		if len(chosen) == before {
			return nil, fmt.Errorf("no mutant %q in %s", name, patchDir)
		}
	}
	return chosen, nil
}

// apply copies the files that the patch changes from root to dir, changes them there, and returns
// which file stands for which: the form of Go's -overlay.
func (m *mutant) apply(ctx context.Context, root, dir string) (replace map[string]string, err error) {
	replace = map[string]string{}
	for _, file := range m.files {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return nil, err
		}
		to := filepath.Join(dir, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), os.WriteFile(to, text, 0o600)); err != nil {
			return nil, err
		}
		replace[filepath.Join(root, file)] = to
	}
	cmd := exec.CommandContext(ctx, "git", "apply", "--whitespace=nowarn", m.path)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir)) // dir is no part of a repository around it
	if said, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("git apply: %w: %s", err, said)
	}
	return replace, nil
}

// overlay writes the file that -overlay names.
func overlay(replace map[string]string, to string) error {
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o600)
}
