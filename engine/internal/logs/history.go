package logs

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/translog"
)

// pastState says what became of the log since the checkpoint that is kept beside the signing key.
type pastState int

const (
	pastUnknown   pastState = iota // no checkpoint of this log is kept here: nothing can be told
	pastContinued                  // all that was signed is still there
	pastLost                       // the database lacks its own newest checkpoint too: it went back in time
	pastChanged                    // the database has that checkpoint, and other leaves: the log was changed
)

// past is the past of the log.
type past struct {
	state  pastState
	signed int64 // leaves of the checkpoint that is kept beside the key
	common int64 // of these are certainly still there
}

// past compares the log with the checkpoint that is kept beside the signing key. When the two
// differ, the checkpoints in the database say why: who changes leaves leaves them, and a
// database that went back in time has only older ones.
func (l state) past(known outside) (p past, err error) {
	if known.kept == "" {
		return p, nil
	}
	kept, err := translog.Open(known.kept, known.Keys)
	if err != nil || kept.Origin != l.last().Origin {
		return p, nil // of a key that the caller does not name, or of another history, which is a fault of its own
	}
	p.signed = kept.Size
	root, err := rootAt(l.tree, kept.Size)
	var cut *store.TileError
	if err != nil && !errors.As(err, &cut) {
		return p, err
	}
	if err == nil && root == kept.Root {
		p.state, p.common = pastContinued, kept.Size
		return p, nil
	}
	if p.common, err = l.common(known.Keys, kept); errors.As(err, &cut) {
		err = nil
	}
	p.state = pastChanged
	if l.newestSigned(known.Keys) < kept.Size {
		p.state = pastLost
	}
	return p, err
}

// newestSigned returns the size of the largest checkpoint of this history in the database that a
// key has signed.
func (l state) newestSigned(keys []string) (size int64) {
	for _, s := range l.signed {
		if c, err := translog.Open(s.Note, keys); err == nil && c.Origin == l.last().Origin {
			size = max(size, c.Size)
		}
	}
	return size
}

// lost says in words what a database that went back in time has lost.
func (p past) lost() string {
	return fmt.Sprintf("the database went back in time: of the %d leaves that were signed, some after leaf %d are lost", p.signed, p.common)
}

const repairLost = "`pawl log fork` begins a new history, which names the lost leaves; if a newer backup is there, restore that instead"

// epochWarning says what is known of the failover or restore at which the newest epoch of the feed
// began, if one began.
func (g *Log) epochWarning(ctx context.Context) ([]pawl.Warning, error) {
	known, err := g.outside(nil)
	if err != nil {
		known = outside{} // the files of the key cannot be read here
	}
	var feed store.FeedState
	var l state
	var p past
	err = g.k.DB.View(ctx, func(ctx context.Context, tx store.Tx) error {
		if feed, err = store.ReadFeed(ctx, tx); err != nil || len(feed.Starts) == 0 {
			return err
		}
		if l, err = readLog(ctx, tx); err == nil {
			p, err = l.past(known)
		}
		return err
	})
	if err != nil || len(feed.Starts) == 0 {
		return nil, err
	}
	began := fmt.Sprintf("epoch %d of the feed began after position %d, at a failover or restore (docs/events.md)", feed.Epoch,
		feed.Starts[len(feed.Starts)-1].Position)
	w := pawl.Warning{Code: "epoch", Command: "pawl verify --all"}
	switch {
	case p.state == pastLost:
		w.Detail, w.Command = began+": "+p.lost()+"; "+repairLost, "pawl log fork"
	case p.state == pastChanged:
		w.Detail = began + ": whether events are lost cannot be told, because the log was changed"
	case len(l.epochs) > 1:
		f := forkOf(l.last())
		w.Detail = fmt.Sprintf("%s: the log was forked, and %d signed leaves after leaf %d are lost", began, f.Lost, f.Size)
	case p.state == pastContinued:
		w.Detail = fmt.Sprintf("%s: nothing that was signed is lost, because the log continues the checkpoint of %d leaves that is kept "+
			"beside the key", began, p.signed)
	default:
		w.Detail = began + ": whether events are lost cannot be told here, because no checkpoint is kept outside the database; a server " +
			"with a signing key (record.key) keeps one"
	}
	return []pawl.Warning{w}, nil
}
