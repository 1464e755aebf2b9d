package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

// tasksPage is a page of tasks with its filters, and what can be done to all that match.
type tasksPage struct {
	pawl.List[pawl.Task]
	Filter url.Values   // of the address, without the page
	Verbs  []selectVerb // that the caller may use on all that match; none without a filter
}

// tasks lists tasks. Its filters are parameters of the address.
func (d *server) tasks(v *request) (any, error) {
	switch id := v.word("id"); {
	case strings.HasPrefix(id, "itm_"):
		return redirect("/ui/items/" + escape(id)), nil
	case strings.HasPrefix(id, "msg_"):
		return redirect("/ui/messages/" + escape(id)), nil
	}
	filter, err := taskFilter(v.URL.Query())
	if err != nil {
		return nil, err
	}
	names := map[string]string{"from": "since", "to": "until"}
	for _, name := range taskFilters {
		names[name] = cmp.Or(names[name], name)
	}
	v.showsList("/v1/tasks", "task", names)
	f := filter.Tasks()
	if err := v.sorted(&f); err != nil {
		return nil, err
	}
	f.Page = v.pageOf("cursor", manyRows)
	list, err := d.svc.ListTasks(v.Context(), f)
	p := &tasksPage{List: list, Filter: filterQuery(v.URL.Query())}
	if !filter.IsEmpty() {
		p.Verbs = v.bulkVerbs()
	}
	return p, err
}

// taskFilters are the parameters of the address that select tasks.
var taskFilters = []string{"q", "id", "type", "state", "title", "metadata", "error", "failure", "from", "to"}

// taskSorts are the orders of the list by their names in the address: those of the command and of the API. The first is
// the default.
var taskSorts = []taskSort{
	{"newest", "", "", func(*pawl.TaskFilter) {}},
	{"oldest", "--asc", "created_at", func(f *pawl.TaskFilter) { f.Asc = true }},
	{"last changed", "--by-update", "-updated_at", func(f *pawl.TaskFilter) { f.ByUpdate = true }},
	{"longest unchanged", "--by-update --asc", "updated_at", func(f *pawl.TaskFilter) { f.ByUpdate, f.Asc = true, true }},
	{"priority", "--by-priority", "-priority", func(f *pawl.TaskFilter) { f.ByPriority = true }},
}

type taskSort struct {
	Name, flags, query string
	apply              func(*pawl.TaskFilter)
}

// sorted has a list of tasks in the order that the address asks for, and says which command and path do so.
func (v *request) sorted(f *pawl.TaskFilter) error {
	name := v.word("sort")
	if name == "" {
		return nil
	}
	i := slices.IndexFunc(taskSorts, func(s taskSort) bool { return s.Name == name })
	if i < 0 {
		return pawl.Invalid("/sort", "is none of those on the page")
	}
	s := taskSorts[i]
	s.apply(f)
	query := ""
	if s.query != "" {
		query = "sort=" + s.query
	}
	v.also(strings.Fields(s.flags), query)
	return nil
}

// also adds flags to the commands that a page shows, and a parameter to its path.
func (v *request) also(flags []string, query string) {
	for c := range v.commands {
		v.commands[c].words = append(v.commands[c].words, flags...)
	}
	if query == "" {
		return
	}
	sign := "?"
	if strings.Contains(v.path, "?") {
		sign = "&"
	}
	v.path += sign + query
}

// day is the first moment of the day in UTC, or the moment, that a field of a form has. With after it is that of the next day.
func day(name, text string, after int) (time.Time, error) {
	if at, err := time.Parse(time.DateOnly, text); err == nil {
		return at.AddDate(0, 0, after), nil
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return at, pawl.Invalid("/"+name, "must be a day such as 2026-11-22, or a time such as 2026-11-22T09:00:00Z")
	}
	return at, nil
}

// filterQuery is the part of a query that selects tasks.
func filterQuery(q url.Values) url.Values {
	out := url.Values{}
	for _, name := range taskFilters {
		for _, value := range q[name] {
			if strings.TrimSpace(value) != "" {
				out.Add(name, strings.TrimSpace(value))
			}
		}
	}
	return out
}

