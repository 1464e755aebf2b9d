package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pawl-work/pawl"
)

func readKey(s *stage, c call) (string, error) {
	k, err := first(s.svc.GetKeys(s.ctx, []pawl.KeyName{{Scope: c.named["scope"], Key: c.word(0)}}))
	return s.keyLine(k), err
}

func readTask(s *stage, c call) (string, error) {
	t, err := s.svc.GetTask(s.ctx, s.id(c.word(0)))
	if err != nil {
		return "", err
	}
	return s.taskLine(t), nil
}

// taskLine returns a task in one line.
func (s *stage) taskLine(t pawl.Task) string {
	out := fmt.Sprintf("%s %s (%s), %d of %d items open, progress %d, retry_count %d, version %d",
		s.name("task", t.ID), t.State, t.Status, t.ItemsOpen, t.Items, t.Progress, t.RetryCount, t.Version)
	if t.Error != nil {
		out += fmt.Sprintf(", error %q", t.Error.Message)
	}
	if t.CompletedAt != nil {
		out += ", completed_at " + s.when(*t.CompletedAt)
	}
	return out
}

func readItem(s *stage, c call) (string, error) {
	i, err := s.svc.GetItem(s.ctx, s.id(c.word(0)))
	if err != nil {
		return "", err
	}
	return s.itemLine(i), nil
}

// itemLine returns an item in one line.
func (s *stage) itemLine(i pawl.Item) string {
	out := fmt.Sprintf("%s %s (%s), attempt %d, failures %d", s.name("item", i.ID), i.State, i.Status, i.Attempt, i.Failures)
	if i.WorkerID != "" {
		out += ", held by " + i.WorkerID + " until " + s.when(*i.LeaseExpiresAt)
	} else if i.LastWorkerID != "" {
		out += ", last held by " + i.LastWorkerID
	}
	if i.RunAt != nil {
		out += ", run_at " + s.when(*i.RunAt)
	}
	if i.Progress > 0 {
		out += fmt.Sprintf(", progress %d", i.Progress)
	}
	if i.Result != nil {
		out += ", result " + string(i.Result)
	}
	if i.Error != nil {
		out += fmt.Sprintf(", error %q", i.Error.Message)
	}
	return out
}

func readItems(s *stage, c call) (string, error) {
	items, err := s.nameItems(s.id(c.word(0)))
	var out strings.Builder
	for _, i := range items {
		fmt.Fprintln(&out, s.itemLine(i))
	}
	return out.String(), err
}

func readTasks(s *stage, c call) (string, error) {
	f := pawl.TaskFilter{Types: c.list("type")}
	for _, state := range c.list("state") {
		f.States = append(f.States, pawl.TaskState(state))
	}
	for _, status := range c.list("status") {
		f.Statuses = append(f.Statuses, pawl.Status(status))
	}
	list, err := s.svc.ListTasks(s.ctx, f)
	var out strings.Builder
	for _, t := range list.Items {
		fmt.Fprintln(&out, s.taskLine(t))
	}
	if len(list.Items) == 0 {
		return "none", err
	}
	return out.String(), err
}

func readEvents(s *stage, c call) (string, error) {
	f := pawl.EventFilter{Asc: true, Page: pawl.Page{Limit: pawl.MaxPage}}
	if id := s.id(c.word(0)); strings.HasPrefix(id, "itm_") {
		f.ItemID = id
	} else {
		f.TaskID = id
	}
	list, err := s.svc.ListEvents(s.ctx, f)
	var out strings.Builder
	for _, e := range list.Items {
		about := s.name("task", e.TaskID)
		if e.ItemID != "" {
			about = s.name("item", e.ItemID)
		}
		fmt.Fprintf(&out, "%s %s %s", s.when(e.CreatedAt), about, e.Event)
		if e.ToState != "" {
			fmt.Fprintf(&out, " %s>%s", e.FromState, e.ToState)
		}
		if e.TaskTo != "" {
			fmt.Fprintf(&out, ", task %s>%s", e.TaskFrom, e.TaskTo)
		}
		fmt.Fprintf(&out, ", by %s\n", strings.TrimSpace(e.ActorType+" "+e.ActorID))
	}
	return out.String(), err
}

