package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// channel is where processes of one schema tell each other of new work.
func channel(schema string) string { return "pawl_ready_" + schema[:min(len(schema), 52)] }

// notifier sends hints, outside every hot transaction: NOTIFY at commit takes a
// lock of the whole database.
func (d *db) notifier(schema string) func(ctx context.Context, payloads []string) error {
	return func(ctx context.Context, payloads []string) error {
		_, err := d.cold.Exec(ctx, "SELECT pg_notify($1, p) FROM unnest($2::text[]) p", channel(schema), payloads)
		if err != nil {
			return classify(err)
		}
		return nil
	}
}

// listener hears hints on a connection of its own, until ctx ends or the
// connection does. It needs a session: behind a pooler of transactions it hears
// nothing, and waiting claims poll.
func listener(conn *pgx.ConnConfig, schema string) func(ctx context.Context, ready func(), heard func(payload string)) error {
	return func(ctx context.Context, ready func(), heard func(payload string)) error {
		c, err := pgx.ConnectConfig(ctx, conn.Copy())
		if err != nil {
			return classify(err)
		}
		defer c.Close(context.WithoutCancel(ctx))
		if _, err := c.Exec(ctx, "LISTEN "+pgx.Identifier{channel(schema)}.Sanitize()); err != nil {
			return classify(err)
		}
		ready()
		for {
			n, err := c.WaitForNotification(ctx)
			if err != nil {
				return classify(err)
			}
			heard(n.Payload)
		}
	}
}
