package store

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-work/pawl"
)

// ListEvents lists events in order of their row number.
func ListEvents(ctx context.Context, tx Tx, namespace string, q pawl.EventFilter) (pawl.List[pawl.Event], error) {
	return Pages(q.Page, func(v *pawl.Event) int { return len(v.Data) + len(v.Diff) + len(v.Message) },
		func(e pawl.Event) string { return e.ID }, func(p pawl.Page) (pawl.List[pawl.Event], error) {
			q.Page = p
			return listEvents(ctx, tx, namespace, q)
		})
}

func listEvents(ctx context.Context, tx Tx, namespace string, q pawl.EventFilter) (pawl.List[pawl.Event], error) {
	var w Where
	w.And("e.namespace = ?", namespace)
	if err := w.ExceptCopies(ctx, tx, "e.task_id"); err != nil {
		return pawl.List[pawl.Event]{}, err
	}
	if q.TaskID != "" {
		w.And("e.task_id = ?", TaskID(q.TaskID))
	}
	if q.ItemID != "" { // through the task: item_id has no index of its own
		w.And("e.task_id = (SELECT x.task_id FROM pawl.all_items x WHERE x.id = ?)", ItemID(q.ItemID))
		w.And("e.item_id = ?", ItemID(q.ItemID))
	}
	if len(q.Types) > 0 {
		w.And("(SELECT x.type FROM pawl.tasks x WHERE x.id = e.task_id) @among(?)", List(q.Types))
	}
	if q.Event != "" {
		known := codesOf(func(m MoveCode) bool { return m.Event == q.Event })
		w.And("(e.move IN "+known+" OR e.move > ? AND e.move IN (SELECT m.code FROM pawl.moves m WHERE m.event = ?))", // those of a newer program
			len(MoveCodes), q.Event)
		if q.Event == "deleted" && q.TaskID == "" { // such events are rare
			w.And("e.id IN (SELECT b.event_id FROM pawl.tombstones b WHERE b.namespace = ?)", namespace)
		}
	}
	if !q.Since.IsZero() {
		w.And("e.created_at >= ?", q.Since.UnixMicro())
	}
	if !q.Until.IsZero() {
		w.And("e.created_at < ?", q.Until.UnixMicro())
	}
	cmp, dir := "<", "DESC"
	if q.Asc {
		cmp, dir = ">", "ASC"
	}
	if q.Cursor != "" {
		after, err := strconv.ParseInt(strings.TrimPrefix(q.Cursor, "evt_"), 10, 64)
		if err != nil {
			return pawl.List[pawl.Event]{}, NotACursor()
		}
		w.And("e.id "+cmp+" ?", after)
	}
	order := "e.id "
	if q.TaskID == "" && q.ItemID == "" {
		few, err := fewEvents(ctx, tx, namespace)
		if err != nil {
			return pawl.List[pawl.Event]{}, err
		}
		if few {
			w.And(readSQL["events of few tasks"], namespace, namespace)
			order = "e.id + 0 " // not along the index of ids, which has the events of all namespaces
		}
	}
	var out []pawl.Event
	err := scanEvents(ctx, tx, w.Text(readSQL["events"], order+dir, q.Limit+1), w.Args, func(_ int64, e pawl.Event) { out = append(out, e) })
	return Paged(out, q.Limit, func(e pawl.Event) string { return e.ID }), err
}

// fewEvents says whether the events of a namespace are found fastest through its tasks.
func fewEvents(ctx context.Context, tx Tx, namespace string) (bool, error) {
	few, err := fewTasks(ctx, tx, namespace)
	if err != nil || !few {
		return false, err
	}
	var n int
	_, err = Row(ctx, tx, []any{&n}, readSQL["count events"], namespace, fewCandidates+1)
	return n <= fewCandidates, err
}

