package dashboard

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// command is a command of the program: verb and flags, and what it is about.
type command struct{ words, args []string }

// pawlCommand is a command by its verb and flags, without those of the connection.
func pawlCommand(words ...string) command { return command{words: words} }

// on is the command about some things.
func (c command) on(args ...string) command { return command{c.words, args} }

// shows says which commands, and which path of the API with its query, show what the page
// shows. path may be "".
func (v *request) shows(path string, commands ...command) { v.path, v.commands = path, commands }

// lines are the commands of the page as lines for a shell. Where a key is required, the
// program reads it from PAWL_KEY.
func (v *request) lines() (out []string) {
	origin, namespace := originOf(v.Request), pawl.CallerOf(v.Context()).Namespace
	for _, c := range v.commands {
		words := append(append([]string{"pawl"}, c.words...), "--server="+origin)
		if namespace != pawl.DefaultNamespace {
			words = append(words, "--namespace="+namespace)
		}
		if slices.ContainsFunc(c.args, func(arg string) bool { return strings.HasPrefix(arg, "-") }) {
			words = append(words, "--")
		}
		out = append(out, shellLine(append(words, c.args...)))
	}
	if v.path == "" {
		return out
	}
	words := []string{"curl", "-sS", origin + v.path}
	if namespace != pawl.DefaultNamespace {
		words = append(words, "-H", api.NamespaceHeader+": "+url.PathEscape(namespace))
	}
	line := shellLine(words)
	if v.pass.Key != nil {
		line += ` -H "Authorization: Bearer $PAWL_KEY"`
	}
	return append(out, line)
}

// originOf is the address of the server as the browser calls it.
func originOf(r *http.Request) string {
	if secure(r) {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// shellLine joins words to a line for a POSIX shell.
func shellLine(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = shellWord(w)
	}
	return strings.Join(quoted, " ")
}

// shellWord quotes a word if a shell would read it otherwise.
func shellWord(w string) string {
	special := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_./:=@,+%", r)
	}
	if w != "" && !strings.ContainsFunc(w, special) {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}
