package store

import (
	"embed"
	"strings"
	"sync"
)

// Texts reads the `-- name: Word` blocks of an embedded .sql file.
func Texts(fsys embed.FS, file string) map[string]string {
	raw, err := fsys.ReadFile(file)
	if err != nil {
		panic(err) // embedded at build time: a wrong name is a programmer's error
	}
	out := map[string]string{}
	for _, block := range strings.Split("\n"+string(raw), "\n-- name: ")[1:] {
		name, text, _ := strings.Cut(block, "\n")
		out[strings.TrimSpace(name)] = strings.TrimSpace(text)
	}
	return out
}

// Rewriter makes a Dialect.Rewrite out of replacements (old, new, old, new …),
// applied once per text. list is what @list($n) becomes, with %s for $n.
func Rewriter(list string, replacements ...string) func(string) string {
	r := strings.NewReplacer(replacements...)
	before, after, _ := strings.Cut(list, "%s")
	var seen sync.Map
	return func(q string) string {
		if done, ok := seen.Load(q); ok {
			return done.(string)
		}
		var b strings.Builder
		rest := q
		for {
			head, tail, found := strings.Cut(rest, "@list(")
			b.WriteString(head)
			if !found {
				break
			}
			arg, tail2, _ := strings.Cut(tail, ")")
			b.WriteString(before + arg + after)
			rest = tail2
		}
		done := r.Replace(b.String())
		seen.Store(q, done)
		return done
	}
}
