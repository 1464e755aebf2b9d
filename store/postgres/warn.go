package postgres

import (
	"context"
	"embed"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
)

//go:embed warn.sql
var warnFile embed.FS

var warnSQL = store.Texts(warnFile, "warn.sql")

// clockApart is how far the database's clock may differ from this machine's.
const clockApart = time.Second

// setup is what the server reported about itself, between two readings of this machine's
// clock.
type setup struct {
	asked, now, answered time.Time
	commit               string // synchronous_commit
	async, sync, unseen  int    // standbys
}

// warnings lists settings of the server that put a promise at risk.
func (d *db) warnings(ctx context.Context, schema string) ([]store.Warning, error) {
	s := setup{asked: clock.Now()}
	err := d.cold.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		err := tx.QueryRow(ctx, feedSQL["set-up"]).Scan(&s.now, &s.commit, &s.async, &s.sync, &s.unseen)
		s.answered = clock.Now()
		return err
	})
	if err != nil {
		return nil, classify(err)
	}
	more, err := d.vacuum(ctx, schema, defaultBounds)
	return append(s.warnings(), more...), err
}

func (s setup) warnings() (out []store.Warning) {
	if s.commit == "off" {
		out = append(out, store.Warning{Code: "synchronous_commit",
			Detail:  "synchronous_commit is off: a crash of the server loses work that was acknowledged (docs/high-availability.md)",
			Command: `psql -c "ALTER ROLE CURRENT_USER SET synchronous_commit = on"`})
	}
	if s.async > 0 && s.sync == 0 { // beside a synchronous one, a cluster manager does not promote them
		out = append(out, store.Warning{Code: "asynchronous_standby",
			Detail: fmt.Sprintf("all %d standbys follow asynchronously: a failover to one of them loses work that was acknowledged; name them "+
				"in synchronous_standby_names, or never promote them (docs/high-availability.md)", s.async),
			Command: `psql -c "SELECT application_name, sync_state FROM pg_stat_replication"`})
	}
	if s.unseen > 0 {
		out = append(out, store.Warning{Code: "standbys_unseen",
			Detail:  fmt.Sprintf("this login may not see whether %d standbys are synchronous", s.unseen),
			Command: `psql -c "GRANT pg_monitor TO CURRENT_USER"`})
	}
	if early, late := s.asked.Sub(s.now), s.now.Sub(s.answered); early > clockApart || late > clockApart {
		out = append(out, store.Warning{Code: "clock_skew",
			Detail: fmt.Sprintf("the database's clock is %s from this machine's; leases end by the database's clock, also after a "+
				"failover to another host", max(early, late).Round(time.Millisecond)),
			Command: "timedatectl set-ntp true"})
	}
	return out
}

// bounds are from where on the state of the server is worth a warning.
type bounds struct {
	snapshot time.Duration // the age of a transaction that holds back vacuum
	dead     int64         // dead rows of a table, if they are also more than the live ones
}

// tablesWarned is how many tables a warning names at most.
const tablesWarned = 20

// defaultBounds are the bounds of doctor.
var defaultBounds = bounds{snapshot: 5 * time.Minute, dead: 50_000}

// vacuum warns of what keeps the hot tables from being vacuumed.
func (d *db) vacuum(ctx context.Context, schema string, b bounds) (out []store.Warning, err error) {
	var off bool
	var held *string
	var age *float64
	err = d.cold.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, warnSQL["transactions"], b.snapshot.Seconds()).Scan(&off, &held, &age)
	})
	if err != nil {
		return nil, classify(err)
	}
	if off {
		out = append(out, store.Warning{Code: "autovacuum_off",
			Detail:  "autovacuum is off: dead rows stay, and claims become slower",
			Command: `psql -c "ALTER SYSTEM SET autovacuum = on" -c "SELECT pg_reload_conf()"`})
	}
	if held != nil {
		out = append(out, store.Warning{Code: "held_snapshot",
			Detail: fmt.Sprintf("connection %s has had a transaction open for %s: vacuum removes no row that died since, and claims become "+
				"slower", *held, time.Duration(*age*float64(time.Second)).Round(time.Second)),
			Command: `psql -c "SELECT pg_terminate_backend(` + *held + `)"`})
	}
	err = d.cold.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, warnSQL["dead rows"], schema, b.dead, tablesWarned)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var table, name string
			var dead, live int64
			if err := rows.Scan(&table, &name, &dead, &live); err != nil {
				return err
			}
			out = append(out, store.Warning{Code: "bloat",
				Detail:  fmt.Sprintf("table %s has %d dead rows and %d live ones: autovacuum is behind", table, dead, live),
				Command: `psql -c 'VACUUM ` + name + `'`})
		}
		return rows.Err()
	})
	return out, classify(err)
}
