package main

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	_ "modernc.org/sqlite" // Pawl's driver too

	"github.com/pawl-work/pawl/internal/clock"
)

// durableFile holds the settings with which every system here opens SQLite: WAL, each commit
// on disk.
const durableFile = "?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(5000)" +
	"&_pragma=cache_size(-65536)&_txlock=immediate"

// openFile opens a fresh file with one connection.
func (b *bench) openFile() (*sql.DB, error) {
	b.admin.made++
	db, err := sql.Open("sqlite", "file:"+filepath.Join(b.disk, fmt.Sprintf("raw_%d.db", b.admin.made))+durableFile)
	if err == nil {
		db.SetMaxOpenConns(1)
	}
	return db, err
}

// raw is hand-written SQL on the driver: one writer that groups all waiting calls into one
// transaction, with prepared statements and three events per item.
type raw struct {
	conn                                           *sql.Conn
	begin, commit, create, claim, complete, record *sql.Stmt
	calls                                          chan *rawCall
	token                                          atomic.Int64
}

// rawCall is one call of a caller, answered after its commit.
type rawCall struct {
	do   func(now int64) error
	err  error
	done chan struct{}
}

const rawGroup = 512 // calls per transaction

func openRaw(ctx context.Context, db *sql.DB) (*raw, error) {
	if _, err := db.ExecContext(ctx, text("raw tables")); err != nil {
		return nil, err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	r := &raw{conn: conn, calls: make(chan *rawCall, 4*rawGroup)}
	for name, into := range map[string]**sql.Stmt{"raw begin": &r.begin, "raw commit": &r.commit, "raw create": &r.create,
		"raw claim": &r.claim, "raw complete": &r.complete, "raw event": &r.record} {
		if *into, err = conn.PrepareContext(ctx, text(name)); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// write runs the calls, in groups, until calls is closed.
func (r *raw) write() {
	for first := range r.calls {
		group := []*rawCall{first}
	more:
		for len(group) < rawGroup {
			select {
			case c, ok := <-r.calls:
				if !ok {
					break more
				}
				group = append(group, c)
			default:
				break more
			}
		}
		err := r.transact(group)
		for _, c := range group {
			if c.err == nil {
				c.err = err
			}
			close(c.done)
		}
	}
}

func (r *raw) transact(group []*rawCall) error {
	if _, err := r.begin.Exec(); err != nil {
		return err
	}
	now := clock.Now().UnixMicro()
	for _, c := range group {
		c.err = c.do(now)
	}
	_, err := r.commit.Exec()
	return err
}

func (r *raw) call(do func(now int64) error) error {
	c := &rawCall{do: do, done: make(chan struct{})}
	r.calls <- c
	<-c.done
	return c.err
}

// life runs the whole lives of batch items, by one caller.
func (r *raw) life(batch int) error {
	if err := r.call(func(now int64) error { return r.createRows(now, batch) }); err != nil {
		return err
	}
	token := r.token.Add(1)
	var ids []int64
	if err := r.call(func(now int64) (err error) {
		ids, err = r.claimRows(now, token, batch)
		return err
	}); err != nil {
		return err
	}
	return r.call(func(now int64) error { return r.completeRows(now, token, ids) })
}

func (r *raw) createRows(now int64, n int) error {
	for range n {
		var id int64
		if err := r.create.QueryRow(now, string(payload)).Scan(&id); err != nil {
			return err
		}
		if _, err := r.record.Exec(id, 1, now); err != nil {
			return err
		}
	}
	return nil
}

func (r *raw) claimRows(now, token int64, n int) ([]int64, error) {
	rows, err := r.claim.Query(token, now, n)
	if err != nil {
		return nil, err
	}
	var ids []int64
	var id, attempt int64
	var body string
	for rows.Next() {
		if err := rows.Scan(&id, &attempt, &body); err != nil {
			rows.Close()
			return nil, err
		}
		ids = append(ids, id)
	}
	if err := rows.Close(); err != nil {
		return nil, err
	}
	for _, id := range ids {
		if _, err := r.record.Exec(id, 2, now); err != nil {
			return nil, err
		}
	}
	return ids, rows.Err()
}

func (r *raw) completeRows(now, token int64, ids []int64) error {
	for _, id := range ids {
		if _, err := r.complete.Exec(id, token, string(result), now); err != nil {
			return err
		}
		if _, err := r.record.Exec(id, 3, now); err != nil {
			return err
		}
	}
	return nil
}

// rawLives runs whole lives for a time and returns the items per second.
func (b *bench) rawLives(ctx context.Context, n, batch int, budget time.Duration) (float64, error) {
	db, err := b.openFile()
	if err != nil {
		return 0, err
	}
	defer db.Close()
	r, err := openRaw(ctx, db)
	if err != nil {
		return 0, err
	}
	defer r.conn.Close()
	go r.write()
	defer close(r.calls)
	return livesFor(n, budget, func(int) (int, error) { return batch, r.life(batch) })
}

// livesFor has n callers run lives until the time is up.
func livesFor(n int, budget time.Duration, life func(who int) (items int, err error)) (float64, error) {
	var items atomic.Int64
	start := clock.Now()
	took, err := many(n, func(who int) error {
		for clock.Now().Sub(start) < budget {
			did, err := life(who)
			if err != nil {
				return err
			}
			items.Add(int64(did))
		}
		return nil
	})
	return perSecond(int(items.Load()), took), err
}
