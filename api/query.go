package api

import (
	"fmt"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
)

// These types are the query strings of lists. Each is a filter of package pawl as parameters,
// and Values writes it. Times are RFC 3339. A list is separated by commas, or its parameter is
// given several times.
type (
	// Paging asks for one page.
	Paging struct {
		Limit  int    `query:"limit" doc:"Rows of the page; 100 without it, at most 1000. A page with 8 MiB of values ends early, with a cursor."`
		Cursor string `query:"cursor" doc:"The next of the page before."`
	}
	// Span limits a list to a range of creation times.
	Span struct {
		Since time.Time `query:"since" doc:"Created at or after."`
		Until time.Time `query:"until" doc:"Created before."`
	}
	// OfTask limits a list to a task.
	OfTask struct {
		Task   string `query:"task" id:"task" doc:"Of this task."`
		TaskID string `query:"task_id" doc:"The same as task."`
	}
	// OfItem limits a list to an item.
	OfItem struct {
		Item   string `query:"item" id:"item" doc:"Of this item."`
		ItemID string `query:"item_id" doc:"The same as item."`
	}
	// TaskQuery is a pawl.TaskFilter as a query.
	TaskQuery struct {
		ID           []string          `query:"id" id:"task" doc:"These tasks."`
		Type         []string          `query:"type" doc:"Of any of these types."`
		State        []pawl.TaskState  `query:"state" doc:"In any of these states."`
		Status       TaskStatuses      `query:"status" doc:"Of any of these statuses."`
		MinPriority  int               `query:"min_priority" default:"-32768" doc:"Of this priority or higher."`
		MaxPriority  int               `query:"max_priority" default:"32767" doc:"Of this priority or lower."`
		Search       string            `query:"q" doc:"The beginning of an id of the task, of one of its items or messages, or else of its type or title, in any case."`
		Title        string            `query:"title" doc:"With a title that begins so, in any case."`
		Error        string            `query:"error" doc:"With this text in the code or message of the last error of an item that has not ended, in any case."`
		Failure      string            `query:"failure" doc:"With items of this group of failures."`
		Metadata     map[string]string `query:"metadata,deepObject" doc:"metadata[repo]=x: with this member in its metadata, a text or the JSON of a number, true or false."`
		UpdatedSince time.Time         `query:"updated_since" doc:"With updated_at at or after this time."`
		RequestedBy  string            `query:"requested_by" doc:"Requested by who has this id."`
		InputHash    string            `query:"input_hash" doc:"With this input hash."`
		ParentID     []string          `query:"parent_id" id:"task" doc:"The children of any of these tasks."`
		Available    string            `query:"has_available_items" enum:"true,false" doc:"true: with items that could be claimed now; false: with none."`
		Order        string            `query:"order" enum:"asc,desc" doc:"asc: oldest first; newest first without it."`
		Sort         string            `query:"sort" enum:"created_at,-created_at,updated_at,-updated_at,priority,-priority" doc:"In place of order; - is descending. -priority: highest first, newest first among equals. updated_at: by the time of the last change, then by id."`
		Span
		Paging
	}
	// TaskShape selects the members of a task, and what to include.
	TaskShape struct {
		Fields  TaskFields     `query:"fields" doc:"These members only, and id."`
		Include IncludedFields `query:"include" doc:"What belongs to the task, in its member included: its first 100 items, the first 100 live parts of these, its newest 100 events and checkpoints, its first 100 provenances, its result or null."`
	}
	// EndQuery waits for the end of a task.
	EndQuery struct {
		Wait int `query:"wait_seconds" minimum:"0" maximum:"60" doc:"Answer when the task has ended or failed, at the latest after this time; 0 or absent: at once."`
	}
	// ItemShape selects the members of an item, and what to include.
	ItemShape struct {
		Fields  ItemFields         `query:"fields" doc:"These members only, and id."`
		Include ItemIncludedFields `query:"include" doc:"What belongs to the item, in its member included: its first 100 live parts, messages and provenances, its newest 100 events and checkpoints."`
	}
	// ItemQuery is a pawl.ItemFilter without its task.
	ItemQuery struct {
		ID       []string         `query:"id" id:"item" doc:"These items."`
		Type     []string         `query:"type" doc:"Of any of these types."`
		State    []pawl.ItemState `query:"state" doc:"In any of these states."`
		Status   []pawl.Status    `query:"status" doc:"Of any of these statuses; expired: a lease has run out and is not swept yet."`
		WorkerID string           `query:"worker_id" doc:"Held by this worker, or last held."`
		Search   string           `query:"q" doc:"The beginning of an id of the item, its task or one of its messages, or else of its type, in any case."`
		Error    string           `query:"error" doc:"With this text in the code or message of its last error, in any case, if it has not ended."`
		Failure  string           `query:"failure" doc:"Of this group of failures."`
		Order    string           `query:"order" enum:"asc,desc" doc:"desc: newest first; oldest first without it."`
		Paging
	}
	// ItemsQuery is a pawl.ItemFilter as a query.
	ItemsQuery struct {
		OfTask
		ItemQuery
	}
	// EffectQuery is a pawl.EffectFilter as a query.
	EffectQuery struct {
		OfTask
		OfItem
		State []pawl.EffectState `query:"state" doc:"In any of these states: unknown, waiting, open, done, failed."`
		Name  string             `query:"name" doc:"Of this name."`
		Key   string             `query:"key" doc:"With this key; those that stand for its effect in forks and clones are found with item or task."`
		Paging
	}
	// EventQuery is a pawl.EventFilter without its task and item.
	EventQuery struct {
		After string   `query:"after" pattern:"^(-1|([0-9]{1,9}-)?[0-9]{1,18})$" doc:"Feed order: those with a position above this one, EPOCH-POSITION, oldest first; digits alone are of epoch 0; 0 = all, -1 = those to come."`
		Type  []string `query:"type" doc:"Of tasks of any of these types."`
		Event string   `query:"event" doc:"Of this name."`
		Order string   `query:"order" enum:"asc,desc" doc:"asc: oldest first; newest first without it."`
		Span
		Paging
	}
	// EventsQuery is a pawl.EventFilter as a query.
	EventsQuery struct {
		OfTask
		OfItem
		EventQuery
	}
	// WorkerQuery is a pawl.WorkerFilter as a query.
	WorkerQuery struct {
		SeenSince time.Time `query:"seen_since" doc:"Seen at or after."`
		Paging
	}
	// SeriesQuery is a pawl.SeriesQuery as a query.
	SeriesQuery struct {
		Type  []string  `query:"type" doc:"Of any of these types."`
		Since time.Time `query:"since" doc:"From the minute of this time on; an hour before until without it."`
		Until time.Time `query:"until" doc:"Before this time; now without it."`
		Step  int       `query:"step" minimum:"0" maximum:"31622400" doc:"Seconds of a point, a multiple of 60; without it such that there are at most 120 points."`
	}
	// KeyQuery is a pawl.KeyFilter as a query.
	KeyQuery struct {
		Status KeyStatus `query:"status" doc:"Of this status."`
		OfTask
		OfItem
		Paging
	}
	// TypeQuery is a pawl.TypeFilter as a query.
	TypeQuery struct {
		Name     []string `query:"name" doc:"Of any of these names."`
		Versions bool     `query:"versions" doc:"true: every version, newest first within a name."`
		Removed  bool     `query:"removed" doc:"true: removed ones too."`
		Paging
	}
	// TypeVersion asks for a version of the type in the path.
	TypeVersion struct {
		Version int `query:"version" minimum:"0" doc:"Its number; 0 or absent: the current one."`
	}
	// SpendingQuery is a pawl.BudgetSpendingFilter as a query.
	SpendingQuery struct {
		By     string `query:"by" default:"task" enum:"task,model,agent,type,key,day" doc:"What the spending is grouped by. day: newest first; the others: those with the most."`
		Period string `query:"period" pattern:"^(current|all|-[1-9][0-9]{0,5})$" doc:"current: what was spent in the current period, also without it. all: in all periods. -1: in the last one before it that had a reservation, -2: in the one before that."`
		Limit  int    `query:"limit" doc:"Groups in the answer, those with the most; 100 without it, at most 1000."`
	}
	// KeyScope names the scope of the key in the path.
	KeyScope struct {
		Scope string `query:"scope" doc:"The key's scope."`
	}
	// ResultQuery is the query of a read of a task's result.
	ResultQuery struct {
		Partial bool `query:"partial" doc:"true: of a failed, dead-lettered or cancelled task too, the results of its items that completed."`
	}
	// ResumeQuery asks for a page of a resume state.
	ResumeQuery struct {
		Cursor string `query:"cursor" doc:"The next of the page before. A page with 8 MiB of values ends early, with a next."`
	}
	// DeleteQuery is the query of a task's deletion.
	DeleteQuery struct {
		Force  bool   `query:"force" doc:"true: even when it has not ended."`
		Reason string `query:"reason" doc:"Why, for the record."`
	}
)

