package suite

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
)

// titles lists tasks by title, over all pages.
func (w *fixture) titles(f pawl.TaskFilter) string {
	w.Helper()
	var out []string
	for {
		page, err := w.svc.ListTasks(w.ctx, f)
		w.ok(err, "list tasks")
		for _, t := range page.Items {
			out = append(out, t.Title)
		}
		if page.Next == "" {
			return strings.Join(out, " ")
		}
		f.Cursor = page.Next
	}
}

// taskInEachState creates a task in each of these states, one second apart; its title is the state.
func (w *fixture) taskInEachState() map[string]pawl.Task {
	w.Helper()
	out := map[string]pawl.Task{}
	for n, state := range []string{"queued", "checked_out", "in_progress", "completed", "failed", "dead_lettered", "cancelled"} {
		t := w.create(pawl.NewTask{Type: fmt.Sprint("t", n%2), Title: state, Priority: n})
		switch i := w.onlyItem(t.ID); state {
		case "checked_out":
			w.claimItem("w1", i.ID)
		case "in_progress":
			w.heartbeat(w.claimItem("w2", i.ID))
		case "completed", "failed", "dead_lettered", "cancelled":
			w.moveTo(t.ID, i.ID, pawl.ItemState(state))
		}
		out[state] = w.task(t.ID)
		w.advance(time.Second)
	}
	return out
}

