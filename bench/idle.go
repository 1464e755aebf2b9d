package main

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"time"
)

// idle measures the processor time of a server that has nothing to do: of its own process and of the database's, without
// what the database takes by itself. In that time, it makes one whole pass.
func (b *bench) idle(ctx context.Context) error {
	const atMost = 3
	length := time.Duration(b.sized(60, 20)) * time.Second
	for _, db := range b.databases(ctx) {
		var all, own, database series
		err := b.alternate(func() error {
			return db.on(func(url string) error {
				alone := 0.0
				if !strings.HasPrefix(url, "sqlite:") {
					was := b.admin.cpu() - toolTime()
					if err := rest(ctx, length); err != nil {
						return err
					}
					alone = b.admin.cpu() - toolTime() - was
				}
				used, err := b.idleServer(ctx, url, length)
				n := length.Seconds() / 1000
				used.database = max(0, used.database-alone)
				own, database = append(own, used.server/n), append(database, used.database/n)
				all = append(all, (used.server+used.database)/n)
				return err
			})
		})
		if err != nil {
			return err
		}
		b.add(line{name: "idle server, " + db.name, got: all, unit: " ms/s", atMost: atMost,
			absolute: "own process " + figure(own.median()) + ", database " + figure(database.median())})
	}
	return nil
}

// idleServer returns what a server takes in a time after it has begun.
func (b *bench) idleServer(ctx context.Context, url string, length time.Duration) (used shares, err error) {
	s, err := b.serve(ctx, url, "-upstream", "http://127.0.0.1:9", "-key", filepath.Join(b.disk, "idle.logkey"))
	if err != nil {
		return used, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	if err := rest(ctx, 8*time.Second); err != nil {
		return used, err
	}
	was := b.shares(s)
	if err := rest(ctx, length); err != nil {
		return used, err
	}
	is := b.shares(s)
	used = shares{server: is.server - was.server}
	if !strings.HasPrefix(url, "sqlite:") {
		used.database = is.database - was.database
	}
	return used, nil
}

func toolTime() float64 { return float64(ticksOf("self")) / 100 }

// rest waits.
func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
