package store

import (
	"context"
	"fmt"
)

// Warning is a property of the database that breaks no rule but puts a promise at risk.
type Warning struct {
	Name   string `json:"warning"`
	Found  string `json:"found"`
	Advice string `json:"advice"`
}

// Warnings lists what puts a promise at risk.
func Warnings(ctx context.Context, db DB) ([]Warning, error) {
	var feed FeedState
	err := db.View(ctx, func(ctx context.Context, tx Tx) (err error) {
		feed, err = ReadFeed(ctx, tx)
		return err
	})
	if err != nil {
		return nil, err
	}
	var out []Warning
	if n := len(feed.Starts); n > 0 {
		out = append(out, Warning{"epoch", fmt.Sprintf("the database went back in time, or may have: epoch %d of the feed began after "+
			"position %d", feed.Epoch, feed.Starts[n-1].Position),
			"find out whether the failover or restore lost commits; readers with older cursors are told where to restart (docs/events.md)"})
	}
	more, err := db.Dialect().Warnings(ctx)
	return append(out, more...), err
}
