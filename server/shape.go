package server

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// readTasks registers the two reads of tasks whose answer the caller may shape.
func (s *server) readTasks() {
	add(s, "list_tasks", func(ctx context.Context, in *struct {
		api.TaskQuery
		api.TaskShape
	}) (*answer[pawl.List[api.TaskView]], error) {
		f, err := in.Filter()
		if err != nil {
			return nil, err
		}
		if len(in.Include) > 0 && f.Limit > pawl.DefaultPage {
			return nil, pawl.Invalid("/limit", "is at most %d with include", pawl.DefaultPage)
		}
		f.Fields = in.Fields
		return page(viewed(f.Limit, func(limit int) (pawl.List[pawl.Task], error) {
			f.Limit = limit
			return s.svc.ListTasks(ctx, f)
		}, func(t pawl.Task) (api.TaskView, int, error) {
			v, err := s.view(ctx, t, in.Include)
			return v, sizeOf(v.Included), err
		}))
	})
	add(s, "get_task", func(ctx context.Context, in *struct {
		ID string `path:"id" doc:"The id."`
		api.EndQuery
		api.TaskShape
	}) (*taskView, error) {
		if waits, err := s.waitForEnd(ctx, in.ID, in.Wait); waits || err != nil {
			return &taskView{}, err
		}
		t, err := s.taskOf(ctx, in.ID, in.Fields)
		if err != nil {
			return nil, err
		}
		v, err := s.view(ctx, t, in.Include)
		return &taskView{etag(t), v}, err
	})
}

// viewed lists rows with what the caller asked to include. view returns a row and about how many bytes
// that has. A page ends early when it has as many bytes as a page may have. Then it is read again with
// as many rows as had room, for its cursor: others may be its first rows by then.
func viewed[T, V any](limit int, list func(limit int) (pawl.List[T], error), view func(T) (V, int, error)) (pawl.List[V], error) {
	for {
		l, err := list(limit)
		if err != nil {
			return pawl.List[V]{}, err
		}
		out := pawl.List[V]{Items: make([]V, 0, len(l.Items)), Next: l.Next, Incomplete: l.Incomplete}
		bytes := 0
		for _, row := range l.Items {
			v, n, err := view(row)
			if err != nil {
				return out, err
			}
			if bytes += n; bytes > pawl.MaxPageBytes && len(out.Items) > 0 {
				break
			}
			out.Items = append(out.Items, v)
		}
		if len(out.Items) == len(l.Items) {
			return out, nil
		}
		limit = len(out.Items)
	}
}

// taskView is a task as its caller has shaped it.
type taskView struct {
	ETag string `header:"ETag" doc:"The task's version, quoted, for If-Match."`
	Body api.TaskView
}

// sizeOf returns about how many bytes the included values have.
func sizeOf(in *api.Included) (n int) {
	if in == nil {
		return 0
	}
	for i := range in.Items {
		n += len(in.Items[i].Input) + len(in.Items[i].Result) + len(in.Items[i].AssembledResult)
	}
	n += sizeOfRecord(in.Parts, in.Events, in.Checkpoints, in.Provenances)
	if in.Result != nil {
		n += len(in.Result.Payload)
	}
	return n
}

// taskOf reads a task, without the large members that were not asked for.
func (s *server) taskOf(ctx context.Context, id string, fields []string) (pawl.Task, error) {
	if len(fields) == 0 {
		return s.svc.GetTask(ctx, id)
	}
	l, err := s.svc.ListTasks(ctx, pawl.TaskFilter{IDs: []string{id}, Fields: fields, Page: pawl.Page{Limit: 1}})
	if err == nil && len(l.Items) == 0 {
		err = pawl.NotFound("task", id)
	}
	if err != nil {
		return pawl.Task{}, err
	}
	return l.Items[0], nil
}

