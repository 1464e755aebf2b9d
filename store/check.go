package store

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
)

var checkSQL = Texts(sqlFiles, "check.sql")

// Breach is one violation of a rule.
type Breach struct {
	Rule    string `json:"rule"`
	Code    string `json:"code,omitempty"` // the rule in snake_case, if it has such a name; it does not change
	Subject string `json:"subject"`        // what violates the rule: an id where there is one
	Found   string `json:"found"`
	Repair  string `json:"mend"` // how to repair it
	task    Text
}

// Rule is an invariant.
type Rule struct {
	Name   string
	Says   string
	Repair string
}

// RuleSearch is a rule with the statement that searches for its violations.
type RuleSearch struct {
	Rule
	SQL string
	// Find searches instead of a statement, and reports the subject of each violation and what it found.
	Find func(ctx context.Context, tx Tx, report func(Breach)) error
}

// RuleSearches are those of Rules.
func RuleSearches() []RuleSearch {
	out := make([]RuleSearch, len(Rules))
	for i, r := range Rules {
		out[i] = RuleSearch{Rule: r, SQL: checkSQL[r.Name]}
	}
	return out
}

// Rules lists the rules of the store, whose statements are the texts of their names in check.sql. The rooms of the engine
// have more.
var Rules = []Rule{
	{"file", "the database file is sound", "restore a backup"},
	{"one place", "an item has a row in exactly one of ready, scheduled, waiting, leases, parked_items and finished_items",
		"keep the row in the table of the state that its newest event names, and remove the others; " +
			"if it has none, insert it into parked_items as failed and retry it"},
	{"carried", "the row in the table of an item's state has the same values as the item and its task",
		"copy the columns of the item and its task to that row"},
	{"lease", "a leased item has a worker, an attempt and an end of its lease", "remove the lease's row and insert the item into ready"},
	{"names", "every number of an actor or a worker is one of the dictionary actors",
		"restore a backup: the name that the number had is lost"},
	{"queues", "every number of a queue is one of the dictionary queues, with the namespace and type of the item",
		"set items.queue_id to the number that queues has for the item's namespace and type"},
	{"gates", "an item's gate is one of its queue, and a gate's queue is there",
		"set the column gate of the item's row to NULL: the next search for items without a gate sets it; delete a gate without a queue"},
	{"budget", "failures are at most attempts, and below max_attempts while there is work left",
		"set failures to what the events since the last retry count"},
	{"dependencies", "a waiting item needs as many items as it depends on that have not completed", "set waiting.needs to that number"},
	{"feeders", "an item that others depend on has feeds set", "set feeds to 1 in the row in the table of its state"},
	{"counters", "the counters of a task of many items count its items", "set the counters to what was counted"},
	{"settled", "a task of many items is open exactly while one of its items has work left",
		"set task_counters.state to what the states of the items require, and insert the event"},
	{"only item", "a task has items; a task of one has just the item with its own ULID",
		"set solo to 0 and give the task its counters, or delete the task"},
	{"codes", "the code of each event is one of the table of moves, and names an item exactly if the event does",
		"events cannot be changed: find out which program changed the table directly, and restore a backup"},
	{"item record", "each event of an item begins in the state in which the previous one ended",
		"events cannot be changed: find out which program changed the table directly, and restore a backup"},
	{"item state", "an item's state is the one that its newest event names, and its attempt counts its claims",
		"move the row to the table of the state that the newest event names"},
	{"task record", "each event of a task begins in the state in which the previous one ended",
		"events cannot be changed: find out which program changed the table directly, and restore a backup"},
	{"task state", "a task's state is the one that its newest event names, and its version counts its changes",
		"set task_counters.state to the state that the newest event names, and version to the number of changes"},
	{"hangs on its task", "every row of a task has its task, and its namespace", "delete the rows"},
	{"hangs on its item", "every event and checkpoint of an item has its item, of the same task and namespace", "delete the rows"},
	{"loose ends", "every part, dependency, deadline, unique key, chunk, key and provenance has its owner", "delete the rows"},
	{"steps", "a step without a snapshot of its own has its message", "restore a backup: what the message said is lost"},
	{"blobs", "every blob that a checkpoint or another blob refers to is there", "restore a backup: what it held is lost"},
	{"blob contents", "the address of a blob is the SHA-256 of what it stores", "restore a backup: what it held is lost"},
	{"effects", "an effect has its item, an open one of an attempt has its lease, and the lease counts those that are open",
		"resolve the effect, or set leases.effects to that number; set gone to 1 for an effect without a task"},
	{"input hash", "only tasks that are neither cancelled nor rejected nor dead-lettered hold an input hash", "set tasks.dedupes to 0"},
	{RuleArchive, "every archive of a task that is not there can be read, and its events are those that were logged",
		"restore the file of the archive from a backup; without it the task is lost"},
	{RuleRetention, "a pass of retention finds every task that has ended",
		"archive and remove it by hand, or delete it: pawl task delete"},
	{"gate", "retention_gate is empty, so that events and checkpoints cannot be deleted", "delete the rows of retention_gate"},
}