// saved returns a checkpoint in one line.
func (s *stage) saved(c *pawl.Checkpoint) string {
	if c == nil {
		return "none"
	}
	out := fmt.Sprintf("%d %s", c.Sequence, c.Type)
	if c.Name != "" {
		out += " " + c.Name
	}
	if c.ItemID != "" {
		out += fmt.Sprintf(", by attempt %d of %s", c.Attempt, s.name("item", c.ItemID))
	}
	if c.Type != pawl.ErrorBoundary {
		out += ": " + string(c.Snapshot)
	}
	return out
}

func readCheckpoints(s *stage, c call) (string, error) {
	f := pawl.CheckpointFilter{Types: c.list("type"), Page: pawl.Page{Limit: pawl.MaxPage}}
	if c.word(1) == "last" {
		f.Desc, f.Limit = true, 1
	}
	if id := s.id(c.word(0)); strings.HasPrefix(id, "itm_") {
		f.ItemID = id
	} else {
		f.TaskID = id
	}
	list, err := s.svc.ListCheckpoints(s.ctx, f)
	var out strings.Builder
	for _, c := range list.Items {
		fmt.Fprintln(&out, s.saved(&c))
	}
	if len(list.Items) == 0 {
		return "none", err
	}
	return out.String(), err
}

func readCounts(s *stage, c call) (string, error) {
	n, err := s.svc.CountCheckpoints(s.ctx, s.id(c.word(0)))
	var out []string
	for _, typ := range slices.Sorted(maps.Keys(n)) {
		out = append(out, fmt.Sprintf("%s %d", typ, n[typ]))
	}
	return strings.Join(out, ", "), err
}

func readResume(s *stage, c call) (string, error) {
	r, err := s.svc.Resume(s.ctx, s.id(c.word(0)))
	if err != nil {
		return "", err
	}
	var out strings.Builder
	fmt.Fprintf(&out, "attempt %d\nnewest: %s\niteration_start: %s\niteration_end: %s\nerror_boundary: %s\n",
		r.Attempt, s.saved(r.Newest), s.saved(r.IterationStart), s.saved(r.IterationEnd), s.saved(r.ErrorBoundary))
	for _, name := range slices.Sorted(maps.Keys(r.Steps)) {
		step := r.Steps[name]
		fmt.Fprintf(&out, "step %s: %s\n", name, s.saved(&step))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Signals)) {
		got := r.Signals[name]
		fmt.Fprintf(&out, "signal for %s: %s %s sent at %s: %s\n", name, got.Name, got.Key, s.when(got.SentAt), got.Payload)
	}
	if o := r.OpenMessage; o != nil {
		fmt.Fprintf(&out, "%s open at %d after step %d", s.name("message", o.ID), o.Offset, o.StepNumber)
		for _, c := range o.ToolCalls {
			fmt.Fprintf(&out, ", %s %s %s", c.ToolName, c.ToolCallID, map[bool]string{true: "done", false: "begun"}[c.Done])
		}
	}
	return out.String(), nil
}

func readResult(s *stage, c call) (string, error) {
	r, err := s.svc.TaskResult(s.ctx, s.id(c.word(0)))
	return string(r.Payload), err
}

func readStats(s *stage, _ call) (string, error) {
	n, err := s.svc.Stats(s.ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(
		"leases %d, expired %d, stale %d\nkeys: pending %d, completed %d, failed %d, hits %d, misses %d, replays %d\n"+
			"sweeps: total_scans %d, total_recovered %d, total_failed %d",
		n.Leases,
		n.ExpiredLeases,
		n.StaleLeases,
		n.Keys.Pending,
		n.Keys.Completed,
		n.Keys.Failed,
		n.Keys.Hits,
		n.Keys.Misses,
		n.Keys.Replays,
		n.Sweeps.TotalScans,
		n.Sweeps.TotalRecovered,
		n.Sweeps.TotalFailed,
	), nil
}
