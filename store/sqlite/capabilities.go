package sqlite

import (
	"context"

	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/store/sqlite/hot"
)

// capabilities describes what SQLite can do: one writer at a time, which groups its calls;
// reads without a round trip; PRAGMA data_version instead of notices.
func (d *db) capabilities() *store.Dialect {
	return &store.Dialect{
		Name: "sqlite", Hot: hot.Verbs{}, Timed: hot.Verbs{}, Rewrite: d.rewrite, Migrator: d.migrator(),
		GroupCommits: true, ChecksFile: true, DataVersion: true,
		Changed:  d.version.version,
		Look:     d.View,
		Notify:   func(context.Context, []string) error { return nil },
		Listen:   func(context.Context, func(), func(string)) error { return nil },
		Warnings: func(context.Context) ([]store.Warning, error) { return walWarning(d.path), nil },
		Guard:    func() { d.guarded.Store(true) },
		OnCommit: func(told func(int)) { d.writer.committed.Store(&told) },
		Forget:   d.forget,
		Pools:    d.poolStates,
		Place:    d.place,
		Fences:   &fences,
		Shrink:   d.shrink,
		Compact:  d.compact,
		Snapshot: func(context.Context, store.Tx) (bool, error) { return false, nil }, // only one transaction writes
		Wrap:     d.wrapAny,
	}
}

func (d *db) forget() {
	d.writer.names.Forget()
	d.clock.forget()
}
