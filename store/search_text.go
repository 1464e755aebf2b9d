package store

import (
	"context"
	"slices"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/idform"
)

var searchSQL = Texts(sqlFiles, "search.sql")

// searchTasks adds the conditions of a filter that search: by the beginnings of ids, types and
// titles, by the text of errors, and by a group of failures.
func (l *listing[T]) searchTasks(ctx context.Context, tx Tx, namespace string, q *pawl.TaskFilter) error {
	if low, high, of := idRange(q.Search); of != "" {
		l.tasksOfIDs(low, high, of)
	} else if q.Search != "" {
		types, err := typesWith(ctx, tx, namespace, q.Search)
		switch {
		case err != nil:
			return err
		case len(types) == 0:
			l.titled(q.Search)
		default:
			low, high := titleRange(q.Search)
			l.own.And("(t.type @among(?) OR t.title IS NOT NULL AND @lower(t.title) >= ? AND @lower(t.title) < ?)", List(types), low, high)
		}
	}
	if q.TitlePrefix != "" {
		l.titled(q.TitlePrefix)
	}
	if q.Failure != "" {
		if err := l.ofFailure(ctx, tx, namespace, q.Failure); err != nil {
			return err
		}
	}
	if q.Error != "" {
		l.errors("task", q.Error)
		l.sets = append(l.sets, candidates{ordered: true, sources: []source{
			from("task_id", "parked_items", " AND error IS NOT NULL"), from("task_id", "ready", failedBefore),
			from("task_id", "scheduled", failedBefore), from("task_id", "waiting", failedBefore), from("task_id", "leases", failedBefore)}})
	}
	return nil
}

// ofFailure adds the condition that a task, or one of its items, is in a group of failures.
func (l *listing[T]) ofFailure(ctx context.Context, tx Tx, namespace, failure string) error {
	typ, key, _ := pawl.ParseFailureName(failure)
	ofItems, err := isOfItems(ctx, tx, namespace, failure)
	if ofItems {
		l.own.And("EXISTS (SELECT 1 FROM pawl.parked_items f WHERE f.task_id = t.id AND f.error IS NOT NULL AND f.failure = ? AND f.queue_id = "+
			"(SELECT q.id FROM pawl.queues q WHERE q.namespace = ? AND q.type = ?))", key, namespace, typ)
		l.sets = append(l.sets, failureSource("task_id", key, typ))
		return err
	}
	l.own.And("t.type = ?", typ)
	const alone = "' AND failed_in IS NOT NULL"
	l.sets = append(l.sets, candidates{ordered: true, sources: []source{from("task_id", "task_counters", rare+string(pawl.TaskFailed)+alone),
		from("task_id", "task_counters", rare+string(pawl.TaskDeadLettered)+alone)}})
	l.only(func(ctx context.Context, tx Tx, ids []string) ([]string, error) {
		return tasksOfFailure(ctx, tx, namespace, failure, ids)
	})
	return err
}

// failedBefore is the condition of the indexes of items that have failed and may be tried again.
const failedBefore = " AND failures > 0"

// failureSource has the items of a group of failures, or their tasks.
func failureSource(column string, key int64, typ string) candidates {
	return candidates{ordered: true, args: []any{key, typ}, sources: []source{from(column, "parked_items",
		" AND queue_id = (SELECT q.id FROM pawl.queues q WHERE q.namespace = $1 AND q.type = $4) AND failure = $3")}}
}

// tasksOfIDs adds the condition that the id of a task, of one of its items or of one of its
// messages lies in a range.
func (l *listing[T]) tasksOfIDs(low, high, of string) {
	switch of {
	case taskPrefix:
		l.own.And("t.id >= ?", TaskID(low))
		l.own.And("t.id <= ?", TaskID(high))
		l.indexed = true
	case itemPrefix:
		l.own.And("EXISTS (SELECT 1 FROM pawl.all_items w WHERE w.task_id = t.id AND w.id >= ? AND w.id <= ?)", ItemID(low), ItemID(high))
		l.sets = append(l.sets, candidates{args: []any{ItemID(low), ItemID(high)},
			sources: []source{from("task_id", "all_items", " AND id >= $3 AND id <= $4")}})
	default:
		l.own.And("EXISTS (SELECT 1 FROM pawl.messages m WHERE m.task_id = t.id AND m.id >= ? AND m.id <= ?)", low, high)
		l.sets = append(l.sets, candidates{args: []any{low, high}, sources: []source{from("task_id", "messages", " AND id >= $3 AND id <= $4")}})
	}
}

