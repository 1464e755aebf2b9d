package store

import (
	"context"
	"fmt"

	"github.com/pawl-work/pawl"
)

// Warning is a property of the database that breaks no rule but puts a promise at risk.
type Warning struct {
	Name   string `json:"warning"`
	Found  string `json:"found"`
	Advice string `json:"advice"`
}

// Warnings lists what puts a promise at risk.
func Warnings(ctx context.Context, db DB) ([]Warning, error) {
	var feed FeedState
	var out []Warning
	err := db.View(ctx, func(ctx context.Context, tx Tx) (err error) {
		if feed, err = ReadFeed(ctx, tx); err != nil {
			return err
		}
		out, err = overLimits(ctx, tx)
		return err
	})
	if err != nil {
		return nil, err
	}
	if n := len(feed.Starts); n > 0 {
		out = append(out, Warning{"epoch", fmt.Sprintf("the database went back in time, or may have: epoch %d of the feed began after "+
			"position %d", feed.Epoch, feed.Starts[n-1].Position),
			"find out whether the failover or restore lost commits; readers with older cursors are told where to restart (docs/events.md)"})
	}
	more, err := db.Dialect().Warnings(ctx)
	return append(out, more...), err
}

// overLimits lists queues and keys with more leases than their limit.
func overLimits(ctx context.Context, tx Tx) ([]Warning, error) {
	rows, err := tx.Query(ctx, limitsSQL["leased of keys"])
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Warning
	over := func(what string, leased int, most *int) {
		if most != nil && leased > *most {
			out = append(out, Warning{"limit", fmt.Sprintf("%s: %d leased, the limit is %d", what, leased, *most),
				"this is right for a while after a limit was lowered; otherwise a program that does not know limits claims from the queue"})
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
			total, queue, limits = 0, name, limitsOf(text)
		}
		if total += leased; limits.PerKey != nil && limits.PerKey.Pointer == pointer {
			over(fmt.Sprintf("%s, key %q", queue, key), leased, limits.PerKey.Concurrency)
		}
	}
	over(queue, total, limits.Concurrency)
	return out, rows.Err()
}