// These are the types of parameters with a fixed list of values. The list is a table of
// package pawl, or the names of the JSON members of a type.
type (
	TaskFields     []string // members of pawl.Task
	ItemFields     []string // members of pawl.Item
	IncludedFields []string // members of Included

	ItemIncludedFields []string      // members of ItemIncluded
	TaskStatuses       []pawl.Status // of pawl.TaskStatuses
	KeyStatus          string        // of pawl.KeyStatuses
)

// Page returns the page that the query asks for.
func (p Paging) Page() pawl.Page { return pawl.Page{Limit: p.Limit, Cursor: p.Cursor} }

// Of returns the task, or "". Both names with different tasks are invalid.
func (t OfTask) Of() (string, error) { return either("/task_id", t.Task, t.TaskID) }

// Of returns the item, or "". Both names with different items are invalid.
func (i OfItem) Of() (string, error) { return either("/item_id", i.Item, i.ItemID) }

func either(pointer, a, b string) (string, error) {
	switch {
	case a == "" || a == b:
		return b, nil
	case b == "":
		return a, nil
	}
	return "", pawl.Invalid(pointer, "is given twice, differently")
}

// Filter returns the filter that the query asks for. Order together with Sort is invalid.
func (q TaskQuery) Filter() (pawl.TaskFilter, error) {
	f := pawl.TaskFilter{
		Changed:     q.UpdatedSince,
		RequestedBy: q.RequestedBy,
		InputHash:   q.InputHash,
		ParentIDs:   q.ParentID,
		IDs:         q.ID,
		Types:       q.Type,
		States:      q.State,
		Statuses:    q.Status,
		Metadata:    q.Metadata,
		Search:      q.Search,
		TitlePrefix: q.Title,
		Error:       q.Error,
		Failure:     q.Failure,
		Since:       q.Since,
		Until:       q.Until,
		Asc:         q.Order == "asc",
		Page:        q.Page(),
	}
	if q.Sort != "" {
		if q.Order != "" {
			return f, pawl.Invalid("/order", "does not go with sort")
		}
		f.ByPriority, f.ByUpdate, f.Asc = strings.HasSuffix(q.Sort, "priority"), strings.HasSuffix(q.Sort, "updated_at"), q.Sort[0] != '-'
	}
	if q.Available != "" {
		is := q.Available == "true"
		f.Available = &is
	}
	if q.MinPriority != pawl.MinPriority {
		f.MinPriority = &q.MinPriority
	}
	if q.MaxPriority != pawl.MaxPriority {
		f.MaxPriority = &q.MaxPriority
	}
	return f, nil
}

