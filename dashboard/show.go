package dashboard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/internal/htmlpage"
)

// parse parses the templates: one file for each page, the layout and the parts that pages share. Their links begin with
// the prefix.
func parse(prefix string) map[string]*htmlpage.Set {
	shared, _ := fs.Glob(files, "templates/*.part.html") // embedded: they are there
	shared = append(shared, "templates/layout.html", "templates/parts.html")
	own := maps.Clone(funcs)
	own["prefix"] = func() string { return prefix }
	shell := htmlpage.New(own, method)
	for _, name := range shared {
		shell = with(shell, name)
	}
	pages := map[string]*htmlpage.Set{}
	names, _ := fs.Glob(files, "templates/*.html") // embedded: they are there
	for _, name := range names {
		if !slices.Contains(shared, name) {
			pages[strings.TrimSuffix(path.Base(name), ".html")] = with(shell, name)
		}
	}
	return pages
}

// with adds the templates of an embedded file to a set.
func with(s *htmlpage.Set, file string) *htmlpage.Set {
	text, err := files.ReadFile(file)
	if err == nil {
		s, err = s.With(file, string(text))
	}
	if err != nil {
		panic(err) // the templates are the program's own
	}
	return s
}

var funcs = map[string]any{
	"escape": escape, "ago": ago, "utc": utc, "iso": iso, "json": func(raw json.RawMessage) string { return pretty(maxPayload, raw) },
	"full":    func(raw json.RawMessage) string { return pretty(pawl.MaxPayloadBytes, raw) },
	"instant": func(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) },
	"brief":   func(raw json.RawMessage) string { return pretty(maxOperand, raw) },
	"piece":   func(raw json.RawMessage) string { return pretty(maxPayloadInList, raw) }, "cut": cut, "status": statusOf,
	"alone": alone, "host": hostOf,
	"actions": actionsFor, "itemVerbs": pawl.ItemState.Allowed,
	"allowed": pawl.Allowed, "join": strings.Join, "parseDiff": parseDiff, "describeState": describeState,
	"asJSON":        asJSON,
	"states":        func() []pawl.StateInfo { return pawl.TaskStates },
	"pageQuery":     pageQuery,
	"messageStates": func() []pawl.StateInfo { return pawl.MessageStates },
	"last":          func(l []pawl.LogProof) pawl.LogProof { return l[len(l)-1] },
	"itemStates":    func() []pawl.StateInfo { return pawl.ItemStates }, "itemStatuses": func() []pawl.Status { return pawl.ItemStatuses },
	"limits":  limitsOf,
	"rule":    ruleOf,
	"seconds": inUnits,
	"groups":  func() []string { return pawl.SpendingGroups },
	"count":   count, "took": took, "ended": func(t pawl.Task) int { return t.Items - t.ItemsOpen }, "asking": askingOf,
	"explained": explained, "task": names.of, "item": names.of,
	"label": labelOf, "sorts": func() []taskSort { return taskSorts },
	"table":   func(items []pawl.Item) itemTable { return itemTable{items, labels(items)} },
	"silent":  func(seen time.Time) bool { return clock.Now().Sub(seen) > workerSilent },
	"percent": percent,
	"isTrue":  func(b *bool) bool { return b != nil && *b },
	"command": func(words ...string) string { return shellLine(append([]string{"pawl"}, words...)) },
}

// workerSilent is how long a worker was not seen when it no longer counts as live.
const workerSilent = 2 * time.Minute

// percent is how much of a whole a part is.
func percent(part, whole int64) int64 { return int64(float64(part) / float64(max(whole, 1)) * 100) }

func escape(id string) string { return url.PathEscape(id) }

// statusOf is the status of a state of a task, item or message.
func statusOf(state any) pawl.Status {
	name := fmt.Sprint(state)
	for _, table := range [][]pawl.StateInfo{pawl.TaskStates, pawl.ItemStates, pawl.MessageStates} {
		for _, s := range table {
			if s.Name == name {
				return s.Status
			}
		}
	}
	return pawl.Status(name) // expired is a status without a state
}

// took is how long something was, or has been if it has not ended.
func took(from time.Time, to *time.Time) string {
	if to == nil {
		return shortDuration(clock.Now().Sub(from))
	}
	return shortDuration(to.Sub(from))
}

// describeState lists a state's properties besides its status.
func describeState(s pawl.StateInfo) string {
	var out []string
	for _, w := range []struct {
		so   bool
		word string
	}{{!s.Shown, "stored, and shown as one of those below"}, {!s.Stored, "how an open one reads"}, {s.Terminal, "an end"},
		{s.Leased, "a worker holds it"}, {s.Timed, "time alone may move it"}} {
		if w.so {
			out = append(out, w.word)
		}
	}
	return strings.Join(out, ", ")
}

// timeOf is the time in a time.Time or *time.Time, else the zero time.
func timeOf(t any) time.Time {
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
	if at := timeOf(t); !at.IsZero() {
		return at.UTC().Format("2006-01-02 15:04:05 UTC")
	}
	return ""
}

func iso(t any) string { return timeOf(t).UTC().Format(time.RFC3339) }

// ago is the distance of a time from now, in one unit.
func ago(t any) string {
	d := clock.Now().Sub(timeOf(t))
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

// Bytes of a payload that are shown by itself, and in a list.
const (
	maxPayload       = 64 << 10
	maxPayloadInList = 8 << 10
	maxOperand       = 1 << 10 // of an operation of a diff
	maxIndent        = 40      // deeper JSON is not indented
)

// cut truncates a text to n characters.
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

// pretty indents a payload if it is not too deep, and truncates it.
func pretty(most int, raw json.RawMessage) string {
	var b bytes.Buffer
	size := len(raw)
	if size <= min(maxPayload, 4*most) && depthOf(raw) <= maxIndent && json.Indent(&b, raw, "", "  ") == nil {
		raw = b.Bytes()
	}
	if len(raw) <= most {
		return string(raw)
	}
	return fmt.Sprintf("%s\n… %d bytes in all", strings.ToValidUTF8(string(raw[:most]), ""), size)
}

// depthOf is an upper bound of the nesting depth of a JSON text.
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

// replaceControl replaces control and bidirectional characters with visible ones, so
// that one text cannot be displayed as another.
func replaceControl(r rune) rune {
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

// asJSON encodes a value as JSON.
func asJSON(v any) json.RawMessage {
	raw, _ := json.Marshal(v) // what was read as JSON is JSON
	return raw
}

// pageQuery is the query of the current page with another cursor for a list.
func pageQuery(q url.Values, at, cursor string) string {
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
