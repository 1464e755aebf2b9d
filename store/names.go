package store

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/pawl-work/pawl"
)

// The dictionary actors holds every name of an actor and of a worker once; other tables
// have the row's number. A row is never changed and never removed.
//
// The statements find the numbers of names by themselves, on PostgreSQL, or in their
// transaction, on SQLite. So no number can be wrong after a rollback or after a database
// went back in time. What a process remembers (Names) only saves the look-up whether a
// name has its row.

var namesSQL = Texts(sqlFiles, "names.sql")

// ActorName is the name of an actor. Workers have the kind pawl.ActorWorker. Name is "" for
// an actor that is known only by its kind.
type ActorName struct{ Kind, Name string }

// SystemActor is the number of the actor system, which every database has.
const SystemActor = 0

// NoNumber is learned with a name whose row is known to exist, without its number.
const NoNumber = -1

// Worker returns the name of a worker.
func Worker(id string) ActorName { return ActorName{pawl.ActorWorker, id} }

// Named returns the actor's name in the dictionary.
func (a Actor) Named() ActorName { return ActorName{a.Type, a.ID} }

func (n ActorName) compare(o ActorName) int {
	return cmp.Or(strings.Compare(n.Kind, o.Kind), strings.Compare(n.Name, o.Name))
}

// check refuses a name that the doors would refuse: a program that embeds the engine states
// its actor itself.
func (n ActorName) check() error {
	if utf8.RuneCountInString(n.Name) > pawl.MaxIDLen || !utf8.ValidString(n.Name) || strings.ContainsRune(n.Name, 0) {
		return pawl.Invalid("/actor_id", "is to be a text of at most %d characters", pawl.MaxIDLen)
	}
	return nil
}

// Names remembers the numbers of up to pawl.MaxKnownNames names of a kind; when there are more, it
// begins anew. It is safe for concurrent use. The zero value remembers nothing yet.
type Names struct {
	mu         sync.RWMutex
	actors     map[ActorName]int64
	queues     map[QueueName]int64
	queueNames map[int64]QueueName
}

// Actor returns the number that was learned with a name.
func (n *Names) Actor(name ActorName) (int64, bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	id, known := n.actors[name]
	return id, known
}

// Learn remembers a name whose row is committed.
func (n *Names) Learn(name ActorName, id int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.actors == nil || len(n.actors) >= pawl.MaxKnownNames {
		n.actors = map[ActorName]int64{}
	}
	n.actors[name] = id
}

// Forget forgets every name.
func (n *Names) Forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.actors, n.queues, n.queueNames = nil, nil, nil
}

// Dictionary is implemented by transactions that remember names between them.
type Dictionary interface {
	// Known returns what is remembered; nil = nothing that this transaction may use or add to.
	Known() *Names
	// MakeActors inserts the names in a transaction of its own and returns true. Where only
	// one transaction can write, it returns false: the caller's transaction inserts them, and
	// remembers no name from then on.
	MakeActors(ctx context.Context, names []ActorName) (bool, error)
	// MakeQueues does the same for queues.
	MakeQueues(ctx context.Context, names []QueueName) (bool, error)
}

// dictionaryOf returns the Dictionary of a transaction, or nil.
func dictionaryOf(tx Tx) Dictionary {
	if d, ok := tx.(Dictionary); ok {
		return d
	}
	if u, ok := tx.(interface{ Unwrap() Tx }); ok {
		return dictionaryOf(u.Unwrap())
	}
	return nil
}

func known(tx Tx, name ActorName) (id int64, found bool) {
	if name == (ActorName{Kind: pawl.ActorSystem}) {
		return SystemActor, true
	}
	if d := dictionaryOf(tx); d != nil {
		if n := d.Known(); n != nil {
			return n.Actor(name)
		}
	}
	return 0, false
}

