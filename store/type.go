package store

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/pawl-work/pawl"
)

var typeSQL = Texts(sqlFiles, "type.sql")

// TypeRow is one version of a type. Version 0 means that there is none.
type TypeRow struct {
	Version    int
	Definition string // pawl.Type as JSON, without what the registry adds
	CreatedAt  int64
	RemovedAt  *int64
}

// Type returns the row as a pawl.Type.
func (r *TypeRow) Type(name string) (pawl.Type, error) {
	var t pawl.Type
	if err := json.Unmarshal([]byte(r.Definition), &t); err != nil {
		return t, &pawl.Error{Code: pawl.CodeInternal, Message: fmt.Sprintf("type %s, version %d, cannot be read", name, r.Version), Err: err}
	}
	at := Stamp(r.CreatedAt)
	t.Name, t.Version, t.CreatedAt, t.RemovedAt = name, r.Version, &at, StampOf(r.RemovedAt)
	return t, nil
}

// GetType reads a version of a type. Version 0 reads the newest one, removed or not.
func GetType(ctx context.Context, tx Tx, namespace, name string, version int) (TypeRow, error) {
	var r TypeRow
	into := []any{&r.Version, &r.Definition, &r.CreatedAt, &r.RemovedAt}
	if version == 0 {
		_, err := Row(ctx, tx, into, typeSQL["newest version"], namespace, name)
		return r, err
	}
	_, err := Row(ctx, tx, into, typeSQL["one version"], namespace, name, version)
	return r, err
}

// RegistryStamp changes when a type is put or removed.
type RegistryStamp struct {
	Versions, Put, Removed, Removal int64
}

// StampOfTypes reads the stamp of all namespaces' types.
func StampOfTypes(ctx context.Context, tx Tx) (RegistryStamp, error) {
	var s RegistryStamp
	_, err := Row(ctx, tx, []any{&s.Versions, &s.Put, &s.Removed, &s.Removal}, typeSQL["registry stamp"])
	return s, err
}

// TypeName is a type of a namespace.
type TypeName struct{ Namespace, Name string }

// TypeVersion is a version of a type of a namespace.
type TypeVersion struct {
	TypeName
	Version int
}

// TypesOfTasks returns the types of those tasks that exist.
func TypesOfTasks(ctx context.Context, tx Tx, taskIDs []string) (map[string]TypeVersion, error) {
	out := map[string]TypeVersion{}
	err := EachRow(ctx, tx, func(rows Rows) error {
		var id string
		var v TypeVersion
		if err := rows.Scan((*TaskID)(&id), &v.Namespace, &v.Name, &v.Version); err != nil {
			return err
		}
		out[id] = v
		return nil
	}, typeSQL["types of tasks"], TaskList(taskIDs))
	return out, err
}

// Fit gives claimed items of this transaction another lease than that of their queue.
func (c *Claim) Fit(ctx context.Context, tx Tx, rows []*Claimed, seconds int) error {
	ids, of := make([]string, len(rows)), map[string]*Claimed{}
	for i, r := range rows {
		ids[i], of[r.ItemID] = r.ItemID, r
	}
	return EachRow(ctx, tx, func(rows Rows) error {
		var id string
		var expires int64
		err := rows.Scan((*ItemID)(&id), &expires)
		if err == nil {
			of[id].LeaseSeconds, of[id].LeaseExpiresAt = seconds, expires
		}
		return err
	}, typeSQL["fit leases"], ItemList(ids), seconds, 1_000_000)
}

// EndPlanning sets the number of items of a planned task to n. It returns false when the
// task is not open or not being planned.
func EndPlanning(ctx context.Context, tx Tx, taskID string, n int, now int64) (bool, error) {
	changed, err := tx.Exec(ctx, typeSQL["end planning"], TaskID(taskID), n, now)
	return changed == 1, err
}