// The rules that a sweeper checks: archives are its own, and so is what its passes find.
const (
	RuleArchive   = "archive_unreadable"
	RuleRetention = "retention_stuck"
)

// codeOfRule returns the code of a rule that has one; "" = it has a name in words.
func codeOfRule(name string) string {
	if strings.Contains(name, "_") {
		return name
	}
	return ""
}

// BreachOf returns a breach of a rule that is not a statement.
func BreachOf(rule, subject, found string) Breach {
	return Breach{Rule: rule, Code: codeOfRule(rule), Subject: subject, Found: found, Repair: RuleOf(rule).Repair}
}

// RuleOf returns the rule of a name.
func RuleOf(name string) Rule {
	return Rules[slices.IndexFunc(Rules, func(r Rule) bool { return r.Name == name })]
}

// pageItems is the least number of items that one page of tasks covers.
const pageItems = 20_000

// fewItems is how many items a database has at most whose rules are all checked in one snapshot: a
// transaction for each rule would cost more than its search.
const fewItems = 1_000

// checking is one check of a database.
type checking struct {
	db     DB
	rules  []RuleSearch
	report func(Breach)
}

// Check searches for violations of rules and passes them to report as they are found.
// Each search is one statement in its own snapshot, but in a small database they share one. It covers about
// 20,000 items and the rest of the last task among them, so Check can run beside all other work. A task whose
// deletion has begun, or that is still being copied, is skipped.
func Check(ctx context.Context, db DB, rules []RuleSearch, report func(Breach)) error {
	c := checking{db, rules, report}
	sound, err := c.file(ctx)
	if err != nil || !sound { // the other contents of a damaged file are not reliable, and some cannot be read
		return err
	}
	few, err := c.pageAfter(ctx, FirstTask, fewItems)
	if err != nil {
		return err
	}
	small := few == LastTask
	for after, first := FirstTask, true; after != LastTask; first = false {
		until := few
		if !small {
			if until, err = c.pageAfter(ctx, after, pageItems); err != nil {
				return err
			}
		}
		if err := c.page(ctx, small, first, []any{TaskID(after), TaskID(until)}); err != nil {
			return err
		}
		after = until
	}
	return RuleOf("blob contents").changedBlobs(ctx, db, report)
}

// look carries out searches in one snapshot, and reports what they found.
func (c *checking) look(ctx context.Context, searches ...search) error {
	var found []Breach
	err := c.db.View(ctx, func(ctx context.Context, tx Tx) error {
		found = found[:0] // it may run again
		for _, s := range searches {
			if err := s(ctx, tx, func(b Breach) { found = append(found, b) }); err != nil {
				return err
			}
		}
		return nil
	})
	for _, b := range found {
		c.report(b)
	}
	return err
}

type search func(ctx context.Context, tx Tx, report func(Breach)) error

// file checks the file of a database that is one.
func (c *checking) file(ctx context.Context) (sound bool, err error) {
	r, sound := RuleSearch{Rule: RuleOf("file"), SQL: checkSQL["file"]}, true
	if !c.db.Dialect().ChecksFile {
		return true, nil
	}
	to := checking{c.db, nil, func(b Breach) { sound = false; c.report(b) }}
	if err = to.look(ctx, r.search(nil)); errors.Is(err, pawl.ErrInternal) { // it is so damaged that the check itself fails
		to.report(Breach{Rule: r.Name, Subject: "the file", Found: err.Error(), Repair: r.Repair})
		err = nil
	}
	return sound, err
}

