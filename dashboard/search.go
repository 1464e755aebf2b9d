package dashboard

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

// The bounds of a search for words, which reads the newest work: rows of tasks and of items, and time.
const (
	maxSearched = 1000
	searchTime  = time.Second
)

// searchPage is what was found for words: tasks by ids, types and titles, and newer work by the words in its titles, keys,
// metadata and payloads.
type searchPage struct {
	Query  string
	Tasks  section[pawl.Task]
	Found  []found
	Looked int    // tasks and items whose words were looked at
	Next   string // where the words of older tasks and items begin; "" = none are left
	Hidden bool   // payloads were not looked at
}

// found is a task or an item with words that were searched.
type found struct {
	ref
	Item  bool
	Type  string
	State string
	Where string // title, key, metadata, payload or input
	Part  string // of the payload, around the words
	At    time.Time
}

// pagesOfIDs are the pages of what an id names.
var pagesOfIDs = map[string]string{"tsk_": "/ui/tasks/", "itm_": "/ui/items/", "msg_": "/ui/messages/", "eff_": "/ui/effects/"}

// idLength is that of all ids: a prefix and a ULID.
const idLength = 4 + 26

// search finds work by words. A whole id leads to its page.
func (d *server) search(v *request) (any, error) {
	p := &searchPage{Query: cut(200, v.word("q")), Hidden: !v.pass.Payloads()}
	if p.Query == "" {
		return p, nil
	}
	if len(p.Query) == idLength {
		if page := pagesOfIDs[strings.ToLower(p.Query[:4])]; page != "" {
			return redirect(page + escape(strings.ToLower(p.Query[:4])+strings.ToUpper(p.Query[4:]))), nil
		}
	}
	if v.word("tasks") == "" { // the first page
		p.Tasks = sectionOf(d.svc.ListTasks(v.Context(), pawl.TaskFilter{Search: p.Query, Fields: foundFields, Page: v.pageOf("", mediumRows)}))
	}
	v.shows("", pawlCommand("task", "list", "--search="+p.Query))
	return p, d.searchWords(v, p)
}

// foundFields are the members of tasks that a search shows.
var foundFields = []string{"id", "title", "type", "state", "status", "created_at", "items", "items_open", "priority", "blocked_by", "error"}

// searchWords looks for words in tasks, and in items, the newest first, until enough are found.
func (d *server) searchWords(v *request, p *searchPage) error {
	words, began := newWords(p.Query), clock.Now()
	fields, input := append(slices.Clone(foundFields), "metadata"), []string{"id", "task_id", "key", "type", "state", "created_at"}
	if !p.Hidden {
		fields, input = append(fields, "payload"), append(input, "input")
	}
	tasks, items, _ := strings.Cut(v.param("tasks"), ",")
	atTasks, atItems := pawl.Page{Limit: mediumRows, Cursor: tasks}, pawl.Page{Limit: mediumRows, Cursor: items}
	for moreTasks, moreItems := tasks != "end", items != "end"; ; {
		if moreTasks {
			l, err := d.svc.ListTasks(v.Context(), pawl.TaskFilter{Fields: fields, Page: atTasks})
			if err != nil {
				return err
			}
			p.addTasks(l.Items, words)
			atTasks.Cursor, moreTasks = l.Next, l.Next != ""
		}
		if moreItems {
			l, err := d.svc.ListItems(v.Context(), pawl.ItemFilter{Desc: true, Fields: input, Page: atItems})
			if err != nil {
				return err
			}
			p.addItems(l.Items, words)
			atItems.Cursor, moreItems = l.Next, l.Next != ""
		}
		if !moreTasks && !moreItems {
			break
		}
		if len(p.Found) >= mediumRows || p.Looked >= maxSearched || clock.Now().Sub(began) >= searchTime {
			p.Next = cmp.Or(atTasks.Cursor, "end") + "," + cmp.Or(atItems.Cursor, "end")
			break
		}
	}
	names := d.itemsNamed(v.Context(), distinct(p.Found, func(f found) string {
		if f.Item {
			return f.ID
		}
		return ""
	}))
	for i, f := range p.Found {
		if f.Item {
			p.Found[i].Name = names[f.ID]
		}
	}
	return nil
}

// addTasks adds the tasks that have the words, unless they are found by their beginnings.
func (p *searchPage) addTasks(tasks []pawl.Task, w words) {
	p.Looked += len(tasks)
	for _, t := range tasks {
		if slices.ContainsFunc(p.Tasks.Items, func(known pawl.Task) bool { return known.ID == t.ID }) {
			continue
		}
		f := found{ref: ref{t.ID, titleOf(t)}, Type: t.Type, State: string(t.State), At: t.CreatedAt}
		switch {
		case w.in([]byte(t.Title)):
			f.Where = "title"
		case w.in(t.Metadata):
			f.Where, f.Part = "metadata", w.around(t.Metadata)
		case w.in(t.Payload):
			f.Where, f.Part = "payload", w.around(t.Payload)
		default:
			continue
		}
		p.Found = append(p.Found, f)
	}
}

// addItems adds the items that have the words, unless their task has them.
func (p *searchPage) addItems(items []pawl.Item, w words) {
	p.Looked += len(items)
	for _, it := range items {
		if slices.ContainsFunc(p.Found, func(known found) bool { return known.ID == it.TaskID }) {
			continue
		}
		f := found{ref: ref{ID: it.ID}, Item: true, Type: it.Type, State: string(it.State), At: it.CreatedAt}
		switch {
		case w.in([]byte(it.Key)):
			f.Where = "key"
		case w.in(it.Input):
			f.Where, f.Part = "input", w.around(it.Input)
		default:
			continue
		}
		p.Found = append(p.Found, f)
	}
}

// words are what is searched, in lower case: as they are, and as they stand in a JSON text.
type words [2][]byte

func newWords(text string) words {
	text = strings.ToLower(text)
	raw, _ := json.Marshal(text) // of a text
	return words{[]byte(text), raw[1 : len(raw)-1]}
}

// in reports whether a text has the words, in any case.
func (w words) in(text []byte) bool {
	text = bytes.ToLower(text)
	return bytes.Contains(text, w[0]) || bytes.Contains(text, w[1])
}

// shownAround is how much of a payload is shown on each side of the words that were found.
const shownAround = 60

// around is the part of a text around the words.
func (w words) around(text []byte) string {
	lower := bytes.ToLower(text)
	at := max(bytes.Index(lower, w[0]), bytes.Index(lower, w[1]))
	if at < 0 || len(lower) != len(text) { // a letter whose small one has another length
		at = 0
	}
	from, to := max(0, at-shownAround), min(len(text), at+len(w[1])+shownAround)
	part := strings.ToValidUTF8(string(text[from:to]), "")
	if from > 0 {
		part = "…" + part
	}
	if to < len(text) {
		part += "…"
	}
	return part
}
