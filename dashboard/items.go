package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// itemsPage is a page of items with its filters.
type itemsPage struct {
	itemTable
	Next       string
	Incomplete bool
	Verbs      []selectVerb // that the caller may use on the chosen items
}

// itemFilters are the parameters of the page that select items, and those of the API.
var itemFilters = map[string]string{"task": "task", "type": "type", "worker": "worker_id", "state": "state", "status": "status",
	"q": "q", "error": "error", "failure": "failure"}

// items lists items. Its filters are parameters of the address.
func (d *server) items(v *request) (any, error) {
	f := pawl.ItemFilter{TaskID: v.word("task"), Types: v.words("type"), WorkerID: v.word("worker"), Desc: true,
		Search: v.word("q"), Error: v.word("error"), Failure: v.word("failure"), Page: v.pageOf("cursor", manyRows)}
	for _, s := range v.words("state") {
		f.States = append(f.States, pawl.ItemState(s))
	}
	for _, s := range v.words("status") {
		f.Statuses = append(f.Statuses, pawl.Status(s))
	}
	v.showsList("/v1/items", "item", itemFilters)
	list, err := d.svc.ListItems(v.Context(), f)
	return &itemsPage{d.tableOf(v.Context(), list.Items), list.Next, list.Incomplete, v.selectVerbs()}, err
}