// TaskQueryOf returns a filter as a query.
func TaskQueryOf(f pawl.TaskFilter) TaskQuery {
	q := TaskQuery{
		UpdatedSince: f.Changed,
		RequestedBy:  f.RequestedBy,
		InputHash:    f.InputHash,
		ParentID:     f.ParentIDs,
		ID:           f.IDs,
		Type:         f.Types,
		State:        f.States,
		Status:       f.Statuses,
		MinPriority:  pawl.MinPriority,
		MaxPriority:  pawl.MaxPriority,
		Metadata:     f.Metadata,
		Search:       f.Search,
		Title:        f.TitlePrefix,
		Error:        f.Error,
		Failure:      f.Failure,
		Span:         Span{f.Since, f.Until},
		Paging:       PagingOf(f.Page),
	}
	var by []string // two are refused when the query is read
	if f.ByPriority {
		by = append(by, "priority")
	}
	if f.ByUpdate {
		by = append(by, "updated_at")
	}
	switch q.Sort = strings.Join(by, ","); {
	case f.Asc && q.Sort == "":
		q.Order = "asc"
	case !f.Asc && q.Sort != "":
		q.Sort = "-" + q.Sort
	}
	if f.Available != nil {
		q.Available = strconv.FormatBool(*f.Available)
	}
	if f.MinPriority != nil {
		q.MinPriority = *f.MinPriority
	}
	if f.MaxPriority != nil {
		q.MaxPriority = *f.MaxPriority
	}
	return q
}

