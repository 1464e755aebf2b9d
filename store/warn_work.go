package store

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-work/pawl/internal/shellwords"
)

var warnSQL = Texts(sqlFiles, "warn.sql")

// What work that stands still has to be older than, for a warning.
const (
	sweepLate     = time.Minute
	sequencerLate = time.Minute
	pauseLong     = 24 * time.Hour
)

// WarnedTypes is how many types or schedules one kind of warning names at most.
const WarnedTypes = 20

// noSweep warns if no process does the time-driven work.
func noSweep(ctx context.Context, tx Tx, now int64) ([]Warning, error) {
	var newest, oldest *int64
	if _, err := Row(ctx, tx, []any{&newest, &oldest}, warnSQL["sweeps and work"]); err != nil {
		return nil, err
	}
	since := oldest
	if newest != nil {
		since = newest
	}
	late := now - sweepLate.Microseconds()
	if oldest == nil || *oldest >= late || *since >= late { // passes may be minutes apart, but what is due is swept at once
		return nil, nil
	}
	return []Warning{warning("no_sweep", fmt.Sprintf("no sweep has run for %s: expired leases, due items and retention wait; run a server, "+
		"or sweep by hand", ago(now, *since)), "pawl sweep")}, nil
}

func ago(now, at int64) time.Duration {
	return (time.Duration(now-at) * time.Microsecond).Round(time.Second)
}

// noWorkers warns of types with queued work that no live worker takes.
func noWorkers(ctx context.Context, tx Tx, now int64) ([]Warning, error) {
	rows, err := tx.Query(ctx, warnSQL["queued types"])
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var queues []QueueName
	for rows.Next() {
		var q QueueName
		if err := rows.Scan(&q.Namespace, &q.Type); err != nil {
			return nil, err
		}
		queues = append(queues, q)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	rows.Close()
	live := map[string]claiming{}
	var out []Warning
	for _, q := range queues {
		if _, known := live[q.Namespace]; !known {
			if live[q.Namespace], err = readClaiming(ctx, tx, q.Namespace, now); err != nil {
				return nil, err
			}
		}
		if c := live[q.Namespace]; !c.live.take(q.Type) && len(out) < WarnedTypes {
			paused := ""
			if c.isPaused(q.Type) {
				paused = "; it is paused, too: " + resume(q, c.all)
			}
			out = append(out, warning("no_worker", fmt.Sprintf("type %s of namespace %s has queued work, and no live worker takes it%s",
				q.Type, q.Namespace, paused), shellwords.Line(q.Namespace, "worker", "--type", q.Type, "--exec", "--", "./handler")))
		}
	}
	return out, nil
}

// resume is the command that ends a pause of a queue, or of its namespace.
func resume(q QueueName, all bool) string {
	if all {
		return shellwords.Line(q.Namespace, "queue resume", "--all")
	}
	return shellwords.Line(q.Namespace, "queue resume", q.Type)
}

// longPauses warns of queued work of pauses that may have been forgotten.
func longPauses(ctx context.Context, tx Tx, now int64) (out []Warning, err error) {
	err = EachRow(ctx, tx, func(rows Rows) error {
		var q QueueName
		var at int64
		if err := rows.Scan(&q.Namespace, &q.Type, &at); err != nil {
			return err
		}
		what := ""
		if q.Type != "" {
			what = "type " + q.Type + " of "
		}
		out = append(out, warning("long_pause", fmt.Sprintf("%snamespace %s has been paused for %s, and has queued work", what, q.Namespace,
			ago(now, at)), resume(q, q.Type == "")))
		return nil
	}, warnSQL["long pauses"], now-pauseLong.Microseconds(), WarnedTypes)
	return out, err
}

// sequencerBehind warns if events have had no position for long.
func sequencerBehind(ctx context.Context, tx Tx, now int64) ([]Warning, error) {
	feed, err := ReadFeed(ctx, tx)
	if err != nil {
		return nil, err
	}
	var oldest *int64
	var n int64
	if _, err := Row(ctx, tx, []any{&oldest, &n}, warnSQL["events without position"], feed.Top, MaxUnsequenced); err != nil {
		return nil, err
	}
	if oldest == nil || now-*oldest <= sequencerLate.Microseconds() {
		return nil, nil
	}
	return []Warning{warning("sequencer_behind", fmt.Sprintf("%d events or more, the oldest of them %s old, are not in the feed and the "+
		"transparency log yet: run a server", n, ago(now, *oldest)), "pawl serve")}, nil
}

// MaxUnsequenced is how many events without a position are counted.
const MaxUnsequenced = 10_000
