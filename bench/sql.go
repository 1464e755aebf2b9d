package main

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
)

//go:embed sql/*.sql
var files embed.FS

// texts are the statements in sql/, by the name after "-- name: ".
var texts = func() map[string]string {
	out := map[string]string{}
	names, _ := fs.Glob(files, "sql/*.sql")
	for _, n := range names {
		raw, err := files.ReadFile(n)
		if err != nil {
			panic(err) // embedded at build time
		}
		for _, block := range strings.Split(string(raw), "-- name: ")[1:] {
			name, text, _ := strings.Cut(block, "\n")
			out[strings.TrimSpace(name)] = strings.TrimSpace(text)
		}
	}
	return out
}()

// text returns a statement, with names inserted for its %s.
func text(name string, args ...any) string {
	t, ok := texts[name]
	if !ok {
		panic("no statement " + name)
	}
	if len(args) == 0 {
		return t
	}
	return fmt.Sprintf(t, args...)
}
