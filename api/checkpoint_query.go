package api

import "github.com/pawl-work/pawl"

type (
	// CheckpointQuery is a pawl.CheckpointFilter without its task.
	CheckpointQuery struct {
		OfItem
		ID       []string          `query:"checkpoint" doc:"Those with any of these ids."`
		Sequence []int64           `query:"sequence" doc:"With any of these numbers."`
		Type     []string          `query:"type" doc:"Of any of these types."`
		Name     []string          `query:"name" doc:"Of any of these names."`
		Prefix   string            `query:"name_prefix" doc:"Of names that begin so."`
		Metadata map[string]string `query:"metadata,deepObject" doc:"metadata[repo]=x: with this member in its metadata, a text or the JSON of a number, true or false."`
		Own      bool              `query:"own" doc:"true: those of the task itself, not of its items."`
		Brief    bool              `query:"brief" doc:"true: without snapshots; the member is null."`
		Refs     bool              `query:"refs" doc:"true: with the checkpoints that the metadata of each names in refs; for one task only."`
		Order    string            `query:"order" enum:"asc,desc" doc:"desc: newest first; by ascending number without it."`
		Paging
	}
	// CheckpointsQuery is a pawl.CheckpointFilter as a query.
	CheckpointsQuery struct {
		OfTask
		TaskType string `query:"task_type" doc:"With task_key, in place of task: the type of the task."`
		TaskKey  string `query:"task_key" doc:"The key that the task has by unique."`
		CheckpointQuery
	}
)

// Filter returns the filter that the query asks for, limited to a task if one is given.
func (q CheckpointQuery) Filter(task string) (pawl.CheckpointFilter, error) {
	item, err := q.Of()
	return pawl.CheckpointFilter{
		TaskID:     task,
		ItemID:     item,
		IDs:        q.ID,
		Sequences:  q.Sequence,
		Own:        q.Own,
		Brief:      q.Brief,
		Refs:       q.Refs,
		Types:      q.Type,
		Names:      q.Name,
		NamePrefix: q.Prefix,
		Metadata:   q.Metadata,
		Desc:       q.Order == "desc",
		Page:       q.Page(),
	}, err
}

// CheckpointsQueryOf returns a filter as a query.
func CheckpointsQueryOf(f pawl.CheckpointFilter) CheckpointsQuery {
	q := CheckpointsQuery{
		OfTask{Task: f.TaskID},
		f.TaskType, f.TaskKey,
		CheckpointQuery{
			OfItem:   OfItem{Item: f.ItemID},
			ID:       f.IDs,
			Sequence: f.Sequences,
			Own:      f.Own,
			Brief:    f.Brief,
			Refs:     f.Refs,
			Type:     f.Types,
			Name:     f.Names,
			Prefix:   f.NamePrefix,
			Metadata: f.Metadata,
			Paging:   PagingOf(f.Page),
		},
	}
	if f.Desc {
		q.Order = "desc"
	}
	return q
}
