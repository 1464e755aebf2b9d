package main

import (
	"context"
	"errors"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/internal/clock"
)

// moves measures how long writers wait while a database with many queued items, or its only namespace, moves into another one.
func (b *bench) moves(ctx context.Context) error {
	n := b.sized(1_000_000, 10_000)
	for _, of := range []struct {
		name string
		move engine.Move
	}{{"a move", engine.Move{}}, {"a move of a namespace", engine.Move{Namespace: pawl.DefaultNamespace}}} {
		var pauses, rates [2]series
		err := b.file(func(file string) error {
			return b.fresh(ctx, forPawl, func(url string) error { return b.move(ctx, file, url, n, of.move, &pauses[0], &rates[0]) })
		})
		if err != nil {
			return err
		}
		err = b.fresh(ctx, forPawl, func(url string) error {
			return b.file(func(file string) error { return b.move(ctx, url, file, n, of.move, &pauses[1], &rates[1]) })
		})
		if err != nil {
			return err
		}
		for i, way := range []string{"SQLite to PostgreSQL", "PostgreSQL to SQLite"} {
			b.add(line{name: "pause of " + of.name + ", " + way, got: pauses[i], unit: " s", atMost: 5,
				absolute: figure(float64(n)) + " queued items, " + figure(rates[i].median()) + " moved a second"})
		}
	}
	return nil
}

// move fills a database, and moves it.
func (b *bench) move(ctx context.Context, from, to string, n int, of engine.Move, pauses, rates *series) (err error) {
	source, err := engine.Open(ctx, from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	if _, err := (&runningEngine{Engine: source}).createTasks(ctx, n, 1000); err != nil {
		return err
	}
	target, err := engine.Open(ctx, to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	began := clock.Now()
	out, err := source.Relocate(ctx, target, of)
	if err != nil {
		return err
	}
	*pauses = append(*pauses, out.Paused.Seconds())
	*rates = append(*rates, float64(n)/clock.Now().Sub(began).Seconds())
	return nil
}
