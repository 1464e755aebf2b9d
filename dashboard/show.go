package dashboard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"io/fs"
	"net/url"
	"path"
	"strings"
	"time"
	"unicode"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

// parse reads every page: a file of its own around which the layout goes.
func parse() map[string]*template.Template {
	shell := template.Must(template.New("").Funcs(funcs).ParseFS(files, "templates/layout.html"))
	pages := map[string]*template.Template{}
	names, _ := fs.Glob(files, "templates/*.html") // embedded: they are there
	for _, name := range names {
		if page := strings.TrimSuffix(path.Base(name), ".html"); page != "layout" {
			pages[page] = template.Must(template.Must(shell.Clone()).ParseFS(files, name))
		}
	}
	return pages
}

var funcs = template.FuncMap{
	"escape": escape, "ago": ago, "utc": utc, "json": func(raw json.RawMessage) string { return pretty(maxAlone, raw) }, "full": func(raw json.RawMessage) string { return pretty(pawl.MaxPayloadBytes, raw) }, "piece": func(raw json.RawMessage) string { return pretty(maxListed, raw) }, "cut": cut, "status": statusOf, "deeds": deedsFor, "verbs": verbsOf,
	"allowed": pawl.Allowed, "join": strings.Join, "changes": changes, "said": said, "is": is, "whole": whole,
	"states": func() []pawl.StateInfo { return pawl.TaskStates },
	"turn":   turn,
}

func escape(id string) string { return url.PathEscape(id) }

// statusOf is the coarse word for a state of anything: what it looks like.
func statusOf(state any) pawl.Status {
	name := fmt.Sprint(state)
	for _, table := range [][]pawl.StateInfo{pawl.TaskStates, pawl.ItemStates, pawl.MessageStates} {
		for _, s := range table {
			if s.Name == name {
				return s.Status
			}
		}
	}
	return pawl.Status(name) // expired is a status of its own
}

// is says what a state is besides its status.
func is(s pawl.StateInfo) string {
	var out []string
	for _, w := range []struct {
		so   bool
		word string
	}{{!s.Shown, "stored, and shown as one of those below"}, {!s.Stored, "how an open one reads"}, {s.Terminal, "an end"}, {s.Leased, "a worker holds it"}, {s.Timed, "time alone may move it"}} {
		if w.so {
			out = append(out, w.word)
		}
	}
	return strings.Join(out, ", ")
}

// when is a time, or nothing.
func when(t any) time.Time {
	switch t := t.(type) {
	case time.Time:
		return t
	case *time.Time:
		if t != nil {
			return *t
		}
	}
	return time.Time{}
}

func utc(t any) string {
	if at := when(t); !at.IsZero() {
		return at.UTC().Format("2006-01-02 15:04:05Z")
	}
	return ""
}

// ago is how far a time is from now, in one unit.
func ago(t any) string {
	d := clock.Now().Sub(when(t))
	form := "%d %s ago"
	if d < 0 {
		d, form = -d, "in %d %s"
	}
	for _, u := range []struct {
		of   time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}} {
		if d >= u.of {
			return fmt.Sprintf(form, d/u.of, u.name)
		}
	}
	return fmt.Sprintf(form, d/time.Second, "s")
}

// How many bytes are shown of a payload by itself and of one in a list.
const (
	maxAlone  = 64 << 10
	maxListed = 8 << 10
	maxIndent = 40 // what lies deeper would be mostly blanks
)

// cut is a text of at most n characters.
func cut(n int, s string) string {
	if len(s) <= n {
		return s
	}
	runes := []rune(s)
	if len(runes) <= n {
		return s
	}
	return string(runes[:n]) + "…"
}

// pretty is a payload to be read: indented where that stays readable, and cut.
func pretty(most int, raw json.RawMessage) string {
	var b bytes.Buffer
	size := len(raw)
	if size <= maxAlone && depthOf(raw) <= maxIndent && json.Indent(&b, raw, "", "  ") == nil {
		raw = b.Bytes()
	}
	if len(raw) <= most {
		return string(raw)
	}
	return fmt.Sprintf("%s\n… %d bytes in all", strings.ToValidUTF8(string(raw[:most]), ""), size)
}

// depthOf is at least how deep a JSON text is nested.
func depthOf(raw []byte) (deepest int) {
	depth := 0
	for _, c := range raw {
		switch c {
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			depth--
		}
	}
	return deepest
}

// visible takes what moves the cursor or turns the direction of writing out of a
// page, and puts what can be seen in its place: no text may pass for another.
func visible(r rune) rune {
	switch {
	case r == '\n' || r == '\t':
		return r
	case r < 0x20:
		return '\u2400' + r
	case r == 0x7F:
		return '\u2421'
	case unicode.Is(unicode.Cc, r), unicode.Is(unicode.Bidi_Control, r):
		return unicode.ReplacementChar
	}
	return r
}

// said are the parts of a message.
func said(m pawl.Message) []pawl.MessagePart {
	parts, _ := m.Parts() // what is hidden has none
	return parts
}

// whole is all that is known of something, as JSON.
func whole(v any) json.RawMessage {
	raw, _ := json.Marshal(v) // what was read as JSON is JSON
	return raw
}

// turn is the query of the same page with another part of a list.
func turn(q url.Values, at, cursor string) string {
	on := url.Values{}
	for name, values := range q {
		on[name] = values
	}
	on.Set(at, cursor)
	if cursor == "" {
		on.Del(at)
	}
	return "?" + on.Encode()
}
