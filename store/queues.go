package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-work/pawl"
)

// The dictionary queues holds every type of items in every namespace once; the tables of
// items have the row's number. Like the names of actors, the numbers are looked up by the
// statements that need them. The names and numbers of a row are never changed, and a row is
// never removed.

// QueueName is the namespace and the type of items.
type QueueName struct{ Namespace, Type string }

// Compare orders by namespace, then by type.
func (q QueueName) Compare(o QueueName) int {
	if c := strings.Compare(q.Namespace, o.Namespace); c != 0 {
		return c
	}
	return strings.Compare(q.Type, o.Type)
}

// Queue returns the number that was learned with a queue.
func (n *Names) Queue(name QueueName) (int64, bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	id, known := n.queues[name]
	return id, known
}

// QueueName returns the queue that was learned with a number.
func (n *Names) QueueName(id int64) (QueueName, bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	name, known := n.queueNames[id]
	return name, known
}

// LearnQueue remembers a queue whose row is committed.
func (n *Names) LearnQueue(name QueueName, id int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.queues == nil || len(n.queues) >= pawl.MaxKnownNames {
		n.queues, n.queueNames = map[QueueName]int64{}, map[int64]QueueName{}
	}
	n.queues[name] = id
	if id != NoNumber {
		n.queueNames[id] = name
	}
}

func learnQueue(tx Tx, name QueueName, id int64) {
	if d := dictionaryOf(tx); d != nil {
		if n := d.Known(); n != nil {
			n.LearnQueue(name, id)
		}
	}
}

func knownQueue(tx Tx, name QueueName) (id int64, found bool) {
	if d := dictionaryOf(tx); d != nil {
		if n := d.Known(); n != nil {
			return n.Queue(name)
		}
	}
	return 0, false
}

// EnsureQueues gives every queue its row, if it has none. Statements that follow in the
// transaction find it.
func EnsureQueues(ctx context.Context, tx Tx, names ...QueueName) error {
	var missing []QueueName
	for _, n := range names {
		if _, found := knownQueue(tx, n); !found {
			missing = append(missing, n)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.SortFunc(missing, QueueName.Compare)
	missing = slices.Compact(missing)
	if d := dictionaryOf(tx); d != nil && d.Known() != nil {
		if made, err := d.MakeQueues(ctx, missing); made || err != nil {
			return err
		}
	}
	for _, n := range missing {
		if _, err := QueueID(ctx, tx, n); err != nil {
			return err
		}
	}
	return nil
}

// QueueID returns the number of a queue, and gives the queue its row if it has none.
func QueueID(ctx context.Context, tx Tx, name QueueName) (int64, error) {
	id, found, err := FindQueue(ctx, tx, name)
	if err != nil || found {
		return id, err
	}
	if d := dictionaryOf(tx); d != nil {
		if made, err := d.MakeQueues(ctx, []QueueName{name}); err != nil || made {
			id, _, err = FindQueue(ctx, tx, name)
			return id, err
		}
	}
	if _, err := tx.Exec(ctx, namesSQL["add queue"], name.Namespace, name.Type); err != nil {
		return 0, err
	}
	id, _, err = FindQueue(ctx, tx, name)
	return id, err
}

// FindQueue returns the number of a queue. found is false when the queue has no row: then
// no row of another table has it.
func FindQueue(ctx context.Context, tx Tx, name QueueName) (id int64, found bool, err error) {
	if id, found := knownQueue(tx, name); found && id != NoNumber {
		return id, true, nil
	}
	if found, err = Row(ctx, tx, []any{&id}, namesSQL["queue"], name.Namespace, name.Type); err != nil || !found {
		return 0, false, err
	}
	learnQueue(tx, name, id)
	return id, true, nil
}

// QueueNamed returns the queue that has a number.
func QueueNamed(ctx context.Context, tx Tx, id int64) (name QueueName, err error) {
	if d := dictionaryOf(tx); d != nil {
		if n := d.Known(); n != nil {
			if name, known := n.QueueName(id); known {
				return name, nil
			}
		}
	}
	found, err := Row(ctx, tx, []any{&name.Namespace, &name.Type}, namesSQL["name of queue"], id)
	if err == nil && !found {
		err = &pawl.Error{Code: pawl.CodeInternal, Op: "queue", Message: fmt.Sprintf("queue %d has no row in queues: run pawl doctor", id)}
	}
	if err == nil {
		learnQueue(tx, name, id)
	}
	return name, err
}

// expandQueues replaces these marks by look-ups in the dictionary:
//
//	@queue(namespace, type)  the number of a queue; NULL without a row
//	@queues($3, $4)          an array of the numbers of queues, looked up once (PostgreSQL)
//	@queues_of(namespace)    the numbers of all queues of a namespace, for IN
//	@namespace_of(number)    the namespace of a queue
//	@type_of(number)         its type
//	@not_paused(q)           items may be claimed from the queue whose row is q
//	@claimable(q)            the number q, or NULL if its queue is paused
//	@unlimited(q)            the number q, or NULL if its queue is paused or has limits
//
// A column that is an argument needs the name of its table before it if queues has a column
// of the same name.
func expandQueues(query string) string {
	query = expand(query, "@queues(", func(arg string) string {
		namespaces, types, _ := strings.Cut(arg, ", ")
		return "(ARRAY(SELECT @queue(u.namespace, u.type) FROM unnest(" + namespaces + "::text[], " + types + "::text[]) AS u(namespace, type)))"
	})
	query = expand(query, "@claimable(", in("(SELECT pawl.queues.id FROM pawl.queues WHERE pawl.queues.id = %s AND @not_paused(pawl.queues))"))
	query = expand(query, "@unlimited(", in("(SELECT pawl.queues.id FROM pawl.queues "+
		"WHERE pawl.queues.id = %s AND pawl.queues.limited IS NULL AND @not_paused(pawl.queues))"))
	query = expand(query, "@not_paused(", func(q string) string {
		return "(" + q + ".paused_at IS NULL AND NOT EXISTS (SELECT 1 FROM pawl.paused_namespaces n WHERE n.namespace = " + q + ".namespace))"
	})
	query = expand(query, "@queue(", func(arg string) string {
		namespace, kind, _ := strings.Cut(arg, ", ")
		return "(SELECT pawl.queues.id FROM pawl.queues WHERE pawl.queues.namespace = " + namespace + " AND pawl.queues.type = " + kind + ")"
	})
	query = expand(query, "@queues_of(", in("(SELECT pawl.queues.id FROM pawl.queues WHERE pawl.queues.namespace = %s)"))
	query = expand(query, "@namespace_of(", in("(SELECT pawl.queues.namespace FROM pawl.queues WHERE pawl.queues.id = %s)"))
	return expand(query, "@type_of(", in("(SELECT pawl.queues.type FROM pawl.queues WHERE pawl.queues.id = %s)"))
}

// Namespaces returns those after a name that had work, in order, at most limit.
func Namespaces(ctx context.Context, tx Tx, after string, limit int) ([]string, error) {
	return Strings(ctx, tx, namesSQL["namespaces"], limit, after)
}
