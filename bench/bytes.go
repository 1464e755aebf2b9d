package main

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
)

// logged is what a server has written to its log so far.
type logged struct{ records, bytes, flushes int64 }

// lifeBytes says where the bytes of a life go, with its sequencer. A busy machine does not change them, so it shows what a
// change of the store gains where rates show nothing.
func (b *bench) lifeBytes(ctx context.Context) error {
	n := b.sized(50_000, 10_000)
	for _, batch := range []int{1000, 100} {
		if err := b.fresh(ctx, forPawl, func(url string) error { return b.bytesOf(ctx, url, n, batch) }); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) bytesOf(ctx context.Context, url string, n, batch int) error {
	empty, err := b.bytes(ctx, url)
	if err != nil {
		return err
	}
	before, err := b.logged(ctx)
	if err == nil {
		err = wholeLives(ctx, url, n, batch)
	}
	if err != nil {
		return err
	}
	after, err := b.logged(ctx)
	if err != nil {
		return err
	}
	full, err := b.bytes(ctx, url)
	if err != nil {
		return err
	}
	each := func(n0, n1 int64) float64 { return float64(n1-n0) / float64(n) }
	b.say("batch %d, a life: %.0f B of log in %.2f records, %.4f flushes; %.0f B stored", batch, each(before.bytes, after.bytes),
		each(before.records, after.records), each(before.flushes, after.flushes), each(empty, full))
	return b.relations(ctx, url, n)
}

// wholeLives creates, claims and completes n tasks of one item on an engine that runs. Its connections have ended, and what
// they wrote is counted.
func wholeLives(ctx context.Context, url string, n, batch int) (err error) {
	h, err := openEngine(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.stop()) }()
	if _, err := h.createTasks(ctx, n, batch); err != nil {
		return err
	}
	if _, err := h.drain(ctx, n, batch); err != nil {
		return err
	}
	return h.Log(ctx)
}

func (b *bench) logged(ctx context.Context) (l logged, err error) {
	err = b.admin.conn.QueryRow(ctx, text("logged")).Scan(&l.records, &l.bytes, &l.flushes)
	return l, err
}

// relations says how many bytes a life has in each table and index that n lives made larger.
func (b *bench) relations(ctx context.Context, url string, n int) (err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	rows, err := conn.Query(ctx, text("relations"), n)
	if err != nil {
		return err
	}
	var name string
	var size int64
	_, err = pgx.ForEachRow(rows, []any{&name, &size}, func() error {
		b.say("  %-32s %6.1f B", name, float64(size)/float64(n))
		return nil
	})
	return err
}