// Filter returns the filter that the query asks for, limited to a task if one is given.
func (q ItemQuery) Filter(task string) pawl.ItemFilter {
	return pawl.ItemFilter{
		IDs:      q.ID,
		TaskID:   task,
		Types:    q.Type,
		States:   q.State,
		Statuses: q.Status,
		WorkerID: q.WorkerID,
		Search:   q.Search,
		Error:    q.Error,
		Failure:  q.Failure,
		Desc:     q.Order == "desc",
		Page:     q.Page(),
	}
}

// ItemsQueryOf returns a filter as a query.
func ItemsQueryOf(f pawl.ItemFilter) ItemsQuery {
	q := ItemsQuery{
		OfTask{Task: f.TaskID},
		ItemQuery{ID: f.IDs, Type: f.Types, State: f.States, Status: f.Statuses, WorkerID: f.WorkerID,
			Search: f.Search, Error: f.Error, Failure: f.Failure, Paging: PagingOf(f.Page)},
	}
	if f.Desc {
		q.Order = "desc"
	}
	return q
}

// Filter returns the filter that the query asks for, limited to a task or item if one is
// given.
func (q EventQuery) Filter(task, item string) pawl.EventFilter {
	f := pawl.EventFilter{
		TaskID: task,
		ItemID: item,
		Types:  q.Type,
		Event:  q.Event,
		Since:  q.Since,
		Until:  q.Until,
		Asc:    q.Order == "asc",
		Page:   q.Page(),
	}
	if q.After == "-1" {
		end := pawl.FeedEnd
		f.After = &end
	} else if at, err := pawl.ParseFeedPosition(q.After); err == nil { // the pattern allows nothing else
		f.After, f.Epoch = &at.Position, at.Epoch
	}
	return f
}

// EventsQueryOf returns a filter as a query.
func EventsQueryOf(f pawl.EventFilter) EventsQuery {
	q := EventsQuery{
		OfTask{Task: f.TaskID},
		OfItem{Item: f.ItemID},
		EventQuery{Type: f.Types, Event: f.Event, Span: Span{f.Since, f.Until}, Paging: PagingOf(f.Page)},
	}
	if f.Asc {
		q.Order = "asc"
	}
	if f.After != nil {
		if q.After = strconv.FormatInt(*f.After, 10); *f.After > 0 {
			q.After = pawl.FeedPosition{Epoch: f.Epoch, Position: *f.After}.String()
		}
	}
	return q
}

// Filter returns the filter that the query asks for.
func (q KeyQuery) Filter() (pawl.KeyFilter, error) {
	task, err := q.OfTask.Of()
	if err != nil {
		return pawl.KeyFilter{}, err
	}
	item, err := q.OfItem.Of()
	return pawl.KeyFilter{Status: string(q.Status), TaskID: task, ItemID: item, Page: q.Page()}, err
}

// KeyQueryOf returns a filter as a query.
func KeyQueryOf(f pawl.KeyFilter) KeyQuery {
	return KeyQuery{Status: KeyStatus(f.Status), OfTask: OfTask{Task: f.TaskID}, OfItem: OfItem{Item: f.ItemID}, Paging: PagingOf(f.Page)}
}

