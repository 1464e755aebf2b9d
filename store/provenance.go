package store

import (
	"context"
	"strconv"

	"github.com/pawl-work/pawl"
)

var provenanceSQL = Texts(sqlFiles, "provenance.sql")

// ListProvenances lists the provenance of a task or item, oldest first.
func ListProvenances(ctx context.Context, tx Tx, namespace string, q pawl.ProvenanceFilter) (pawl.List[pawl.ProvenanceRecord], error) {
	return Pages(q.Page, func(v *pawl.ProvenanceRecord) int { return len(v.Extra) + len(v.Data) },
		func(r pawl.ProvenanceRecord) string { return r.ID }, func(p pawl.Page) (pawl.List[pawl.ProvenanceRecord], error) {
			q.Page = p
			return listProvenances(ctx, tx, namespace, q)
		})
}

func listProvenances(ctx context.Context, tx Tx, namespace string, q pawl.ProvenanceFilter) (pawl.List[pawl.ProvenanceRecord], error) {
	var w where
	w.and("p.namespace = ?", namespace)
	if q.TaskID != "" {
		w.and("p.task_id = ?", TaskID(q.TaskID))
	} else {
		w.and("p.item_id = ?", ItemID(q.ItemID))
	}
	if err := w.after("p.id >", "prv_", q.Cursor); err != nil {
		return pawl.List[pawl.ProvenanceRecord]{}, err
	}
	rows, err := tx.Query(ctx, w.text(provenanceSQL["provenances"], "p.id", q.Limit+1), w.args...)
	if err != nil {
		return pawl.List[pawl.ProvenanceRecord]{}, err
	}
	defer rows.Close()
	var out []pawl.ProvenanceRecord
	for rows.Next() {
		var r pawl.ProvenanceRecord
		var task, item, scope, key, id, name, version, model, print, extra, data Text
		var attempt *int
		var event *int64
		var created int64
		if err := rows.Scan(&r.ID, (*TaskID)(&task), (*ItemID)(&item), &attempt, &r.Verb, &scope, &key, &id, &name, &version, &model, &print,
			&extra, &created, &event,
			&data); err != nil {
			return pawl.List[pawl.ProvenanceRecord]{}, err
		}
		r.TaskID, r.ItemID, r.Scope, r.Data, r.CreatedAt = string(task), string(item), string(scope), raw(data), Stamp(created)
		r.Provenance = pawl.Provenance{AgentID: string(id), AgentName: string(name), AgentVersion: string(version), Model: string(model),
			RequestFingerprint: string(print), IdempotencyKey: string(key), Extra: raw(extra)}
		if attempt != nil {
			r.Attempt = *attempt
		}
		if event != nil {
			r.EventID = "evt_" + strconv.FormatInt(*event, 10)
		}
		out = append(out, r)
	}
	return Paged(out, q.Limit, func(r pawl.ProvenanceRecord) string { return r.ID }), rows.Err()
}
