// Package shellwords writes command lines of the program pawl, which people paste into a shell.
package shellwords

import (
	"strings"

	"github.com/pawl-work/pawl"
)

// Line returns a command line of the program pawl, quoted for a POSIX shell: verb, such as
// "queue resume", and its arguments. A namespace other than the default one becomes a flag.
func Line(namespace, verb string, args ...string) string {
	line := "pawl " + verb
	if namespace != "" && namespace != pawl.DefaultNamespace {
		line += " --namespace " + Word(namespace)
	}
	for _, arg := range args {
		line += " " + Word(arg)
	}
	return line
}

// Word quotes a word for a POSIX shell, if it needs it.
func Word(s string) string {
	safe := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:,@%+=", r)
	}
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !safe(r) }) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