// Filter returns the filter that the query asks for.
func (q TypeQuery) Filter() pawl.TypeFilter {
	return pawl.TypeFilter{Names: q.Name, Versions: q.Versions, Removed: q.Removed, Page: q.Page()}
}

// TypeQueryOf returns a filter as a query.
func TypeQueryOf(f pawl.TypeFilter) TypeQuery {
	return TypeQuery{Name: f.Names, Versions: f.Versions, Removed: f.Removed, Paging: PagingOf(f.Page)}
}

// Filter returns the filter that the query asks for.
func (q SpendingQuery) Filter() pawl.BudgetSpendingFilter {
	f := pawl.BudgetSpendingFilter{By: q.By, Limit: q.Limit}
	_ = f.SetPeriod(q.Period) // the pattern lets no other text pass
	return f
}

// SpendingQueryOf returns a filter as a query.
func SpendingQueryOf(f pawl.BudgetSpendingFilter) SpendingQuery {
	return SpendingQuery{By: f.By, Period: f.Period(), Limit: f.Limit}
}

// WorkerQueryOf returns a filter as a query.
func WorkerQueryOf(f pawl.WorkerFilter) WorkerQuery {
	return WorkerQuery{SeenSince: f.SeenSince, Paging: PagingOf(f.Page)}
}

// SeriesQueryOf returns a question for counters as a query.
func SeriesQueryOf(q pawl.SeriesQuery) SeriesQuery {
	return SeriesQuery{Type: q.Types, Since: q.Since, Until: q.Until, Step: int(q.Step / time.Second)}
}

// Query returns the question.
func (q *SeriesQuery) Query() pawl.SeriesQuery {
	return pawl.SeriesQuery{Types: q.Type, Since: q.Since, Until: q.Until, Step: time.Duration(q.Step) * time.Second}
}

// PagingOf returns a page as a query.
func PagingOf(p pawl.Page) Paging { return Paging{Limit: p.Limit, Cursor: p.Cursor} }

// Values returns the parameters of a query: those that differ from their defaults.
func Values(query any) url.Values {
	out := url.Values{}
	write(out, reflect.ValueOf(query))
	return out
}

func write(out url.Values, v reflect.Value) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.Anonymous {
			write(out, v.Field(i))
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("query"), ",")
		if members, ok := v.Field(i).Interface().(map[string]string); ok {
			for member, value := range members {
				out.Set(name+"["+member+"]", value)
			}
			continue
		}
		value, unless := text(v.Field(i)), f.Tag.Get("default")
		if value != unless && (unless != "" || !v.Field(i).IsZero()) {
			out.Set(name, value)
		}
	}
}

func text(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case time.Time:
		return x.UTC().Format(time.RFC3339Nano)
	case int:
		return strconv.Itoa(x)
	case bool:
		return strconv.FormatBool(x)
	}
	if v.Kind() == reflect.String {
		return v.String()
	}
	parts := make([]string, v.Len())
	for i := range parts {
		parts[i] = fmt.Sprint(v.Index(i))
	}
	return strings.Join(parts, ",")
}

// LogSizes are the two sizes of a log_consistency.
type LogSizes struct {
	From int64 `query:"from" required:"true" minimum:"1" doc:"The smaller size."`
	To   int64 `query:"to" minimum:"0" doc:"The larger size; 0 or absent: that of the newest checkpoint."`
}

// Filter returns the filter that the query asks for, limited to a task or item if one is given.
func (q EffectQuery) Filter(task, item string) pawl.EffectFilter {
	return pawl.EffectFilter{States: q.State, TaskID: task, ItemID: item, Name: q.Name, Key: q.Key, Page: q.Page()}
}

// EffectQueryOf returns a filter as a query.
func EffectQueryOf(f pawl.EffectFilter) EffectQuery {
	return EffectQuery{OfTask: OfTask{Task: f.TaskID}, OfItem: OfItem{Item: f.ItemID}, State: f.States, Name: f.Name, Key: f.Key,
		Paging: PagingOf(f.Page)}
}
