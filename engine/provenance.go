package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/internal/idform"
	"github.com/pawl-work/pawl/store"
)

// subject names what a call changed, for its provenance row.
type subject struct {
	task, item string
	attempt    int
}

func subjectOfTask(t pawl.Task) subject {
	if t.Deduplicated || t.DryRun {
		return subject{} // nothing was changed
	}
	return subject{task: t.ID}
}

func subjectOfMove(m pawl.Moved) subject {
	if m.Repeated {
		return subject{} // nothing was changed
	}
	return subject{m.TaskID, m.ID, m.Attempt}
}

// withProvenance runs the calls of a batch verb. If none of them has provenance, it only
// calls run. Otherwise they run in one transaction with their provenance rows, and not in
// the group commit; run gets the calls without their provenance. A call whose key was used
// for the same verb and subject before is refused; the other calls then run one by one.
func withProvenance[C, R any](ctx context.Context, e *Engine, verb string, calls []C, of func(R) subject,
	run func(*Engine, context.Context, []C) ([]pawl.Result[R], error)) ([]pawl.Result[R], error) {
	calls = pawl.Provenant(ctx, calls)
	if !hasProvenance(calls) {
		return run(e, ctx, calls)
	}
	if err := rules.CheckBatch(verb, len(calls)); err != nil {
		return nil, err
	}
	ctx = pawl.WithProvenance(ctx, pawl.Provenance{}) // the caller's provenance does not apply to what follows from a call
	out := make([]pawl.Result[R], len(calls))
	valid, at := make([]C, 0, len(calls)), make([]int, 0, len(calls))
	provenances := make([]*provenance, len(calls))
	for i := range calls {
		if provenances[i], out[i].Err = provenanceOf(ctx, e.key(), verb, &calls[i]); out[i].Err == nil {
			valid, at = append(valid, calls[i]), append(at, i)
			*pawl.ProvenanceOf(&valid[len(valid)-1]) = nil
		}
	}
	if len(valid) == 0 {
		return out, nil
	}
	part := func(ctx context.Context, e *Engine, calls []C, at []int) error {
		return e.storeProvenance(ctx, func(ctx context.Context) (rows []provenance, err error) {
			rs, err := run(e, ctx, calls)
			for i := range rs {
				out[at[i]] = rs[i]
				if rs[i].Err == nil {
					rows = e.addProvenance(rows, provenances[at[i]], of(rs[i].Value))
				}
			}
			return rows, err
		})
	}
	s, err := e.k.Together(ctx, nil, e.on(func(ctx context.Context, e *Engine) error {
		e.scope.Single = e.scope.Single && len(valid) == 1
		err := part(ctx, e, valid, at)
		if !errors.Is(err, errKeyUsed) || e.scope.Single {
			return err
		}
		for i := range valid {
			err := part(ctx, e, valid[i:i+1], at[i:i+1])
			if errors.Is(err, errKeyUsed) {
				out[at[i]] = pawl.Result[R]{Err: err}
			} else if err != nil {
				return err
			}
		}
		return nil
	}))
	if err = e.k.Finish(ctx, s, err); errors.Is(err, errKeyUsed) { // it was the only call
		out[at[0]], err = pawl.Result[R]{Err: err}, nil
	}
	return out, err
}

// hasProvenance reports whether one of the calls has provenance.
func hasProvenance[C any](calls []C) bool {
	for i := range calls {
		if *pawl.ProvenanceOf(&calls[i]) != nil {
			return true
		}
	}
	return false
}

// key returns the idempotency key of the call that e carries out; "" = none.
func (e *Engine) key() string {
	if e.scope == nil {
		return ""
	}
	return e.scope.Key
}

// eventWithProvenance has the event of each verb that takes provenance.
var eventWithProvenance = map[string]string{"create": "proposed", "claim": "leased", "submit": "submitted", "finalize": "submitted",
	"complete": "completed", "fail": "failed", "approve": "approved", "reject": "rejected"}