// titled adds the condition that the title begins with a text.
func (l *listing[T]) titled(prefix string) {
	low, high := titleRange(prefix)
	l.own.And("t.title IS NOT NULL AND @lower(t.title) >= ? AND @lower(t.title) < ?", low, high)
	l.sets = append(l.sets, candidates{args: []any{low, high},
		sources: []source{from("id", "tasks", " AND title IS NOT NULL AND @lower(title) >= $3 AND @lower(title) < $4")}})
}

// titleRange returns the texts between which those are that begin with prefix. The case of ASCII
// letters does not count.
func titleRange(prefix string) (low, high string) {
	low = lower(prefix)
	return low, low + string(rune(0x10FFFF))
}

func lower(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// messagePrefix begins the ids of messages.
const messagePrefix = "msg_"

// idRange returns the ids that begin with a text, if it is the beginning of an id: the first, the
// last and their prefix. A UUID is the id of a task.
func idRange(text string) (low, high, prefix string) {
	text = strings.TrimSpace(idform.Task(text))
	for _, p := range []string{taskPrefix, itemPrefix, messagePrefix} {
		if len(text) < len(p) || !strings.EqualFold(text[:len(p)], p) || len(text) > len(FirstTask) {
			continue
		}
		digits := strings.ToUpper(text[len(p):])
		if strings.Trim(digits, "0123456789ABCDEFGHJKMNPQRSTVWXYZ") != "" {
			continue
		}
		left := len(FirstTask) - len(p) - len(digits)
		low, high = p+digits+strings.Repeat("0", left), p+digits+strings.Repeat("Z", left)
		if digits == "" {
			high = p + "7" + high[len(p)+1:]
		}
		return low, high, p
	}
	return "", "", ""
}

// typesWith returns the types of a namespace that begin with a text. The case of ASCII letters
// does not count.
func typesWith(ctx context.Context, tx Tx, namespace, prefix string) (out []string, err error) {
	err = EachRow(ctx, tx, func(rows Rows) error {
		var typ string
		if err := rows.Scan(&typ); err != nil {
			return err
		}
		if strings.HasPrefix(lower(typ), lower(prefix)) {
			out = append(out, typ)
		}
		return nil
	}, searchSQL["types"], namespace)
	return out, err
}

// only has the list want only rows that wants returns, of those whose ids it is given.
func (l *listing[T]) only(wants func(ctx context.Context, tx Tx, ids []string) ([]string, error)) {
	before := l.check
	l.check = func(ctx context.Context, tx Tx, keys []string) (left []string, err error) {
		if before != nil {
			keys, err = before(ctx, tx, keys)
		}
		if err != nil || len(keys) == 0 {
			return nil, err
		}
		ids, err := wants(ctx, tx, l.noun.idsOf(keys))
		wanted := map[string]bool{}
		for _, id := range ids {
			wanted[id] = true
		}
		return slices.DeleteFunc(keys, func(key string) bool { return !wanted[key[strings.Index(key, l.noun.prefix):]] }), err
	}
}

// errors has the list want only rows of which the code or the message of an error contains a
// text, in any case of its letters. of is "task" or "item".
func (l *listing[T]) errors(of, text string) {
	text = strings.ToLower(text)
	l.only(func(ctx context.Context, tx Tx, ids []string) (with []string, err error) {
		err = EachRow(ctx, tx, func(rows Rows) error {
			id := l.noun.target()
			var failure Text
			err := rows.Scan(id, &failure)
			f := FailureOf(failure)
			if f != nil && (strings.Contains(strings.ToLower(f.Message), text) || strings.Contains(strings.ToLower(f.Code), text)) {
				with = append(with, textOf(id))
			}
			return err
		}, searchSQL["errors of "+of], l.noun.list(ids))
		return with, err
	})
}

// textOf returns the text of an id that was scanned.
func textOf(id IDTarget) string {
	switch id := id.(type) {
	case *TaskID:
		return string(*id)
	case *ItemID:
		return string(*id)
	}
	return ""
}