// pageAfter returns the last task of the page of at least n items behind a task.
func (c *checking) pageAfter(ctx context.Context, after string, n int) (until string, err error) {
	err = c.db.View(ctx, func(ctx context.Context, tx Tx) error {
		until = LastTask
		_, err := Row(ctx, tx, []any{(*TaskID)(&until)}, checkSQL["page of tasks"], TaskID(after), n)
		return err
	})
	return until, err
}

// page checks the rules about the tasks of one page, and with the first page those about the whole database.
func (c *checking) page(ctx context.Context, small, first bool, page []any) error {
	var all []search
	for _, r := range c.rules {
		paged := strings.Contains(r.SQL, "$2")
		switch {
		case slices.Contains(searchedApart, r.Name):
		case paged:
			all = append(all, r.search(page))
		case first:
			all = append(all, r.search(nil))
		}
	}
	if small {
		return c.look(ctx, all...)
	}
	for _, s := range all {
		if err := c.look(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// searchedApart are the rules that are not one statement each in the snapshot of a page.
var searchedApart = []string{"file", "blob contents", RuleArchive, RuleRetention}

// isPassing says whether a task is being deleted, or being made.
func isPassing(ctx context.Context, tx Tx, taskID string) (bool, error) {
	is, err := beingDeleted(ctx, tx, taskID)
	if err == nil && !is {
		is, err = IsCopy(ctx, tx, taskID)
	}
	return is, err
}

// search returns the search for violations of a rule.
func (r RuleSearch) search(page []any) search {
	return func(ctx context.Context, tx Tx, report func(Breach)) error {
		if r.Find != nil {
			return r.Find(ctx, tx, func(b Breach) {
				b.Rule, b.Repair = r.Name, r.Repair
				report(b)
			})
		}
		found, err := r.find(ctx, tx, page)
		if err != nil {
			return err
		}
		leaving := map[Text]bool{}
		for _, b := range found {
			if _, known := leaving[b.task]; !known && b.task != "" {
				if leaving[b.task], err = isPassing(ctx, tx, string(b.task)); err != nil {
					return err
				}
			}
			if !leaving[b.task] {
				report(b)
			}
		}
		return nil
	}
}

// changedBlobs compares every blob with its address.
func (r Rule) changedBlobs(ctx context.Context, db DB, report func(Breach)) error {
	for place, n := (BlobPlace{}), pageBlobs; n == pageBlobs; {
		err := db.View(ctx, func(ctx context.Context, tx Tx) error {
			n = 0
			rows, err := tx.Query(ctx, blobSQL["page"], place.Namespace, place.bytes(), pageBlobs)
			if err != nil {
				return err
			}
			defer rows.Close()
			for ; rows.Next(); n++ {
				var b Blob
				if err := rows.Scan(&place.Namespace, &b.Address, &b.Base, &b.Size, &b.Body); err != nil {
					return err
				}
				place.Address = b.Address
				if b.intact() && !b.sized() {
					report(Breach{Rule: r.Name, Subject: BlobName(b.Address), Found: "its size is not that of its text",
						Repair: "set blobs.size to the length of the text"})
				}
				if !b.intact() {
					report(Breach{Rule: r.Name, Subject: BlobName(b.Address), Found: "what it stores was changed", Repair: r.Repair})
				}
			}
			return rows.Err()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// pageBlobs is the number of blobs that one read of changedBlobs covers.
const pageBlobs = 100

// longestWindow is the longest time for which a key is held without its task.
const longestWindow = max(pawl.MaxUniqueSeconds, pawl.DebounceMaxTimes*pawl.MaxDebounceSeconds) * time.Second

func (r RuleSearch) find(ctx context.Context, tx Tx, page []any) ([]Breach, error) {
	if r.Name == "loose ends" {
		now, err := tx.Now(ctx)
		if err != nil {
			return nil, err
		}
		page = []any{now + longestWindow.Microseconds()}
	}
	rows, err := tx.Query(ctx, r.SQL, page...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Breach
	for rows.Next() {
		b := Breach{Rule: r.Name, Code: codeOfRule(r.Name), Repair: r.Repair}
		if r.Name == "file" {
			b.Subject = "the file"
			err = rows.Scan(&b.Found)
		} else {
			err = rows.Scan(&b.Subject, (*TaskID)(&b.task), &b.Found)
		}
		if err != nil {
			return out, err
		}
		if r.Name != "file" || b.Found != "ok" {
			out = append(out, b)
		}
	}
	return out, rows.Err()
}
