package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// deed is what a call came to: who vouches for it is to be kept.
type deed struct {
	task, item string
	attempt    int
}

func ofTask(t pawl.Task) deed {
	if t.Deduplicated || t.DryRun {
		return deed{} // nothing was done
	}
	return deed{task: t.ID}
}

func ofMove(m pawl.Moved) deed { return deed{m.TaskID, m.ID, m.Attempt} }

// vouched carries the calls of a batch verb out. When any of them brings its
// provenance they leave the lanes, for one transaction with the rows that say
// so; else it is run alone. A call under a key that was used for the same before
// is refused, and the others are carried out each for itself.
func vouched[C, R any](ctx context.Context, e *Engine, verb string, calls []C, of func(R) deed, run func(context.Context, []C) ([]pawl.Result[R], error)) ([]pawl.Result[R], error) {
	calls = pawl.Provenant(ctx, calls)
	bare := true
	for i := range calls {
		bare = bare && *pawl.ProvenanceOf(&calls[i]) == nil
	}
	if bare {
		return run(ctx, calls)
	}
	if err := tooMany(verb, len(calls)); err != nil {
		return nil, err
	}
	ctx = pawl.WithProvenance(ctx, pawl.Provenance{}) // what comes of a call is not its caller's doing
	out := make([]pawl.Result[R], len(calls))
	sound, at := make([]C, 0, len(calls)), make([]int, 0, len(calls))
	for i := range calls {
		if out[i].Err = checkProvenance(verb, *pawl.ProvenanceOf(&calls[i])); out[i].Err == nil {
			sound, at = append(sound, calls[i]), append(at, i)
		}
	}
	if len(sound) == 0 {
		return out, nil
	}
	part := func(ctx context.Context, w *whole, calls []C, at []int) error {
		return e.attested(ctx, w, func(ctx context.Context) (rows []store.Provenance, err error) {
			rs, err := run(ctx, calls)
			if err != nil {
				return nil, err
			}
			for i := 0; i < len(rs) && err == nil; i++ {
				out[at[i]] = rs[i]
				if d := of(rs[i].Value); rs[i].Err == nil && d.task != "" {
					rows, err = e.vouch(ctx, w.key, rows, verb, &calls[i], d)
				}
			}
			return rows, err
		})
	}
	w, err := e.within(ctx, func(ctx context.Context, w *whole) error {
		w.sole = w.sole && len(sound) == 1
		err := part(ctx, w, sound, at)
		if !errors.Is(err, errKeyUsed) || w.sole {
			return err
		}
		for i := range sound {
			err := part(ctx, w, sound[i:i+1], at[i:i+1])
			if errors.Is(err, errKeyUsed) {
				out[at[i]] = pawl.Result[R]{Err: err}
			} else if err != nil {
				return err
			}
		}
		return nil
	})
	if err = e.ended(ctx, w, err); errors.Is(err, errKeyUsed) { // the only call's
		out[at[0]], err = pawl.Result[R]{Err: err}, nil
	}
	return out, err
}

// claimVouched is a claim by somebody who says who he is.
func (e *Engine) claimVouched(ctx context.Context, req pawl.ClaimRequest) (leases []pawl.Lease, err error) {
	if err := checkProvenance("claim", req.Provenance); err != nil {
		return nil, err
	}
	ctx = pawl.WithProvenance(ctx, pawl.Provenance{})
	plain := req
	plain.Provenance = nil
	part := func(ctx context.Context, w *whole) error {
		return e.attested(ctx, w, func(ctx context.Context) (rows []store.Provenance, err error) {
			leases, err = (&seeker{e: e, caller: pawl.CallerOf(ctx), req: plain}).claim(ctx)
			for i := 0; i < len(leases) && err == nil; i++ {
				rows, err = e.vouch(ctx, w.key, rows, "claim", &req, deed{leases[i].TaskID, leases[i].ID, leases[i].Attempt})
			}
			return rows, err
		})
	}
	if w := e.db.of(ctx); w != nil {
		err = part(ctx, w)
		return leases, err
	}
	var w *whole
	try := func(<-chan struct{}) (done bool, err error) {
		w, err = e.within(ctx, func(ctx context.Context, w *whole) error {
			if err := part(ctx, w); err != nil || len(leases) > 0 {
				return err
			}
			return errNothing
		})
		return !errors.Is(err, errNothing), err
	}
	done, err := try(nil)
	if c := pawl.CallerOf(ctx); !done && w.wait > 0 {
		err = e.await(ctx, c.Namespace, alike(c, &req), w.wait, try)
	}
	if err = e.ended(ctx, w, err); err != nil {
		leases = nil
	}
	return leases, err
}