// provenanceOf returns the provenance row of a call, or nil if the call has none. It
// fills in fields that the caller left empty. key is the idempotency key of the call.
func provenanceOf(ctx context.Context, key, verb string, call any) (*provenance, error) {
	given := pawl.ProvenanceOf(call)
	p := *given
	if p == nil {
		return nil, nil
	}
	if err := rules.CheckProvenance(verb, p); err != nil {
		return nil, err
	}
	c := pawl.CallerOf(ctx)
	row := &provenance{Namespace: c.Namespace, Verb: verb, Provenance: *p}
	row.AgentID = cmp.Or(p.AgentID, workerOf(call), c.ActorID)
	if key = cmp.Or(p.IdempotencyKey, key); key != "" {
		row.IdempotencyKey = rules.KeyHash(key)
	}
	if p.RequestFingerprint == "" {
		*given = nil // the fingerprint covers the request without its provenance
		hash, err := pawl.HashOf(call)
		*given = p
		if err != nil {
			return nil, err
		}
		row.RequestFingerprint = hash
	}
	row.Event = eventWithProvenance[verb]
	return row, nil
}

// addProvenance adds the row of a call to rows, with what the call changed.
func (e *Engine) addProvenance(rows []provenance, v *provenance, d subject) []provenance {
	if v == nil || d.task == "" {
		return rows
	}
	row := *v
	row.ID, row.TaskID, row.ItemID, row.Attempt = e.k.IDs.Next("prv"), d.task, store.Text(d.item), d.attempt
	row.Scope = row.Verb + ":task:" + d.task
	if d.item != "" {
		row.Scope = row.Verb + ":item:" + d.item
	}
	return append(rows, row)
}

// insertProvenance writes the rows of one verb. It refuses a key that was used for the
// same verb and subject before.
func insertProvenance(ctx context.Context, tx store.Tx, rows []provenance) error {
	if len(rows) == 0 {
		return nil
	}
	err := putProvenances(ctx, tx, rows)
	if pawl.CodeOf(err) == pawl.CodeConflict {
		err = &pawl.Error{Code: pawl.CodeKeyReused, Op: rows[0].Verb, Err: errKeyUsed,
			Message: fmt.Sprintf("the idempotency key of the provenance was used for %s before", rows[0].Scope)}
	}
	return err
}

func workerOf(call any) string {
	switch c := call.(type) {
	case *pawl.ClaimRequest:
		return c.WorkerID
	case *pawl.SubmitCall:
		return c.WorkerID
	case *pawl.FinalizeCall:
		return c.WorkerID
	case *pawl.CompleteCall:
		return c.WorkerID
	case *pawl.FailCall:
		return c.WorkerID
	}
	return ""
}

// errKeyUsed refuses a key that was used for the same verb and subject before.
var errKeyUsed = errors.New("the key was used")

// storeProvenance runs a part of a scope and writes its provenance rows. An error
// undoes both; it undoes the whole transaction only if the part is the only one.
func (e *Engine) storeProvenance(ctx context.Context, part func(context.Context) ([]provenance, error)) error {
	s := e.scope
	run := func() error {
		rows, err := part(ctx)
		if err == nil && len(rows) > 0 {
			if err = s.Begin(ctx); err == nil {
				err = insertProvenance(ctx, s.Tx, rows)
			}
		}
		return err
	}
	if s.Single {
		return run()
	}
	return s.Part(ctx, run)
}

// ListProvenance lists provenance; see pawl.RecordReader.
func (e *Engine) ListProvenance(ctx context.Context, q pawl.ProvenanceFilter) (pawl.List[pawl.ProvenanceRecord], error) {
	q = idform.Call(q)
	if err := checkProvenanceFilter(&q); err != nil {
		return pawl.List[pawl.ProvenanceRecord]{}, err
	}
	return view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) (out pawl.List[pawl.ProvenanceRecord], err error) {
		if q.ItemID != "" {
			_, err = store.GetItem(ctx, tx, ns, q.ItemID, 0)
		} else {
			_, err = store.TaskState(ctx, tx, ns, q.TaskID)
		}
		if err != nil {
			return out, err
		}
		if out, err = provenancesPage(ctx, tx, ns, q); err != nil {
			return out, err
		}
		for i := range out.Items { // older versions stored the key itself
			if k := &out.Items[i].IdempotencyKey; *k != "" && !isKeyHash.MatchString(*k) {
				*k = rules.KeyHash(*k)
			}
		}
		return out, nil
	})
}