// taskFilter is the filter in a query.
func taskFilter(q url.Values) (f pawl.BulkFilter, err error) {
	q = filterQuery(q)
	f.ID, f.Type, f.State = q["id"], q["type"], q["state"]
	f.Search, f.TitlePrefix, f.Error, f.Failure = q.Get("q"), q.Get("title"), q.Get("error"), q.Get("failure")
	if text := q.Get("from"); text != "" {
		if f.Since, err = day("from", text, 0); err != nil {
			return f, err
		}
	}
	if text := q.Get("to"); text != "" { // that day too
		if f.Until, err = day("to", text, 1); err != nil {
			return f, err
		}
	}
	for _, s := range f.State {
		if !slices.ContainsFunc(pawl.TaskStates, func(known pawl.StateInfo) bool { return known.Shown && known.Name == s }) {
			return f, pawl.Invalid("/state", "is no state of a task")
		}
	}
	for _, m := range q["metadata"] {
		name, value, both := strings.Cut(m, "=")
		if !both || strings.TrimSpace(name) == "" {
			return f, pawl.Invalid("/metadata", "must be key=value")
		}
		if f.Metadata == nil {
			f.Metadata = pawl.MemberValues{}
		}
		f.Metadata[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return f, nil
}

// bulkVerbs are what operators can do to all tasks that a filter selects.
func (v *request) bulkVerbs() []selectVerb {
	if v.pass.May("operator", false) != nil {
		return nil
	}
	return []selectVerb{
		{Verb: pawl.BulkRetry, Means: "Their failed and dead-lettered items are queued again and the failures reset."},
		{Verb: pawl.BulkCancel, Means: "Those that have not ended are cancelled permanently, with their children that have not ended."},
		{Verb: pawl.BulkBury, Means: "Their failed items become dead letters."},
		{Verb: setPriority, Means: "Their priority changes, and with it that of all items that had the task's priority."},
		{Verb: pawl.BulkDelete, Means: "Those that have ended are deleted with all their data. This cannot be undone."},
	}
}

// bulkPage asks whether a verb is meant for all tasks that a filter selects.
type bulkPage struct {
	selectVerb
	Count  int64
	Filter url.Values
	Back   string
	Force  bool      // tasks are deleted that have not ended
	Until  time.Time // those created before it were counted
}

// Words are the filter for people, one text for each condition.
func (b *bulkPage) Words() (out []string) {
	for _, name := range slices.Sorted(maps.Keys(b.Filter)) {
		out = append(out, name+" "+strings.Join(b.Filter[name], " or "))
	}
	return out
}

// bulkCall is the call of a form.
func (v *request) bulkCall(form url.Values) (*bulkPage, pawl.BulkCall, error) {
	verbs := v.bulkVerbs()
	if err := v.pass.May("operator", false); err != nil {
		return nil, pawl.BulkCall{}, err
	}
	i := slices.IndexFunc(verbs, func(s selectVerb) bool { return s.Verb == form.Get("verb") })
	if i < 0 {
		return nil, pawl.BulkCall{}, pawl.Invalid("/verb", "is none of those on the page")
	}
	filter, err := taskFilter(form)
	if err != nil {
		return nil, pawl.BulkCall{}, err
	}
	if text := form.Get("until"); text != "" && !filter.IsEmpty() { // a filter of nothing else is refused
		until, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return nil, pawl.BulkCall{}, pawl.Invalid("/until", "is no time")
		}
		if filter.Until.IsZero() || until.Before(filter.Until) {
			filter.Until = until
		}
	}
	p := &bulkPage{selectVerb: verbs[i], Filter: filterQuery(form), Until: filter.Until}
	p.Back = "/ui/tasks?" + p.Filter.Encode()
	c := pawl.BulkCall{Verb: p.Verb, Filter: filter, Reason: strings.TrimSpace(form.Get("reason"))}
	if p.Force = p.Verb == pawl.BulkDelete && form.Get("force") != ""; p.Force {
		c.Force = true
		p.Means = "They are deleted with all their data, also those that have not ended, with their children that have not ended. " +
			"This cannot be undone."
	}
	if p.Verb == setPriority {
		priority, err := strconv.Atoi(strings.TrimSpace(form.Get("priority")))
		if err != nil && (form.Get("priority") != "" || v.Method == http.MethodPost) {
			return nil, c, pawl.Invalid("/priority", "is not a number")
		}
		c.Verb, c.Update = pawl.BulkUpdate, &pawl.BulkPatch{Priority: &priority}
	}
	return p, c, nil
}

// confirmBulk counts the tasks first.
func (d *server) confirmBulk(v *request) (any, error) {
	form := v.URL.Query()
	now, err := d.now(v.Context())
	if err != nil {
		return nil, err
	}
	form.Set("until", now.Add(time.Microsecond).Format(time.RFC3339Nano))
	p, c, err := v.bulkCall(form)
	if err != nil {
		return nil, err
	}
	p.Count, err = d.svc.CountBulk(v.Context(), c)
	return p, err
}

// now is the time of the database, if the service has it: tasks are created by that.
func (d *server) now(ctx context.Context) (time.Time, error) {
	if e, ok := d.svc.(interface {
		Now(context.Context) (time.Time, error)
	}); ok {
		return e.Now(ctx)
	}
	return clock.Now(), nil
}

// performBulk begins the bulk call and goes to its task, whose page shows how far it is.
func (d *server) performBulk(v *request) (any, error) {
	_, c, err := v.bulkCall(v.PostForm)
	if err != nil {
		return nil, err
	}
	t, err := d.svc.Bulk(v.Context(), c)
	if err != nil {
		return nil, err
	}
	return redirect("/ui/tasks/" + escape(t.ID)), nil
}

// Bulk is what a bulk call has done so far; nil for other tasks.
func (s *taskPage) Bulk() *pawl.BulkResult {
	if s.Type != pawl.TypeBulk {
		return nil
	}
	var done pawl.BulkResult
	raw := s.Metadata
	if s.Result != nil {
		raw = s.Result.Payload
	}
	_ = json.Unmarshal(raw, &done) // hidden payloads count nothing
	return &done
}
