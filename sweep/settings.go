package sweep

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// settings are the settings of retention by their names in docs/cli.md. They are stored in the database, so that no process
// removes by its defaults what another was told to keep.
var settings = map[string]func(*pawl.SweepOptions) any{
	"cleanup_old_checkpoints":    func(o *pawl.SweepOptions) any { return &o.CleanupOldCheckpoints },
	"checkpoint_retention_limit": func(o *pawl.SweepOptions) any { return &o.CheckpointRetentionLimit },
	"bury_after":                 func(o *pawl.SweepOptions) any { return &o.BuryAfter },
	"stale_after":                func(o *pawl.SweepOptions) any { return &o.StaleAfter },
	"retain_tasks":               func(o *pawl.SweepOptions) any { return &o.RetainTasks },
	"retain_failed":              func(o *pawl.SweepOptions) any { return &o.RetainFailed },
	"retain_dead_lettered":       func(o *pawl.SweepOptions) any { return &o.RetainDead },
	"retain_keys":                func(o *pawl.SweepOptions) any { return &o.RetainKeys },
	"retain_sweeps":              func(o *pawl.SweepOptions) any { return &o.RetainSweeps },
	"retain_chunks":              func(o *pawl.SweepOptions) any { return &o.RetainChunks },
	"retain_signals":             func(o *pawl.SweepOptions) any { return &o.RetainSignals },
	"retain_effects":             func(o *pawl.SweepOptions) any { return &o.RetainEffects },
	"retain_counters":            func(o *pawl.SweepOptions) any { return &o.RetainCounters },
	archiveDir:                   func(o *pawl.SweepOptions) any { return &o.ArchiveDir },
}

const (
	archiveDir     = "archive_dir"
	settingsCursor = "sweep.settings" // a row of the table of cursors
)

// Text returns the settings of retention by their names.
func (*Sweeper) Text(o pawl.SweepOptions) map[string]string {
	out := map[string]string{}
	for name, field := range settings {
		switch v := field(&o).(type) {
		case *string:
			out[name] = *v
		case fmt.Stringer:
			out[name] = v.String()
		default:
			b, _ := json.Marshal(v) // a number, or true or false
			out[name] = string(b)
		}
	}
	return out
}

// Store stores the settings that the process was given, once; those of other processes give way.
func (s *Sweeper) Store(ctx context.Context) error {
	s.settingsMu.Lock()
	defer s.settingsMu.Unlock()
	own := s.own()
	if s.settingsStored || s.GivenOnce || len(own) == 0 {
		return nil
	}
	var changed []any
	err := s.do(ctx, func(ctx context.Context, tx store.Tx, now int64) error {
		changed = nil
		at, err := lockCursor(ctx, tx, settingsCursor)
		if err != nil {
			return err
		}
		if at.Settings == nil {
			at.Settings = map[string]json.RawMessage{}
		}
		text := s.Text(s.asGiven())
		for _, name := range slices.Sorted(maps.Keys(own)) {
			if string(at.Settings[name]) != string(own[name]) {
				changed = append(changed, name, text[name])
				at.Settings[name] = own[name]
			}
		}
		return moveCursor(ctx, tx, now, settingsCursor, at)
	})
	if err != nil {
		return err
	}
	if s.settingsStored = true; len(changed) > 0 {
		s.Log.InfoContext(ctx, "these settings of retention count for all processes now", changed...)
	}
	return nil
}

func (s *Sweeper) asGiven() pawl.SweepOptions {
	o := s.Options
	o.ArchiveDir = s.GivenDir
	return o
}

// own are the settings that the process was given, as they are stored.
func (s *Sweeper) own() map[string]json.RawMessage {
	o, out := s.asGiven(), map[string]json.RawMessage{}
	for name, field := range settings {
		if slices.Contains(s.Given, name) || s.GivenAll && (name != archiveDir || s.GivenDir != "") {
			out[name], _ = json.Marshal(field(&o)) // a number, a text, true or false
		}
	}
	return out
}

// InForce reads the settings that count for passes of this process now. Their directory of archives is "" for the default.
func (s *Sweeper) InForce(ctx context.Context, tx store.Tx) (o pawl.SweepOptions, err error) {
	at, err := cursorOf(ctx, tx, settingsCursor)
	if err != nil {
		return o, err
	}
	all := map[string]json.RawMessage{}
	maps.Copy(all, at.Settings)
	s.settingsMu.Lock()
	if !s.settingsStored {
		maps.Copy(all, s.own())
	}
	s.settingsMu.Unlock()
	o = s.asGiven()
	for name, value := range all {
		if field := settings[name]; field != nil { // else of a newer program
			if err := json.Unmarshal(value, field(&o)); err != nil {
				return o, fmt.Errorf("the stored setting %s: %w", name, err)
			}
		}
	}
	return o, nil
}

// settle stores what the process was given, and reads what counts for the pass.
func (p *pass) settle(ctx context.Context) error {
	if p.preview == nil {
		if err := p.Store(ctx); err != nil {
			return err
		}
	}
	return p.DB.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		p.Options, err = p.InForce(ctx, tx)
		return err
	})
}

// hasArchives reports whether the process has the directory where archives go: it was given, or is its default one.
func (s *Sweeper) hasArchives(inForce pawl.SweepOptions) bool {
	return inForce.ArchiveDir == s.GivenDir || inForce.ArchiveDir == s.Options.ArchiveDir
}

// archives is hasArchives. Without the directory the process removes no tasks.
func (p *pass) archives(ctx context.Context) bool {
	if p.hasArchives(p.Options) {
		return true
	}
	if p.preview == nil {
		p.Log.InfoContext(ctx, "this process removes no tasks: their archives go to a directory that it was not given",
			"archive_dir", p.Options.ArchiveDir)
	}
	return false
}

// retentionsOfTypes returns how long tasks are kept, for the type versions that set it.
func retentionsOfTypes(ctx context.Context, tx store.Tx) (map[store.TypeVersion]pawl.Retention, error) {
	out := map[store.TypeVersion]pawl.Retention{}
	err := store.EachRow(ctx, tx, func(rows store.Rows) error {
		var v store.TypeVersion
		var definition string
		if err := rows.Scan(&v.Namespace, &v.Name, &v.Version, &definition); err != nil {
			return err
		}
		var t struct{ Retention pawl.Retention }
		if json.Unmarshal([]byte(definition), &t) == nil && t.Retention != (pawl.Retention{}) {
			out[v] = t.Retention
		}
		return nil
	}, typeSQL["definitions"])
	return out, err
}