// showsList says which command and path list the same. names are the filters of the page with
// the parameters of the path; the flags of the command have the names of the page.
func (v *request) showsList(path, noun string, names map[string]string) {
	words, query := []string{noun, "list"}, url.Values{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		for _, value := range v.words(name) {
			words = append(words, "--"+cmp.Or(flagNames[name], name)+"="+flagValue(name, value))
			if key, of, member := strings.Cut(value, "="); member && name == "metadata" {
				query.Add("metadata["+strings.TrimSpace(key)+"]", strings.TrimSpace(of))
			} else {
				query.Add(names[name], flagValue(name, value))
			}
		}
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	v.shows(path, pawlCommand(words...))
}

// flagNames are the flags of commands whose names differ from those of the parameters of pages.
var flagNames = map[string]string{"q": "search", "from": "since", "to": "until"}

// flagValue is the value of a flag: for the parameters that are days, the moment.
func flagValue(name, value string) string {
	after, is := map[string]int{"from": 0, "to": 1}[name]
	if at, err := day(name, value, after); is && err == nil {
		return at.Format(time.RFC3339)
	}
	return value
}

// word is a parameter of the address without spaces around it.
func (v *request) word(name string) string { return strings.TrimSpace(v.param(name)) }

// words are the values of a parameter that are not empty.
func (v *request) words(name string) (out []string) {
	for _, w := range v.URL.Query()[name] {
		if w = strings.TrimSpace(w); w != "" {
			out = append(out, w)
		}
	}
	return out
}

// selectVerb is what can be done to chosen items at once.
type selectVerb struct {
	Verb, Role, Means string
	do                func(ctx context.Context, s Service, calls []pawl.TaskCall, priority int) ([]pawl.Result[pawl.Task], error)
}

// Label is the verb with spaces.
func (s selectVerb) Label() string { return strings.ReplaceAll(s.Verb, "_", " ") }

const setPriority = "set_priority"

var selectVerbs = []selectVerb{
	{"retry", "operator", "They are queued again and their failures reset.",
		func(ctx context.Context, s Service, calls []pawl.TaskCall, _ int) ([]pawl.Result[pawl.Task], error) {
			return s.RetryTasks(ctx, calls)
		}},
	{"cancel", "submitter", "They are cancelled permanently. Their workers are told. " +
		"The children of a task that is cancelled so are cancelled too.",
		func(ctx context.Context, s Service, calls []pawl.TaskCall, _ int) ([]pawl.Result[pawl.Task], error) {
			return s.CancelTasks(ctx, calls)
		}},
	{"bury", "operator", "They become dead letters.",
		func(ctx context.Context, s Service, calls []pawl.TaskCall, _ int) ([]pawl.Result[pawl.Task], error) {
			return s.BuryTasks(ctx, calls)
		}},
	{setPriority, "submitter", "The priority of their tasks changes, and with it that of all items that had the task's priority.",
		func(ctx context.Context, s Service, calls []pawl.TaskCall, priority int) ([]pawl.Result[pawl.Task], error) {
			updates := make([]pawl.TaskUpdate, len(calls))
			for i, c := range calls {
				updates[i] = pawl.TaskUpdate{TaskID: c.TaskID, Priority: &priority}
			}
			return s.UpdateTasks(ctx, updates)
		}},
}

func (v *request) selectVerbs() []selectVerb {
	return slices.DeleteFunc(slices.Clone(selectVerbs), func(s selectVerb) bool { return v.pass.May(s.Role, false) != nil })
}

// selection is the items that were chosen, for the confirmation and for what became of them.
type selection struct {
	selectVerb
	Items   []pawl.Item // that the verb applies to
	Skipped []pawl.Item // in a state that does not allow it
	Names   names       // of items and their tasks
	Missing []string    // that the namespace does not have
	Tasks   int         // of Items
	Back    string      // the list that they were chosen from
	Done    bool
	Changed int
	Refused []selectRefusal
}

// selectRefusal says why nothing was done to some items.
type selectRefusal struct {
	TaskID string
	Items  int
	*api.Problem
}

// readSelection reads the verb and the items of a form.
func (d *server) readSelection(ctx context.Context, form url.Values) (*selection, error) {
	i := slices.IndexFunc(selectVerbs, func(s selectVerb) bool { return s.Verb == form.Get("verb") })
	if i < 0 {
		return nil, pawl.Invalid("/verb", "is none of those on the page")
	}
	s := &selection{selectVerb: selectVerbs[i], Back: "/ui/items"}
	if q, err := url.ParseQuery(form.Get("back")); err == nil && len(q) > 0 {
		s.Back += "?" + q.Encode()
	}
	ids := slices.Compact(slices.Sorted(slices.Values(form["item"])))
	switch {
	case len(ids) == 0:
		return nil, pawl.Invalid("/item", "no item is chosen: go back and mark some")
	case len(ids) > manyRows:
		return nil, pawl.Invalid("/item", "at most %d items are chosen at once", manyRows)
	}
	fields := []string{"id", "task_id", "type", "state", "status", "key", "error"}
	list, err := d.svc.ListItems(ctx, pawl.ItemFilter{IDs: ids, Fields: fields, Page: pawl.Page{Limit: len(ids)}})
	if err != nil {
		return nil, err
	}
	tasks := map[string]bool{}
	s.Names = d.tableOf(ctx, list.Items).Names
	for _, it := range list.Items {
		ids = slices.DeleteFunc(ids, func(id string) bool { return id == it.ID })
		if s.Verb == setPriority && !it.State.Ended() || slices.Contains(it.State.Allowed(), s.Verb) {
			s.Items, tasks[it.TaskID] = append(s.Items, it), true
		} else {
			s.Skipped = append(s.Skipped, it)
		}
	}
	s.Missing, s.Tasks = ids, len(tasks)
	return s, nil
}

// confirmSelection shows what a verb would do to the chosen items.
func (d *server) confirmSelection(v *request) (any, error) {
	s, err := d.readSelection(v.Context(), v.URL.Query())
	if err == nil {
		err = v.pass.May(s.Role, false)
	}
	return s, err
}

// performSelection does it, and shows what became of it.
func (d *server) performSelection(v *request) (any, error) {
	s, err := d.readSelection(v.Context(), v.PostForm)
	if err != nil {
		return nil, err
	}
	if err := v.pass.May(s.Role, false); err != nil {
		return nil, err
	}
	priority := 0
	if s.Verb == setPriority {
		if priority, err = strconv.Atoi(strings.TrimSpace(v.PostForm.Get("priority"))); err != nil {
			return nil, pawl.Invalid("/priority", "is not a number")
		}
	}
	byTask := map[string][]string{}
	for _, it := range s.Items {
		byTask[it.TaskID] = append(byTask[it.TaskID], it.ID)
	}
	var calls []pawl.TaskCall
	for _, id := range slices.Sorted(maps.Keys(byTask)) {
		calls = append(calls, pawl.TaskCall{TaskID: id, ItemIDs: byTask[id], Reason: strings.TrimSpace(v.PostForm.Get("reason"))})
	}
	if s.Done = true; len(calls) == 0 {
		return s, nil
	}
	for part := range slices.Chunk(calls, answeredAtOnce) {
		var rs []pawl.Result[pawl.Task]
		if err == nil { // after an error of a part as a whole, it is that of the parts behind it too
			rs, err = s.do(v.Context(), d.svc, part, priority)
		}
		if err != nil && s.Changed+len(s.Refused) == 0 {
			return nil, err
		}
		for i, c := range part {
			refused := err
			if err == nil {
				refused = rs[i].Err
			}
			if refused == nil {
				s.Changed += len(c.ItemIDs)
				continue
			}
			p := api.ProblemOf(refused, "")
			s.Refused = append(s.Refused, selectRefusal{c.TaskID, len(c.ItemIDs), &p})
		}
	}
	return s, nil
}

// answeredAtOnce is of how many tasks the answer to one batch has room, however large they are.
const answeredAtOnce = pawl.MaxAnswerBytes / (pawl.MaxPayloadBytes + pawl.MaxMetadataBytes + pawl.MaxErrorBytes)

// post returns the handler of a form whose answer is a page.
func (d *server) post(page string, act func(*request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			d.showError(w, r, &pawl.Error{Code: pawl.CodeTooLarge, Message: fmt.Sprintf("the form is malformed or over %d bytes", maxForm)})
			return
		}
		d.page(w, r, page, act)
	}
}
