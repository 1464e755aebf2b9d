package store

import "context"

var typeSQL = Texts(sqlFiles, "type.sql")

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

// TypeVersion is a version of a type of a namespace.
type TypeVersion struct {
	Namespace, Name string
	Version         int
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