func checkProvenance(verb string, p *pawl.Provenance) error {
	if p == nil {
		return nil
	}
	var f fields
	f.text("/provenance/agent_id", p.AgentID, 0, pawl.MaxIDLen)
	f.text("/provenance/agent_name", p.AgentName, 0, pawl.MaxIDLen)
	f.text("/provenance/agent_version", p.AgentVersion, 0, pawl.MaxIDLen)
	f.text("/provenance/model", p.Model, 0, pawl.MaxIDLen)
	f.text("/provenance/request_fingerprint", p.RequestFingerprint, 0, pawl.MaxFingerprintLen)
	f.text("/provenance/idempotency_key", p.IdempotencyKey, 0, pawl.MaxKeyLen)
	f.object("/provenance/extra", p.Extra, pawl.MaxMetadataBytes)
	return f.err(verb)
}

// vouch adds the row of a call that was carried out, if it brought provenance;
// what the caller left open is filled in. key is the call's.
func (e *Engine) vouch(ctx context.Context, key string, rows []store.Provenance, verb string, call any, d deed) ([]store.Provenance, error) {
	given := pawl.ProvenanceOf(call)
	p := *given
	if p == nil {
		return rows, nil
	}
	row := store.Provenance{ID: e.ids.next("prv"), Namespace: pawl.CallerOf(ctx).Namespace, TaskID: d.task, ItemID: store.Text(d.item), Attempt: d.attempt, Verb: verb, Provenance: *p}
	row.AgentID = cmp.Or(p.AgentID, workerOf(call), pawl.CallerOf(ctx).ActorID)
	row.IdempotencyKey = cmp.Or(p.IdempotencyKey, key)
	row.Scope = verb + ":task:" + d.task
	if d.item != "" {
		row.Scope = verb + ":item:" + d.item
	}
	if p.RequestFingerprint == "" {
		*given = nil // the fingerprint is the request's, whoever made it
		hash, err := pawl.HashOf(call)
		*given = p
		if err != nil {
			return nil, err
		}
		row.RequestFingerprint = hash
	}
	for _, v := range pawl.ProvenanceVerbs {
		if v.Verb == verb {
			row.Event = v.Event
		}
	}
	return append(rows, row), nil
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

// errKeyUsed refuses a key that somebody has used for the same.
var errKeyUsed = errors.New("the key was used")

// attested runs a part of a whole call and keeps the rows that vouch for it; an
// error undoes both, and no more unless the part is sole.
func (e *Engine) attested(ctx context.Context, w *whole, part func(context.Context) ([]store.Provenance, error)) error {
	before := len(w.after)
	if !w.sole {
		if err := w.exec(ctx, "SAVEPOINT vouched"); err != nil {
			return err
		}
	}
	rows, err := part(ctx)
	if err == nil && len(rows) > 0 {
		if err = store.PutProvenances(ctx, w.tx, rows); pawl.CodeOf(err) == pawl.CodeConflict {
			err = &pawl.Error{Code: pawl.CodeKeyReused, Op: rows[0].Verb, Err: errKeyUsed,
				Message: fmt.Sprintf("the idempotency key of the provenance was used for %s before", rows[0].Scope)}
		}
	}
	switch {
	case w.sole:
		return err
	case err == nil:
		return w.exec(ctx, "RELEASE SAVEPOINT vouched")
	}
	w.after = w.after[:before]
	if gone := w.exec(ctx, "ROLLBACK TO SAVEPOINT vouched"); gone != nil {
		return gone
	}
	return err
}

// ListProvenance lists who did what; see pawl.RecordReader.
func (e *Engine) ListProvenance(ctx context.Context, q pawl.ProvenanceFilter) (pawl.List[pawl.ProvenanceRecord], error) {
	if err := page(&q.Page); err != nil {
		return pawl.List[pawl.ProvenanceRecord]{}, err
	}
	var f fields
	if q.TaskID == "" && q.ItemID == "" {
		f.add("/task_id", "is required, or item_id")
	} else if q.TaskID != "" && q.ItemID != "" {
		f.add("/item_id", "does not go with task_id")
	}
	if err := f.err("list"); err != nil {
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
		return store.ListProvenances(ctx, tx, ns, q)
	})
}