// scanEvents passes the events of a query to take, each with its row number.
func scanEvents(ctx context.Context, tx Tx, query string, args []any, take func(id int64, e pawl.Event)) error {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	var found []eventScan
	for rows.Next() {
		var s eventScan
		if err := s.scan(rows); err != nil {
			return err
		}
		found = append(found, s)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	rows.Close()
	for i := range found {
		move, err := MoveFrom(ctx, tx, found[i].move)
		if err != nil {
			return err
		}
		found[i].is(move)
		take(found[i].id, found[i].Event)
	}
	return nil
}

// eventScan is what a row of task_events is scanned into.
type eventScan struct {
	pawl.Event
	id   int64
	move int
}

func (s *eventScan) scan(rows Rows) error {
	var created int64
	var attempt *int
	var item, actorID, message, data, diff, key, typ, trace Text
	err := rows.Scan(&s.id, &s.Namespace, (*TaskID)(&s.TaskID), (*ItemID)(&item), &attempt, &s.move, &s.ActorType, &actorID, &message,
		&data, &diff, &key, &created, &typ, &trace)
	s.ID, s.TaskType, s.ItemID = "evt_"+strconv.FormatInt(s.id, 10), string(typ), string(item)
	s.ActorID, s.KeyID, s.Message = string(actorID), string(key), string(message)
	s.TraceParent, s.TraceState = TraceOf(trace)
	s.Data, s.Diff, s.CreatedAt = Raw(data), Raw(diff), Stamp(created)
	if attempt != nil {
		s.Attempt = *attempt
	}
	return err
}

// is sets what the event's code stands for.
func (s *eventScan) is(m MoveCode) {
	s.Event.Event, s.FromState, s.ToState, s.TaskFrom, s.TaskTo = m.Event, m.From, m.To, m.TaskFrom, m.TaskTo
	if s.Message == "" {
		for _, info := range pawl.Events {
			if info.Name == m.Event {
				s.Message = info.Means
			}
		}
	}
}

// ResumeSteps lists the newest checkpoint of each name of an item, in the order of their
// number. Of the steps that refer to a message it lists the newest of each message. With
// points it also reads the item's newest checkpoint, and the newest one of each type that a
// resume state has.
func ResumeSteps(ctx context.Context, tx Tx, itemID string, points bool,
	p pawl.Page) (steps pawl.List[CheckpointRow], of []CheckpointRow, err error) {
	after, err := strconv.ParseInt(p.Cursor, 10, 64)
	if err != nil || after < 0 {
		return steps, nil, NotACursor()
	}
	want := 0
	if points {
		want = 4
	}
	var isPoint, isStep []bool
	read, err := scanCheckpoints(ctx, tx, func(rows Rows, into ...any) error {
		var point, step int
		err := rows.Scan(append(into, &point, &step)...)
		isPoint, isStep = append(isPoint, point == 1), append(isStep, step == 1)
		return err
	}, readSQL["resume"], ItemID(itemID), after, want, p.Limit+1+want)
	var named []CheckpointRow
	for i, c := range read {
		if isPoint[i] {
			of = append(of, c)
		}
		if isStep[i] {
			named = append(named, c)
		}
	}
	// Points come first, whatever their number. If not all of the other checkpoints were
	// read, more than Limit of them were.
	slices.SortFunc(named, func(a, b CheckpointRow) int { return cmp.Compare(a.Sequence, b.Sequence) })
	return Paged(named, p.Limit, StepCursor), of, err
}

// StepCursor returns the cursor behind a step of ResumeSteps.
func StepCursor(c CheckpointRow) string { return strconv.FormatInt(c.Sequence, 10) }

// ReadCheckpoints reads checkpoints, if brief without their snapshots. rest is what follows the columns of the statement.
func ReadCheckpoints(ctx context.Context, tx Tx, brief bool, rest string, args ...any) ([]CheckpointRow, error) {
	columns := readSQL["checkpoints"]
	if brief {
		columns = readSQL["checkpoints in brief"]
	}
	return scanCheckpoints(ctx, tx, Rows.Scan, columns+"\n"+rest, args...)
}

func scanCheckpoints(ctx context.Context, tx Tx, scan func(rows Rows, into ...any) error, query string,
	args ...any) ([]CheckpointRow, error) {
	return All(ctx, tx, query, args, func(rows Rows, c *CheckpointRow) error {
		var item, name, args, snapshot, message, until, metadata Text
		var attempt *int
		var created int64
		var size *int64
		if err := scan(rows, &c.ID, &c.namespace, (*TaskID)(&c.TaskID), (*ItemID)(&item), &attempt, &c.Sequence, &c.Type, &name, &args,
			&snapshot, &c.blob, &size,
			&message, &until, &metadata, &created); err != nil {
			return err
		}
		switch {
		case c.blob != nil && size != nil:
			c.size = *size
		case c.blob == nil && snapshot == "":
			s, err := saidOf(until)
			if err != nil {
				return err
			}
			c.said = &s
		}
		c.ItemID, c.Name, c.ArgsHash, c.message = string(item), string(name), string(args), string(message)
		c.Snapshot, c.Metadata, c.CreatedAt = Raw(snapshot), Raw(metadata), Stamp(created)
		if attempt != nil {
			c.Attempt = *attempt
		}
		return nil
	})
}