// EnsureActors gives every name its row, if it has none. Statements that follow in the
// transaction find it.
func EnsureActors(ctx context.Context, tx Tx, names ...ActorName) error {
	var missing []ActorName
	for _, n := range names {
		if _, found := known(tx, n); !found {
			missing = append(missing, n)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	for _, n := range missing {
		if err := n.check(); err != nil {
			return err
		}
	}
	slices.SortFunc(missing, ActorName.compare)
	missing = slices.Compact(missing)
	if d := dictionaryOf(tx); d != nil && d.Known() != nil {
		if made, err := d.MakeActors(ctx, missing); made || err != nil {
			return err
		}
	}
	for _, n := range missing {
		if _, err := ActorID(ctx, tx, n); err != nil {
			return err
		}
	}
	return nil
}

// ActorID returns the number of a name, and gives the name its row if it has none.
func ActorID(ctx context.Context, tx Tx, name ActorName) (int64, error) {
	id, found, err := FindActor(ctx, tx, name)
	if err == nil && !found {
		err = name.check()
	}
	if err != nil || found {
		return id, err
	}
	if d := dictionaryOf(tx); d != nil {
		if made, err := d.MakeActors(ctx, []ActorName{name}); err != nil || made {
			id, _, err = FindActor(ctx, tx, name)
			return id, err
		}
	}
	if _, err := tx.Exec(ctx, namesSQL["add actor"], name.Kind, name.Name); err != nil {
		return 0, err
	}
	id, _, err = FindActor(ctx, tx, name)
	return id, err
}

// FindActor returns the number of a name. found is false when the name has no row: then no
// row of another table has it.
func FindActor(ctx context.Context, tx Tx, name ActorName) (id int64, found bool, err error) {
	if id, found := known(tx, name); found && id != NoNumber {
		return id, true, nil
	}
	rows, err := tx.Query(ctx, namesSQL["actor"], name.Kind, name.Name)
	if err != nil {
		return 0, false, err
	}
	defer rows.Close()
	if !rows.Next() {
		return 0, false, rows.Err()
	}
	if err := rows.Scan(&id); err != nil {
		return 0, false, err
	}
	if d := dictionaryOf(tx); d != nil {
		if n := d.Known(); n != nil {
			n.Learn(name, id)
		}
	}
	return id, true, nil
}

// ActorNames returns the names of the given numbers.
func ActorNames(ctx context.Context, tx Tx, ids []int64) (map[int64]string, error) {
	actors, err := namedActors(ctx, tx, ids)
	out := make(map[int64]string, len(actors))
	for id, a := range actors {
		out[id] = a.Name
	}
	return out, err
}

// namedActors returns the actors of the given numbers.
func namedActors(ctx context.Context, tx Tx, ids []int64) (map[int64]ActorName, error) {
	out := map[int64]ActorName{}
	if len(ids) == 0 {
		return out, nil
	}
	slices.Sort(ids)
	list := make([][]int64, 0, len(ids))
	for _, id := range slices.Compact(ids) {
		list = append(list, []int64{id})
	}
	text, _ := json.Marshal(list) // numbers always marshal
	return out, EachRow(ctx, tx, func(rows Rows) error {
		var id int64
		var a ActorName
		err := rows.Scan(&id, &a.Kind, &a.Name)
		out[id] = a
		return err
	}, namesSQL["names of actors"], string(text))
}

// nameWorkers sets WorkerID of rows, from the numbers of their workers.
func nameWorkers(ctx context.Context, tx Tx, rows []StateRow) error {
	var ids []int64
	for i := range rows {
		if rows[i].Worker != nil {
			ids = append(ids, *rows[i].Worker)
		}
	}
	names, err := ActorNames(ctx, tx, ids)
	for i := range rows {
		if rows[i].Worker != nil {
			rows[i].WorkerID = Text(names[*rows[i].Worker])
		}
	}
	return err
}

// ExpandNames replaces these marks by look-ups in the dictionary:
//
//	@actor(kind, name)   the number of an actor; NULL without a row
//	@worker(name)        the number of a worker; NULL for NULL
//	@workers($3)         an array of the numbers of workers, looked up once (PostgreSQL)
//	@actors($3, $4)      an array of the numbers of actors
//	@kind_of(number)     the kind of an actor
//	@name_of(number)     its name; NULL without one
//	@system              the number of the actor system
//
// and @undecided(f) by the condition that a row f of effects is being sent, or is unknown and not resolved. A reference
// of a fork or clone counts once it was sent.
//
// Those of queues are described at expandQueues.
func ExpandNames(query string) string {
	query = expandQueues(query)
	query = expand(query, "@workers(", in("(ARRAY(SELECT @worker(u.name) FROM unnest(%s::text[]) AS u(name)))"))
	query = expand(query, "@actors(", func(arg string) string {
		kinds, names, _ := strings.Cut(arg, ", ")
		return "(ARRAY(SELECT @actor(u.kind, u.name) FROM unnest(" + kinds + "::text[], " + names + "::text[]) AS u(kind, name)))"
	})
	query = expand(query, "@worker(", in("(SELECT pawl.actors.id FROM pawl.actors WHERE pawl.actors.kind = '"+pawl.ActorWorker+
		"' AND pawl.actors.name = %s)"))
	query = expand(query, "@actor(", func(arg string) string {
		kind, name, _ := strings.Cut(arg, ", ")
		return "(SELECT pawl.actors.id FROM pawl.actors WHERE pawl.actors.kind = " + kind + " AND pawl.actors.name = COALESCE(" + name + ", ''))"
	})
	query = expand(query, "@kind_of(", in("(SELECT pawl.actors.kind FROM pawl.actors WHERE pawl.actors.id = %s)"))
	query = expand(query, "@name_of(", in("(SELECT NULLIF(pawl.actors.name, '') FROM pawl.actors WHERE pawl.actors.id = %s)"))
	query = expand(query, "@undecided(", in("(%s.gone = 0 AND (%s.state = 'open' OR %s.state = 'unknown' AND "+
		"%s.outcome IS NULL AND %s.sendings > 0))"))
	return strings.ReplaceAll(query, "@system", "0")
}