var isKeyHash = regexp.MustCompile(`^[0-9a-f]{64}$`)

// provenance is a row of provenances to insert. Event is the name of the event that it
// belongs to: the newest one of that name of the task or item.
type provenance struct {
	ID, Namespace, TaskID string
	ItemID                store.Text
	Attempt               int
	Verb, Scope, Event    string
	pawl.Provenance
}

// putProvenances adds the rows of one verb, each for its event, which exists already. A
// key that another row has in the same scope is a conflict.
func putProvenances(ctx context.Context, tx store.Tx, all []provenance) error {
	query := "put"
	if all[0].Event == "proposed" {
		query = "put creation"
	}
	rows := make([][]any, len(all))
	for i, p := range all {
		var attempt *int
		if p.Attempt > 0 {
			attempt = &p.Attempt
		}
		rows[i] = []any{p.ID, p.Namespace, store.TaskID(p.TaskID), store.ItemID(p.ItemID), attempt, p.Verb, p.Scope,
			store.Text(p.IdempotencyKey), store.Text(p.AgentID), store.Text(p.AgentName),
			store.Text(p.AgentVersion), store.Text(p.Model), store.Text(p.RequestFingerprint), store.Text(p.Extra), p.Event}
	}
	return tx.ExecEach(ctx, provenanceSQL[query], rows)
}

// provenancesPage lists the provenance of a task or item, oldest first.
func provenancesPage(ctx context.Context, tx store.Tx, namespace string,
	q pawl.ProvenanceFilter) (pawl.List[pawl.ProvenanceRecord], error) {
	return store.Pages(q.Page, func(v *pawl.ProvenanceRecord) int { return len(v.Extra) + len(v.Data) },
		func(r pawl.ProvenanceRecord) string { return r.ID }, func(p pawl.Page) (pawl.List[pawl.ProvenanceRecord], error) {
			q.Page = p
			return listProvenances(ctx, tx, namespace, q)
		})
}

func listProvenances(ctx context.Context, tx store.Tx, namespace string,
	q pawl.ProvenanceFilter) (pawl.List[pawl.ProvenanceRecord], error) {
	var w store.Where
	w.And("p.namespace = ?", namespace)
	if q.TaskID != "" {
		w.And("p.task_id = ?", store.TaskID(q.TaskID))
	} else {
		w.And("p.item_id = ?", store.ItemID(q.ItemID))
	}
	if err := w.After("p.id >", "prv_", q.Cursor); err != nil {
		return pawl.List[pawl.ProvenanceRecord]{}, err
	}
	rows, err := tx.Query(ctx, w.Text(provenanceSQL["provenances"], "p.id", q.Limit+1), w.Args...)
	if err != nil {
		return pawl.List[pawl.ProvenanceRecord]{}, err
	}
	defer rows.Close()
	var out []pawl.ProvenanceRecord
	for rows.Next() {
		var r pawl.ProvenanceRecord
		var task, item, scope, key, id, name, version, model, print, extra, data store.Text
		var attempt *int
		var event *int64
		var created int64
		if err := rows.Scan(&r.ID, (*store.TaskID)(&task), (*store.ItemID)(&item), &attempt, &r.Verb, &scope, &key, &id, &name, &version,
			&model, &print,
			&extra, &created, &event,
			&data); err != nil {
			return pawl.List[pawl.ProvenanceRecord]{}, err
		}
		r.TaskID, r.ItemID, r.Scope, r.Data, r.CreatedAt = string(task), string(item), string(scope), store.Raw(data), store.Stamp(created)
		r.Provenance = pawl.Provenance{AgentID: string(id), AgentName: string(name), AgentVersion: string(version), Model: string(model),
			RequestFingerprint: string(print), IdempotencyKey: string(key), Extra: store.Raw(extra)}
		if attempt != nil {
			r.Attempt = *attempt
		}
		if event != nil {
			r.EventID = "evt_" + strconv.FormatInt(*event, 10)
		}
		out = append(out, r)
	}
	return store.Paged(out, q.Limit, func(r pawl.ProvenanceRecord) string { return r.ID }), rows.Err()
}