// itemOf reads an item, without the large members that were not asked for.
func (s *server) itemOf(ctx context.Context, id string, fields []string) (pawl.Item, error) {
	if len(fields) == 0 || slices.Contains(fields, "parts_state") { // which lists do not have
		return s.svc.GetItem(ctx, id)
	}
	l, err := s.svc.ListItems(ctx, pawl.ItemFilter{IDs: []string{id}, Fields: fields, Page: pawl.Page{Limit: 1}})
	if err == nil && len(l.Items) == 0 {
		err = pawl.NotFound("item", id)
	}
	if err != nil {
		return pawl.Item{}, err
	}
	return l.Items[0], nil
}

// view adds to a task what the caller asked to include. A task that was deleted meanwhile has
// nothing to include. A task that has not completed has no result.
func (s *server) view(ctx context.Context, t pawl.Task, include []string) (api.TaskView, error) {
	v := api.TaskView{Task: t}
	if len(include) == 0 {
		return v, nil
	}
	v.Included = &api.Included{}
	for _, what := range include {
		var err error
		switch what {
		case "items":
			v.Included.Items, err = rows(s.svc.ListItems(ctx, pawl.ItemFilter{TaskID: t.ID}))
		case "parts":
			v.Included.Parts, err = s.partsOf(ctx, t.ID)
		case "events":
			v.Included.Events, err = rows(s.svc.ListEvents(ctx, pawl.EventFilter{TaskID: t.ID}))
		case "checkpoints":
			v.Included.Checkpoints, err = rows(s.svc.ListCheckpoints(ctx, pawl.CheckpointFilter{TaskID: t.ID, Desc: true}))
		case "provenances":
			v.Included.Provenances, err = rows(s.svc.ListProvenance(ctx, pawl.ProvenanceFilter{TaskID: t.ID}))
		case "result":
			var r pawl.TaskResult
			if r, err = s.svc.TaskResult(ctx, t.ID); err == nil {
				v.Included.Result = &r
			} else if code := pawl.CodeOf(err); code == pawl.CodeConflict || code == pawl.CodeTooLarge {
				err = nil
			}
		}
		if err != nil && pawl.CodeOf(err) != pawl.CodeNotFound {
			return v, err
		}
	}
	return v, nil
}

func rows[T any](l pawl.List[T], err error) ([]T, error) { return l.Items, err }

// sparse reduces the answer to a read to the members that the query names. It runs last, on
// the answer of every operation.
func sparse(ctx huma.Context, _ string, v any) (any, error) {
	if ctx.Method() != "GET" {
		return v, nil
	}
	asked := ctx.Query("fields")
	if asked == "" {
		return v, nil
	}
	keep := append(strings.Split(asked, ","), "id", "included")
	switch v := v.(type) {
	case api.TaskView:
		return only(v, keep)
	case api.ItemView:
		return only(v, keep)
	case pawl.List[api.TaskView]:
		return onlyAll(v, keep)
	case pawl.List[api.ItemView]:
		return onlyAll(v, keep)
	}
	return v, nil
}

func onlyAll[T any](l pawl.List[T], keep []string) (any, error) {
	out := pawl.List[json.RawMessage]{Items: make([]json.RawMessage, len(l.Items)), Next: l.Next, Incomplete: l.Incomplete}
	for i, v := range l.Items {
		var err error
		if out.Items[i], err = only(v, keep); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func only(v any, keep []string) (json.RawMessage, error) {
	var b bytes.Buffer
	if err := encode(&b, v); err != nil {
		return nil, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(b.Bytes(), &members); err != nil {
		return nil, err
	}
	var out []byte
	for _, name := range slices.Compact(slices.Sorted(slices.Values(keep))) {
		if value, there := members[name]; there {
			out = append(append(append(append(out, ','), '"'), name...), '"', ':')
			out = append(out, value...)
		}
	}
	out[0] = '{' // id is always present
	return append(out, '}'), nil
}

// views are the schemas of what may be read in part: only id is always present.
var views = []string{"TaskView", "ItemView"}
