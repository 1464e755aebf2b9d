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
		ctx, end := d.background.bound(ctx, d.background.limit)
		defer end()
		_, err := d.background.Exec(ctx, "SELECT pg_notify($1, p) FROM unnest($2::text[]) p", channel(schema), payloads)
		if err != nil {
			return classify(err)
		}
		return nil
	}
}

// pingEvery is how long the listener receives nothing before it checks whether the server
// still answers.
const pingEvery = 5 * time.Second

// listener receives hints on a connection of its own, until ctx or the connection ends. It
// needs a session: behind a transaction pooler it receives nothing, and waiting claims
// poll.
func listener(conn *pgx.ConnConfig, schema string) func(ctx context.Context, ready func(), heard func(payload string)) error {
	return func(ctx context.Context, ready func(), heard func(payload string)) error {
		c, err := pgx.ConnectConfig(ctx, conn.Copy())
		if err != nil {
			return classify(err)
		}
		defer c.Close(context.WithoutCancel(ctx))
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

// ping checks whether the server still answers.
func ping(ctx context.Context, c *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, pingLimit)
	defer cancel()
	return c.Ping(ctx)
}
