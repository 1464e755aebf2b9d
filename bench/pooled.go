package main

import (
	"context"
	"errors"
	"net/url"
	"time"

	"github.com/pawl-work/pawl/internal/testserver"
)

// poolerSessions is how many sessions the pooler of transactions has.
const poolerSessions = 4

// pooled measures what a pooler of transactions costs: a life through PgBouncer, where each statement
// is planned anew, against the same life with connections to the server.
func (b *bench) pooled(ctx context.Context) (err error) {
	p, err := testserver.NewPooler(ctx, b.server.URL, poolerSessions)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	run := func(ctx context.Context, server string, n, batch int) (create, drain time.Duration, err error) {
		to, err := url.Parse(p.URL)
		if err != nil {
			return 0, 0, err
		}
		of, err := url.Parse(server)
		if err != nil {
			return 0, 0, err
		}
		to.Path, to.RawQuery = of.Path, "sslmode=disable&pool_mode=transaction"
		return lifeAt(ctx, to.String(), server, n, batch, (*runningEngine).createTasks)
	}
	behind := system{"tasks of one, pooled", forPawl, run}
	n := b.sized(40_000, 10_000)
	var direct, through lives
	if err := b.alternate(func() error {
		return errors.Join(b.measure(ctx, manyTasks, n, 100, &direct), b.measure(ctx, behind, n, 100, &through))
	}); err != nil {
		return err
	}
	for name, of := range map[string][2]series{
		"drain tasks of one, batch 100, behind a pooler": {through.drain, direct.drain},
		"create tasks of one, behind a pooler":           {through.create, direct.create},
	} {
		b.add(line{name: name, got: of[0].over(of[1]), unit: "×", atLeast: 0.5, absolute: figure(of[0].median()) + "/s",
			peer: "direct: " + figure(of[1].median()) + "/s"})
	}
	return nil
}