var lists = noun{"lists of tasks", []promise{
	{"newest first, or oldest first", func(w *fixture) {
		w.taskInEachState()
		w.same(w.titles(pawl.TaskFilter{}), "cancelled dead_lettered failed completed in_progress checked_out queued", "newest first")
		w.same(w.titles(pawl.TaskFilter{Asc: true}), "queued checked_out in_progress completed failed dead_lettered cancelled", "oldest first")
	}},
	{"a listed task is the task", func(w *fixture) {
		all := w.taskInEachState()
		page, err := w.svc.ListTasks(w.ctx, pawl.TaskFilter{})
		w.ok(err, "list tasks")
		for _, t := range page.Items {
			w.same(t, all[t.Title], t.Title)
		}
	}},
	{"by state, status, type, priority, time and id", func(w *fixture) {
		all := w.taskInEachState()
		begin := all["queued"].CreatedAt
		for want, f := range map[string]pawl.TaskFilter{
			"queued":                                   {States: []pawl.TaskState{pawl.TaskQueued}},
			"in_progress checked_out":                  {States: []pawl.TaskState{pawl.TaskCheckedOut, pawl.TaskInProgress}},
			"dead_lettered failed":                     {Statuses: []pawl.Status{pawl.StatusFailed}},
			"completed in_progress checked_out":        {Statuses: []pawl.Status{pawl.StatusInProgress, pawl.StatusCompleted}},
			"cancelled failed in_progress queued":      {Types: []string{"t0"}},
			"dead_lettered completed checked_out":      {Types: []string{"t1"}, MinPriority: ptr(-1)},
			"cancelled dead_lettered":                  {MinPriority: ptr(5)},
			"checked_out queued":                       {MaxPriority: ptr(1)},
			"failed completed in_progress":             {MinPriority: ptr(2), MaxPriority: ptr(4)},
			"cancelled dead_lettered failed completed": {Since: begin.Add(3 * time.Second)},
			"in_progress checked_out queued":           {Until: begin.Add(3 * time.Second)},
			"failed":                                   {IDs: []string{all["failed"].ID, "tsk_nope"}},
			"":                                         {Types: []string{"nope"}},
			"cancelled": {States: []pawl.TaskState{pawl.TaskCancelled}, Types: []string{"t0"},
				MinPriority: ptr(6)},
			"dead_lettered failed in_progress checked_out": {States: []pawl.TaskState{pawl.TaskFailed, pawl.TaskDeadLettered, pawl.TaskCheckedOut,
				pawl.TaskInProgress}, Page: pawl.Page{Limit: 1}},
		} {
			w.same(w.titles(f), want, fmt.Sprintf("tasks of %+v", f))
		}
		w.same(
			w.titles(pawl.TaskFilter{States: []pawl.TaskState{pawl.TaskQueued}, Statuses: []pawl.Status{pawl.StatusFailed}}),
			"",
			"queued and failed",
		)
	}},
	{"by requester, input hash and time of the last change", func(w *fixture) {
		make := func(title, who, hash string) pawl.Task {
			t, err := pawl.Create(
				w.ctx,
				w.svc,
				pawl.NewTask{Type: "t", Title: title, RequestedBy: &pawl.Requester{Type: "user", ID: who}, InputHash: hash},
			)
			w.ok(err, "create")
			return t
		}
		make("a", "ann", "h1")
		b := make("b", "bob", "h2")
		w.advance(time.Hour)
		at := w.now()
		w.cancel(b.ID)
		make("c", "ann", "h3")
		for want, f := range map[string]pawl.TaskFilter{
			"c a":   {RequestedBy: "ann"},
			"b":     {InputHash: "h2"},
			"c b":   {Changed: at},
			"c b a": {Changed: at.Add(-time.Hour)},
			"c":     {Changed: at, RequestedBy: "ann"},
			"":      {Changed: at.Add(time.Hour)},
		} {
			w.same(w.titles(f), want, fmt.Sprintf("tasks of %+v", f))
		}
	}},
	{"a priority that no task can have is invalid", func(w *fixture) {
		for _, p := range []int{pawl.MinPriority - 1, pawl.MaxPriority + 1, math.MaxInt32 + 1, math.MinInt64} {
			_, err := w.svc.ListTasks(w.ctx, pawl.TaskFilter{MinPriority: &p})
			w.invalid(err, "/min_priority")
			_, err = w.svc.ListTasks(w.ctx, pawl.TaskFilter{MaxPriority: &p})
			w.invalid(err, "/max_priority")
		}
	}},
	{"by members of metadata, whatever their kind and however the text is written", func(w *fixture) {
		for title, metadata := range map[string]string{
			"plain": `{"repo":"x","n":1,"deep":{"repo":"y"}}`, "escaped": `{"repo":"\u0078\n","n":1.50}`,
			"odd": `{"$.n":"1","a\"b":true,"n":"1","[0]":null}`, "none": `{}`,
			"large": `{"n":12345678901234567890,"e":1e400,"pair":"\ud83d\ude00"}`,
		} {
			w.create(pawl.NewTask{Type: "a", Title: title, Metadata: raw(metadata)})
		}
		for _, c := range []struct {
			want string
			by   map[string]string
		}{
			{"plain", map[string]string{"repo": "x"}}, {"escaped", map[string]string{"repo": "x\n"}}, {"escaped", map[string]string{"n": "1.50"}},
			{"", map[string]string{"n": "1.5"}},
			{"plain", map[string]string{"n": "1", "repo": "x"}}, {"odd", map[string]string{"$.n": "1"}}, {"odd", map[string]string{`a"b`: "true"}},
			{"", map[string]string{"[0]": "null"}},
			{"large", map[string]string{"n": "12345678901234567890", "e": "1e400", "pair": "😀"}}, {"", map[string]string{"nope": ""}},
			{"", map[string]string{"repo": "y"}},
		} {
			w.same(w.titles(pawl.TaskFilter{Metadata: c.by}), c.want, fmt.Sprint("tasks with ", c.by))
		}
		_, err := w.svc.ListTasks(w.ctx, pawl.TaskFilter{Metadata: map[string]string{"a\x00": "b"}})
		w.invalid(err, "/metadata")
	}},
	{"by having items that could be claimed now, or none", func(w *fixture) {
		at := w.now().Add(time.Hour)
		w.create(pawl.NewTask{Type: "a", Title: "ready"})
		w.create(pawl.NewTask{Type: "a", Title: "later", RunAt: &at})
		busy := w.create(pawl.NewTask{Type: "a", Title: "busy"})
		part := w.create(pawl.NewTask{Type: "a", Title: "part", Items: []pawl.NewItem{{Input: raw(`1`)}, {Input: raw(`2`), Priority: ptr(5)}}})
		w.claimItem("w1", w.onlyItem(busy.ID).ID)
		w.claimItem("w1", w.items(part.ID)[1].ID)
		back := w.create(pawl.NewTask{Type: "a", Title: "back"})
		w.release(w.claimItem("w1", w.onlyItem(back.ID).ID))
		w.same(w.titles(pawl.TaskFilter{Available: ptr(true)}), "back part ready", "with")
		w.same(w.titles(pawl.TaskFilter{Available: ptr(false), Asc: true}), "later busy", "without")
	}},
	{"by priority, and pages of it meet", func(w *fixture) {
		for n, p := range []int{3, -1, 3, 0, 7, -1} {
			w.create(pawl.NewTask{Type: "a", Title: fmt.Sprint(p, "/", n), Priority: p})
		}
		for _, size := range []int{1, 2, 3, 100} {
			w.same(w.titles(pawl.TaskFilter{ByPriority: true, Page: pawl.Page{Limit: size}}), "7/4 3/2 3/0 0/3 -1/5 -1/1", "highest first")
			w.same(w.titles(pawl.TaskFilter{ByPriority: true, Asc: true, Page: pawl.Page{Limit: size}}), "-1/1 -1/5 0/3 3/0 3/2 7/4", "lowest first")
		}
		for _, n := range []string{"", "40000_", "-40000_", "99999999999999999999_", "x_", "0x1_"} {
			_, err := w.svc.ListTasks(w.ctx, pawl.TaskFilter{ByPriority: true, Page: pawl.Page{Cursor: n + "tsk_01ARZ3NDEKTSV4RRFFQ69G5FAV"}})
			w.invalid(err, "/cursor")
		}
	}},
	{"by the time of the last change, and pages of it meet", func(w *fixture) {
		made := map[string]pawl.Task{}
		for _, title := range []string{"a", "b", "c", "d", "e"} {
			made[title] = w.create(pawl.NewTask{Type: "t", Title: title})
			w.advance(time.Second)
		}
		w.cancel(made["b"].ID)
		w.advance(time.Second)
		at := w.now()
		w.claimItem("w1", w.onlyItem(made["d"].ID).ID)
		w.advance(time.Second)
		w.cancel(made["a"].ID)
		for _, size := range []int{1, 2, 3, 100} {
			page := pawl.Page{Limit: size}
			for want, f := range map[string]pawl.TaskFilter{
				"a d b e c": {ByUpdate: true, Page: page},
				"c e b d a": {ByUpdate: true, Asc: true, Page: page},
				"d a":       {ByUpdate: true, Asc: true, Changed: at, Page: page},
				"a d":       {ByUpdate: true, Changed: at, Page: page},
				"b a":       {ByUpdate: true, Asc: true, States: []pawl.TaskState{pawl.TaskCancelled}, Page: page},
				"a b c":     {ByUpdate: true, IDs: []string{made["a"].ID, made["b"].ID, made["c"].ID}, Page: page},
				"":          {ByUpdate: true, RequestedBy: "ann", Page: page},
			} {
				w.same(w.titles(f), want, fmt.Sprintf("tasks of %+v", f))
			}
		}
		for _, n := range []string{"", "-1_", "99999999999999999999_", "x_", "0x1_", "1_2"} {
			_, err := w.svc.ListTasks(w.ctx, pawl.TaskFilter{ByUpdate: true, Page: pawl.Page{Cursor: n + "tsk_01ARZ3NDEKTSV4RRFFQ69G5FAV"}})
			w.invalid(err, "/cursor")
		}
		_, err := w.svc.ListTasks(w.ctx, pawl.TaskFilter{ByUpdate: true, Page: pawl.Page{Cursor: "1_tsk_"}})
		w.invalid(err, "/cursor")
		_, err = w.svc.ListTasks(w.ctx, pawl.TaskFilter{ByUpdate: true, ByPriority: true})
		w.invalid(err, "/sort")
	}},
	{"a hundred a page unless asked otherwise", func(w *fixture) {
		var calls []pawl.NewTask
		for n := range 130 {
			calls = append(calls, pawl.NewTask{Type: "a", Title: fmt.Sprint(n)})
		}
		rs, err := w.svc.CreateTasks(w.ctx, calls)
		w.ok(err, "create")
		w.same(len(rs), 130, "made")
		page, err := w.svc.ListTasks(w.ctx, pawl.TaskFilter{})
		w.ok(err, "list tasks")
		w.same([]any{len(page.Items), page.Next != ""}, []any{100, true}, "the first page")
		page, err = w.svc.ListTasks(w.ctx, pawl.TaskFilter{Page: pawl.Page{Cursor: page.Next}})
		w.ok(err, "list tasks")
		w.same([]any{len(page.Items), page.Next}, []any{30, ""}, "the second page")
	}},
	{"pages have no gap and no repetition, whatever their size, also of tasks created at the same time", func(w *fixture) {
		var want []string
		for n := range 13 {
			want = append(want, fmt.Sprint(n))
			w.create(pawl.NewTask{Type: "a", Title: fmt.Sprint(n)})
		}
		for _, size := range []int{1, 2, 3, 5, 12, 13, 14} {
			w.same(w.titles(pawl.TaskFilter{Asc: true, Page: pawl.Page{Limit: size}}), strings.Join(want, " "), fmt.Sprint("oldest first by ", size))
		}
		slices.Reverse(want)
		for _, size := range []int{1, 2, 3, 5, 12, 13, 14} {
			w.same(w.titles(pawl.TaskFilter{Page: pawl.Page{Limit: size}}), strings.Join(want, " "), fmt.Sprint("newest first by ", size))
		}
	}},
	{"new tasks do not change the pages that are being read", func(w *fixture) {
		for n := range 6 {
			w.create(pawl.NewTask{Type: "a", Title: fmt.Sprint(n)})
		}
		f := pawl.TaskFilter{Page: pawl.Page{Limit: 2}}
		var got []string
		for {
			page, err := w.svc.ListTasks(w.ctx, f)
			w.ok(err, "list tasks")
			for _, t := range page.Items {
				got = append(got, t.Title)
			}
			if f.Cursor = page.Next; f.Cursor == "" {
				break
			}
			w.advance(time.Second)
			w.create(pawl.NewTask{Type: "a", Title: "new"})
		}
		w.same(strings.Join(got, " "), "5 4 3 2 1 0", "tasks")
	}},
	{"the last page is known to be the last", func(w *fixture) {
		w.oneItem()
		w.oneItem()
		page, err := w.svc.ListTasks(w.ctx, pawl.TaskFilter{Page: pawl.Page{Limit: 2}})
		w.ok(err, "list tasks")
		w.same([]any{len(page.Items), page.Next}, []any{2, ""}, "the page")
	}},
}}

