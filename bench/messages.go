package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

// messages measures messages that many streams write at once and readers follow meanwhile, at
// the server that writes them and at another one. It also measures a thousand readers of one
// message, and the time to read a long message.
func (b *bench) messages(ctx context.Context) error {
	bases := []base{
		{"PostgreSQL", 1000, func(fn func(url string) error) error { return b.fresh(ctx, forPawl, fn) }},
		{"SQLite", 200, b.file},
	}
	takes := time.Duration(b.sized(20_000, 3000)) * time.Millisecond
	for _, db := range bases {
		var here, there latency
		var kept series
		err := b.alternate(func() error {
			return errors.Join(b.talk(ctx, db, takes, false, &here, &kept), b.talk(ctx, db, takes, true, &there, &kept))
		})
		if err != nil {
			return err
		}
		said := fmt.Sprintf("%d streams", db.streams)
		b.add(line{name: said + " of 50 chunks/s, what is taken in, " + db.name, got: kept, unit: "×", atLeast: 0.98,
			absolute: figure(50*float64(db.streams)) + " chunks/s asked"})
		b.add(line{name: said + ", reader lag p99, " + db.name, got: here.p99, unit: " ms", atMost: 250,
			absolute: "p50 " + figure(here.p50.median()) + " ms, the writer's 100 ms included"})
		b.add(line{name: said + ", lag p99 at another server, " + db.name, got: there.p99, unit: " ms", atMost: 250,
			absolute: "p50 " + figure(there.p50.median()) + " ms"})
	}
	if err := b.manyReaders(ctx, bases[0]); err != nil {
		return err
	}
	for _, db := range bases {
		if err := b.long(ctx, db); err != nil {
			return err
		}
		if b.soak > 0 {
			if err := b.soaks(ctx, db); err != nil {
				return err
			}
		}
	}
	return nil
}

// base is a kind of database, with the number of streams that it must support.
type base struct {
	name    string
	streams int
	on      func(fn func(url string) error) error
}

// open opens an engine that writes and, if apart is set, another engine that reads.
func (s *streamLoad) open(ctx context.Context, url string, apart bool) (stop func() error, err error) {
	if s.writer, err = openEngine(ctx, url); err != nil {
		return nil, err
	}
	if s.reader = s.writer; !apart {
		return s.writer.stop, nil
	}
	if s.reader, err = openEngine(ctx, url); err != nil {
		return nil, errors.Join(err, s.writer.stop())
	}
	return func() error { return errors.Join(s.reader.stop(), s.writer.stop()) }, nil
}

// talk has all streams write messages, each with one reader.
func (b *bench) talk(ctx context.Context, db base, takes time.Duration, apart bool, into *latency, kept *series) error {
	return db.on(func(url string) (err error) {
		s := &streamLoad{streams: max(1, int(float64(db.streams)*b.scale)), readers: 1}
		stop, err := s.open(ctx, url, apart)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stop()) }()
		if err := s.run(ctx, takes); err != nil {
			return err
		}
		asked := float64(s.streams) * takes.Seconds() * float64(time.Second/chunkEvery)
		into.p50, into.p99 = append(into.p50, s.lags.quantile(0.5)), append(into.p99, s.lags.quantile(0.99))
		*kept = append(*kept, float64(s.said.Load())/asked)
		return nil
	})
}

// manyReaders measures what 1,000 readers of one message cost the database, compared with one
// reader.
func (b *bench) manyReaders(ctx context.Context, db base) error {
	takes := time.Duration(b.sized(20_000, 5000)) * time.Millisecond
	flushes := takes.Seconds() * float64(time.Second/flushEvery)
	var alone, crowded, lag series
	listen := func(readers int, cost *series) error {
		return db.on(func(url string) error {
			before, err := one(ctx, url, "transactions")
			if err != nil {
				return err
			}
			s := &streamLoad{streams: 1, readers: readers}
			stop, err := s.open(ctx, url, true)
			if err != nil {
				return err
			}
			if err := errors.Join(s.run(ctx, takes), stop()); err != nil { // connections report their statistics when they end
				return err
			}
			if readers > 1 {
				lag = append(lag, s.lags.quantile(0.99))
			}
			after, err := one(ctx, url, "transactions")
			*cost = append(*cost, float64(after-before-int64(readers))/flushes) // each reader reads once when it comes
			return err
		})
	}
	err := b.alternate(func() error { return errors.Join(listen(1, &alone), listen(1000, &crowded)) })
	if err != nil {
		return err
	}
	b.add(line{name: "1,000 readers of one message, queries against 1", got: crowded.over(alone), unit: "×", atMost: 1.1,
		absolute: figure(crowded.median()) + " transactions a flush, all that the two servers do; " + figure(alone.median()) +
			" with one reader"})
	b.add(line{name: "1,000 readers of one message, lag p99", got: lag, unit: " ms", atMost: 250, absolute: "at another server"})
	return nil
}

