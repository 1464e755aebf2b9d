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
		panic(err) // embedded at build time: a wrong name is a mistake in the program
	}
	out := map[string]string{}
	for _, block := range strings.Split("\n"+string(raw), "\n-- name: ")[1:] {
		name, text, _ := strings.Cut(block, "\n")
		out[strings.TrimSpace(name)] = strings.TrimSpace(text)
	}
	return out
}

// Rewriter returns a Dialect.Rewrite that makes the replacements (old, new, old, new …),
// once per text. marks has what the marks with an argument become: see Tx. A key is the
// beginning of the mark, as "@list(", and a value has %s for the argument. Marks of columns,
// ranks and states are expanded first: see columnLists, expandRanks and ExpandStates.
func Rewriter(marks map[string]string, replacements ...string) func(string) string {
	r := strings.NewReplacer(replacements...)
	var seen sync.Map
	return func(q string) string {
		if done, ok := seen.Load(q); ok {
			return done.(string)
		}
		done := ExpandNames(ExpandStates(expandRanks(ExpandColumns(q))))
		for mark, template := range marks {
			done = expand(done, mark, in(template))
		}
		done = r.Replace(done)
		seen.Store(q, done)
		return done
	}
}

// in returns a function that puts the argument of a mark into a template.
func in(template string) func(arg string) string {
	return func(arg string) string { return strings.ReplaceAll(template, "%s", arg) }
}

// expand replaces each mark by what made returns for its argument.
func expand(text, mark string, made func(arg string) string) string {
	var b strings.Builder
	for {
		head, tail, found := strings.Cut(text, mark)
		b.WriteString(head)
		if !found {
			return b.String()
		}
		var arg string
		arg, text, _ = strings.Cut(tail, ")")
		b.WriteString(made(arg))
	}
}