// itemKeys returns the keys of the items of a filter, of all pages.
func (w *fixture) itemKeys(f pawl.ItemFilter) (keys []string) {
	w.Helper()
	for {
		page, err := w.svc.ListItems(w.ctx, f)
		w.ok(err, "list items")
		for _, i := range page.Items {
			keys = append(keys, i.Key)
		}
		if f.Cursor = page.Next; f.Cursor == "" {
			return keys
		}
	}
}

var itemLists = noun{"lists of items", []promise{
	{"oldest first, or newest first, and each is the item", func(w *fixture) {
		t := w.manyItems(5)
		page, err := w.svc.ListItems(w.ctx, pawl.ItemFilter{TaskID: t.ID})
		w.ok(err, "list items")
		var up, down []string
		for _, i := range page.Items {
			w.same(i, w.item(i.ID), "the item")
			up = append(up, string(i.Input))
		}
		w.same(strings.Join(up, " "), `{"i":0} {"i":1} {"i":2} {"i":3} {"i":4}`, "oldest first")
		page, err = w.svc.ListItems(w.ctx, pawl.ItemFilter{TaskID: t.ID, Desc: true})
		w.ok(err, "list items")
		for _, i := range page.Items {
			down = append(down, string(i.Input))
		}
		slices.Reverse(down)
		w.same(down, up, "newest first, reversed")
	}},
	{"by task, type, state, status, worker and id", func(w *fixture) {
		at := w.now().Add(time.Hour)
		t := w.create(pawl.NewTask{Type: "a", Items: []pawl.NewItem{
			{
				Key:   "done",
				Input: raw(`1`),
			}, {Key: "failed", Input: raw(`1`), Type: "b"}, {Key: "held", Input: raw(`1`)}, {Key: "busy", Input: raw(`1`)},
			{
				Key:   "next",
				Input: raw(`1`),
				Type:  "b",
			}, {Key: "later", Input: raw(`1`), RunAt: &at}, {Key: "blocked", Input: raw(`1`), After: []string{"next"}},
			{Key: "gone", Input: raw(`1`)},
		}})
		w.oneItem()
		id := map[string]string{}
		for _, i := range w.items(t.ID) {
			id[i.Key] = i.ID
		}
		w.complete(w.claimItem("w1", id["done"]), `1`)
		w.failPermanently(w.claimItem("w2", id["failed"]), "no")
		w.claimItem("w1", id["held"])
		w.heartbeat(w.claimItem("w2", id["busy"]))
		w.cancel(t.ID, id["gone"])
		for want, f := range map[string]pawl.ItemFilter{
			"done failed held busy next later blocked gone": {},
			"failed next":        {Types: []string{"b"}},
			"done":               {States: []pawl.ItemState{pawl.ItemCompleted}},
			"held busy":          {States: []pawl.ItemState{pawl.ItemLeased, pawl.ItemInProgress}},
			"next later blocked": {Statuses: []pawl.Status{pawl.StatusPending}},
			"failed held busy":   {Statuses: []pawl.Status{pawl.StatusInProgress, pawl.StatusFailed}},
			"later blocked":      {States: []pawl.ItemState{pawl.ItemScheduled, pawl.ItemWaiting}},
			"gone":               {Statuses: []pawl.Status{pawl.StatusCancelled}},
			"done held":          {WorkerID: "w1"},
			"failed busy":        {WorkerID: "w2"},
			"failed":             {WorkerID: "w2", Statuses: []pawl.Status{pawl.StatusFailed}},
			"done blocked":       {IDs: []string{id["blocked"], id["done"], "itm_nope"}},
			"":                   {WorkerID: "w3"},
			"done held busy": {Types: []string{"a"}, States: []pawl.ItemState{pawl.ItemCompleted, pawl.ItemLeased, pawl.ItemInProgress},
				Page: pawl.Page{Limit: 2}},
			"failed held busy next": {IDs: []string{id["failed"], id["held"], id["busy"], id["next"]}, Page: pawl.Page{Limit: 3}},
		} {
			f.TaskID = t.ID
			keys := w.itemKeys(f)
			w.same(strings.Join(keys, " "), want, fmt.Sprintf("items of %+v", f))
			f.Desc = true
			down := w.itemKeys(f)
			slices.Reverse(down)
			w.same(down, keys, fmt.Sprintf("items of %+v, reversed", f))
		}
	}},
	{"by state and type over all tasks, of one item and of many", func(w *fixture) {
		w.taskInEachState()
		many := w.manyItems(4)
		for _, l := range w.claims(pawl.ClaimRequest{WorkerID: "w1", TaskID: many.ID, Limit: 3}) {
			switch w.item(l.ID).Position {
			case 0:
				w.complete(l, `1`)
			case 1:
				w.failPermanently(l, "no")
			}
		}
		page, err := w.svc.ListItems(w.ctx, pawl.ItemFilter{})
		w.ok(err, "list items")
		w.same(len(page.Items), 11, "items")
		for _, state := range []pawl.ItemState{pawl.ItemQueued, pawl.ItemLeased, pawl.ItemInProgress, pawl.ItemCompleted, pawl.ItemFailed,
			pawl.ItemCancelled, pawl.ItemDeadLettered} {
			for _, types := range [][]string{nil, {"t0"}, {"t1", "a"}, {"other"}} {
				var want, got []string
				for _, it := range page.Items {
					if it.State == state && (types == nil || slices.Contains(types, it.Type)) {
						want = append(want, it.ID)
					}
				}
				some, err := w.svc.ListItems(w.ctx, pawl.ItemFilter{States: []pawl.ItemState{state}, Types: types})
				w.ok(err, "list items")
				for _, it := range some.Items {
					got = append(got, it.ID)
				}
				w.same(got, want, fmt.Sprint(state, " of ", types))
			}
		}
	}},
	{"over all tasks", func(w *fixture) {
		w.manyItems(3)
		w.manyItems(2)
		var got int
		f := pawl.ItemFilter{Page: pawl.Page{Limit: 2}}
		for {
			page, err := w.svc.ListItems(w.ctx, f)
			w.ok(err, "list items")
			got += len(page.Items)
			if f.Cursor = page.Next; f.Cursor == "" {
				break
			}
		}
		w.same(got, 5, "items")
	}},
}}