// long measures the time to read a message of 10,000 chunks, saved five at a time.
func (b *bench) long(ctx context.Context, db base) error {
	const chunks, each, reads = 10_000, 5, 60
	var open, ended, replayed series
	err := db.on(func(url string) (err error) {
		s := &streamLoad{}
		stop, err := s.open(ctx, url, false)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stop()) }()
		r, err := s.begin(ctx, "writer")
		if err != nil {
			return err
		}
		for offset := int64(0); offset < chunks; offset += each {
			call := pawl.AppendCall{MessageFence: r.fence, Offset: offset}
			for i := range int64(each) {
				call.Chunks = append(call.Chunks, pawl.Chunk{Type: pawl.ChunkText, Text: words[(offset+i)%int64(len(words))]})
			}
			if err := firstOf(s.writer.Append(ctx, []pawl.AppendCall{call})); err != nil {
				return err
			}
		}
		id := r.fence.MessageID
		get := func() error { _, err := s.writer.GetMessage(ctx, id); return err }
		if open, err = timed(reads, get); err != nil {
			return err
		}
		if err := firstOf(s.writer.FinishMessages(ctx, []pawl.FinishCall{{MessageFence: r.fence}})); err != nil {
			return err
		}
		if ended, err = timed(reads, get); err != nil {
			return err
		}
		replayed, err = timed(reads, func() error {
			return s.writer.FollowMessage(ctx, id, -1, func(pawl.MessageFrame) error { return nil })
		})
		return err
	})
	if err != nil {
		return err
	}
	for _, l := range []struct {
		how string
		got series
	}{{"while it is open", open}, {"when it has ended", ended}, {"as a stream from its beginning", replayed}} {
		b.add(line{name: "10,000 chunks read " + l.how + ", " + db.name, got: series{l.got.quantile(0.95)}, unit: " ms", atMost: 20,
			absolute: "p95; p50 " + figure(l.got.median()) + " ms"})
	}
	return nil
}

// timed measures how long fn takes, in ms, without the first few calls.
func timed(n int, fn func() error) (series, error) {
	var out series
	for i := range n + 5 {
		start := clock.Now()
		if err := fn(); err != nil {
			return nil, err
		}
		if i >= 5 {
			out = append(out, millis(clock.Now().Sub(start)))
		}
	}
	return out, nil
}

// soaks has all streams write for a long time, with a new message every half minute. It
// compares the memory of the last quarter with that of the second.
func (b *bench) soaks(ctx context.Context, db base) error {
	const parts = 4
	var resident [parts]series
	err := db.on(func(url string) (err error) {
		s := &streamLoad{streams: db.streams, readers: 1, rotate: 30 * time.Second}
		stop, err := s.open(ctx, url, false)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stop()) }()
		watching, end := context.WithCancel(ctx)
		watched := make(chan error, 1)
		go func() {
			start := clock.Now()
			for {
				sleep(watching, time.Second)
				part := int(parts * clock.Now().Sub(start) / (b.soak + time.Second))
				if watching.Err() != nil || part >= parts {
					watched <- nil
					return
				}
				mb, err := residentOf("self")
				if err != nil {
					watched <- err
					return
				}
				resident[part] = append(resident[part], mb)
			}
		}()
		err = s.run(ctx, b.soak)
		end()
		b.say("%s for %s: %s chunks, lag p99 %s ms, memory by quarter %s", db.name, b.soak, figure(float64(s.said.Load())),
			figure(s.lags.quantile(0.99)), resident)
		return errors.Join(err, <-watched)
	})
	if err != nil {
		return err
	}
	b.add(line{name: "memory after a soak, against before, " + db.name, got: series{resident[parts-1].median() / resident[1].median()},
		unit: "×", atMost: 1.1,
		absolute: figure(resident[parts-1].median()) + " MB after " + b.soak.String()})
	return nil
}
