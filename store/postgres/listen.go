package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// channel returns the name of the channel on which processes of one schema notify each
// other of new work.
func channel(schema string) string { return "pawl_ready_" + schema[:min(len(schema), 52)] }

// notifier sends hints outside every hot transaction, because NOTIFY takes a lock of the
// whole database at commit.
func (d *db) notifier(schema string) func(ctx context.Context, payloads []string) error {
	return func(ctx context.Context, payloads []string) error {
		return classify(d.background.single(ctx, func(s *session) error {
			_, err := s.Exec(ctx, "SELECT pg_notify($1, p) FROM unnest($2::text[]) p", channel(schema), payloads)
			return err
		}))
	}
}

// pingEvery is how long the listener receives nothing before it checks whether the server
// still answers.
const pingEvery = 5 * time.Second

// listener receives hints, until ctx or the connection ends. It needs a session, which it has for
// that time.
func (d *db) listener(of *pgx.ConnConfig, schema string) func(ctx context.Context, ready func(), heard func(payload string)) error {
	return func(ctx context.Context, ready func(), heard func(payload string)) error {
		c, free, err := d.hold(ctx, of)
		if err != nil {
			return classify(err)
		}
		defer free()
		within, cancel := context.WithTimeout(ctx, dialLimit)
		defer cancel()
		if _, err := c.Exec(within, "LISTEN "+pgx.Identifier{channel(schema)}.Sanitize()); err != nil {
			return classify(err)
		}
		ready()
		for {
			within, cancel := context.WithTimeout(ctx, pingEvery)
			n, err := c.WaitForNotification(within)
			cancel()
			switch {
			case err == nil:
				heard(n.Payload)
			case ctx.Err() == nil && pgconn.Timeout(err) && !c.IsClosed():
				if err := ping(ctx, c); err != nil {
					return classify(err)
				}
			default:
				return classify(err)
			}
		}
	}
}

// hold takes a connection for long: one of the pool's, or a new one. free closes it.
func (d *db) hold(ctx context.Context, of *pgx.ConnConfig) (c *pgx.Conn, free func(), err error) {
	if of != nil {
		if c, err = pgx.ConnectConfig(ctx, of.Copy()); err != nil {
			return nil, nil, err
		}
		return c, func() { _ = c.Close(context.WithoutCancel(ctx)) }, nil
	}
	if _, err := d.slots.take(ctx, useSession); err != nil {
		return nil, nil, err
	}
	pooled, err := d.conns.Acquire(ctx)
	if err != nil {
		d.slots.give(useSession)
		return nil, nil, err
	}
	d.wires.spare(pooled.Conn(), true)
	return pooled.Conn(), func() {
		_ = pooled.Conn().Close(context.WithoutCancel(ctx))
		pooled.Release()
		d.slots.give(useSession)
	}, nil
}

// ping checks whether the server still answers.
func ping(ctx context.Context, c *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, pingLimit)
	defer cancel()
	return c.Ping(ctx)
}
