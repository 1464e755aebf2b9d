package identity

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-work/pawl/store"
)

// backup is how a file that `pawl backup` wrote became known: not at all.
const backup = "backup"

func has(rows []PlaceRow, kind string) bool {
	return slices.ContainsFunc(rows, func(r PlaceRow) bool { return r.Kind == kind })
}

func find(rows []PlaceRow, kind, place string) int {
	return slices.IndexFunc(rows, func(r PlaceRow) bool { return r.Kind == kind && r.Place == place })
}

func known(rows []PlaceRow, at store.Place) bool {
	return slices.ContainsFunc(rows, func(r PlaceRow) bool { return r.Kind == placeKnown && at.Known(r.Place) })
}

// reason says why a place is not known, by the one that became known last.
func reason(rows []PlaceRow, at store.Place) string {
	rows = slices.DeleteFunc(slices.Clone(rows), func(r PlaceRow) bool { return r.Kind != placeKnown })
	last := rows[len(rows)-1]
	was := placeOf(last.Place)
	switch {
	case last.How == backup:
		return "the file was written by `pawl backup`"
	case at.Address != was.Address:
		return fmt.Sprintf("the URL names %s, and the database knows %s", at.Address, was.Address)
	case at.Address != "" && at.Database != was.Database:
		return fmt.Sprintf("the database has the number %d in its server, and it knows %d", at.Database, was.Database)
	case at.Address != "" && at.Schema != was.Schema:
		return fmt.Sprintf("the schema has the number %d in its database, and it knows %d", at.Schema, was.Schema)
	case at.Address != "":
		return fmt.Sprintf("the server has the identifier %s, and the database knows %s", at.System, was.System)
	case at.ID == "":
		return "there is no file with the ending .place beside it"
	case at.ID != was.ID:
		return "the file with the ending .place beside it is not its own"
	}
	return fmt.Sprintf("the file has the inode %d, and the database knows %d", at.Inode, was.Inode)
}

// Answer answers the questions of engines that use this database under another name, until ctx
// ends. asked tells that there are some.
func (g *Guard) Answer(ctx context.Context, asked <-chan struct{}) {
	if !g.asks {
		return
	}
	for ctx.Err() == nil {
		if err := g.answer(ctx); err != nil && ctx.Err() == nil {
			g.options.Log.WarnContext(ctx, "answering where the database is failed; retrying", "error", err)
		}
		rest(ctx, answerGap, nil)
		rest(ctx, answerEvery, asked)
	}
}

// rest waits until a time is over, told tells something, or ctx ends.
func rest(ctx context.Context, d time.Duration, told <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-told:
	case <-ctx.Done():
	}
}

func (g *Guard) answer(ctx context.Context) error {
	var asked []string
	err := g.options.DB.Dialect().Look(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		asked, err = placeQuestions(ctx, tx, 0)
		if err != nil || len(asked) == 0 {
			return err
		}
		now, err := tx.Now(ctx)
		if err == nil {
			asked, err = placeQuestions(ctx, tx, now-answerTime.Microseconds())
		}
		return err
	})
	if err != nil || len(asked) == 0 {
		return err
	}
	return g.options.DB.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		if _, err := store.LockFeed(ctx, tx); err != nil {
			return err
		}
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		for _, place := range asked {
			row := PlaceRow{Kind: placeKnown, Place: place, How: "answered", CreatedAt: now}
			if err := PutPlace(ctx, tx, row); err != nil {
				return err
			}
			if err := forgetPlace(ctx, tx, placeAsked, place); err != nil {
				return err
			}
		}
		return forgetPlace(ctx, tx, placeFound, "")
	})
}

// Expect lets a database act once at a place that a URL names.
func Expect(ctx context.Context, db store.DB, named string) error {
	return db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		return PutPlace(ctx, tx, PlaceRow{Kind: PlaceExpected, Place: named, CreatedAt: now})
	})
}

// Shared returns how much of the feed and of the log the copy shares with its original.
func Shared(ctx context.Context, tx store.Tx) (position, leaves int64, err error) {
	rows, err := Places(ctx, tx)
	if i := find(rows, placeFound, ""); i >= 0 {
		return rows[i].Position, rows[i].Leaves, err
	}
	return 0, 0, err
}

// Adopt makes the present place the only one that is known.
func (g *Guard) Adopt(ctx context.Context, tx store.Tx, test bool) error {
	if err := forgetPlaces(ctx, tx); err != nil {
		return err
	}
	if test {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		if err := PutPlace(ctx, tx, PlaceRow{Kind: placeTest, CreatedAt: now}); err != nil {
			return err
		}
	}
	return put(ctx, tx, g.options.DB.Dialect(), "adopted")
}
