package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// prismVariable names Prism's program for the tests of the client.
const prismVariable = "PAWL_TEST_PRISM"

// addPrism installs Prism, if all packages are tested, and adds its program and the Node below it to env. Prism compares
// every answer of the client's behaviour suite with the API's description. It begins at once; the returned function waits for it.
func addPrism(ctx context.Context, args []string, report *Report) (with func(env []string) []string) {
	if !slices.Contains(args, allPackages) || os.Getenv(prismVariable) != "" {
		return func(env []string) []string { return env }
	}
	var path string
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		path, err = installPrism(ctx)
	}()
	return func(env []string) []string {
		if <-ended; err != nil {
			report.CouldNot("Prism", err.Error())
			return env
		}
		all := append(filepath.SplitList(path), os.Getenv("PATH"))
		return append(env, prismVariable+"="+prismOf(path), "PATH="+strings.Join(all, string(filepath.ListSeparator)))
	}
}

// installPrism returns the folders of Prism and its Node.
func installPrism(ctx context.Context) (path string, err error) {
	if _, err := exec.LookPath("npm"); err != nil {
		return "", errors.New("no npm here")
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	var said strings.Builder
	cmd := exec.CommandContext(ctx, "./internal/npm", "server/lint")
	cmd.Stderr = &said
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("internal/npm: %w\n%s", err, tail(said.String(), 5))
	}
	if path = strings.TrimSpace(string(out)); prismOf(path) == "" {
		return "", fmt.Errorf("internal/npm: no prism in %s", path)
	}
	return path, nil
}

func prismOf(path string) string {
	for _, dir := range filepath.SplitList(path) {
		if program := filepath.Join(dir, "prism"); isFile(program) {
			return program
		}
	}
	return ""
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
