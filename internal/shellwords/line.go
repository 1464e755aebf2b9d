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

// Split returns the words of a line that Line wrote; none if a quotation does not end.
func Split(line string) (words []string) {
	for rest := strings.TrimSpace(line); rest != ""; rest = strings.TrimLeft(rest, " ") {
		var w strings.Builder
		for rest != "" && rest[0] != ' ' {
			switch {
			case rest[0] == '\'':
				end := strings.IndexByte(rest[1:], '\'')
				if end < 0 {
					return nil
				}
				w.WriteString(rest[1 : 1+end])
				rest = rest[end+2:]
			case rest[0] == '\\' && len(rest) > 1:
				w.WriteByte(rest[1])
				rest = rest[2:]
			default:
				w.WriteByte(rest[0])
				rest = rest[1:]
			}
		}
		words = append(words, w.String())
	}
	return words
}
