package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/pawl-work/pawl"
)

// Warning is a condition of the database that breaks no rule but puts a promise at risk, or slows
// work down.
type Warning = pawl.Warning

func warning(code, detail, command string) Warning {
	return Warning{Code: code, Detail: detail, Command: command}
}

// Look looks for one kind of warning.
type Look func(ctx context.Context, tx Tx, now int64) ([]Warning, error)

// Warnings lists what puts a promise at risk, with what more finds.
func Warnings(ctx context.Context, db DB, more []Look) ([]Warning, error) {
	var out []Warning
	err := db.View(ctx, func(ctx context.Context, tx Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		for _, look := range slices.Concat([]Look{overLimits, noSweep, noWorkers, longPauses}, more,
			[]Look{sequencerBehind, pendingConsequences}) {
			found, err := look(ctx, tx, now)
			if err != nil {
				return err
			}
			out = append(out, found...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	ofServer, err := db.Dialect().Warnings(ctx)
	return append(out, ofServer...), err
}

// overLimits lists queues and keys with more leases than their limit.
func overLimits(ctx context.Context, tx Tx, _ int64) ([]Warning, error) {
	rows, err := tx.Query(ctx, limitsSQL["leased of keys"])
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Warning
	over := func(what string, leased int, most *int) {
		if most != nil && leased > *most {
			out = append(out, warning("limit_exceeded", fmt.Sprintf("%s: %d leased, the limit is %d; this is right for a while after a "+
				"limit was lowered; otherwise a program that does not know limits claims from the queue", what, leased, *most), "pawl queue ls"))
		}
	}
	total, queue, limits := 0, "", pawl.QueueLimits{}
	for rows.Next() {
		var namespace, typ, text, pointer, key string
		var leased int
		if err := rows.Scan(&namespace, &typ, &text, &pointer, &key, &leased); err != nil {
			return nil, err
		}
		if name := "queue " + typ + " of " + namespace; name != queue {
			over(queue, total, limits.Concurrency)
			total, queue, limits = 0, name, LimitsOf(text)
		}
		if total += leased; limits.PerKey != nil && limits.PerKey.Pointer == pointer {
			over(fmt.Sprintf("%s, key %q", queue, key), leased, limits.PerKey.Concurrency)
		}
	}
	over(queue, total, limits.Concurrency)
	return out, rows.Err()
}
