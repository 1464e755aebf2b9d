package logs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/translog"
)

const (
	witnessCursor = "witness."       // begins the names of the cursors that say why a witness does not cosign
	witnessSaid   = time.Minute      // between two lines of the log about one witness; until then doctor is silent, too
	witnessAsked  = 10 * time.Minute // a witness that was asked longer ago is not known to be silent
)

// cosigners are the witnesses of a process, and the checkpoint that they are to cosign.
type cosigners struct {
	list []*cosigner
	next chan signedCheckpoint // the newest one; it has room for one
	now  signedCheckpoint      // with the cosignatures that it has
}

// cosigner is a witness as this process knows it.
type cosigner struct {
	*translog.Witness
	known   int64  // leaves of the log that it has seen
	done    string // the checkpoint that it was asked to cosign last, with success
	trouble *trouble
	pause   time.Duration
	next    time.Time
	said    time.Time
}

// trouble is why a witness does not cosign.
type trouble struct {
	Origin  string `json:"origin"`
	Refused bool   `json:"refused,omitempty"` // it has seen another history
	Error   string `json:"error"`
	Since   int64  `json:"since"`
}

// newCosigners returns witnesses, each once.
func newCosigners(list []*translog.Witness) (c cosigners) {
	c.next = make(chan signedCheckpoint, 1)
	for _, w := range list {
		if !slices.ContainsFunc(c.list, func(has *cosigner) bool { return has.ID() == w.ID() }) {
			c.list = append(c.list, &cosigner{Witness: w})
		}
	}
	return c
}

// keys returns the verifier keys of the witnesses.
func (c *cosigners) keys() (keys []string) {
	for _, w := range c.list {
		keys = append(keys, w.Key())
	}
	return keys
}

// offer hands over a checkpoint in place of the one that waits.
func (c *cosigners) offer(signed signedCheckpoint) {
	select {
	case <-c.next:
	default:
	}
	select {
	case c.next <- signed:
	default: // another goroutine has signed meanwhile
	}
}

// cosignLoop asks the witnesses to cosign each new checkpoint until ctx ends. Signing does not wait for it.
func (g *Log) cosignLoop(ctx context.Context) {
	c := &g.cosigners
	if g.key == "" {
		return
	}
	if err := g.readTroubles(ctx); err != nil {
		g.k.LogError(ctx, "what is known of the witnesses was not read", err)
	}
	if len(c.list) == 0 {
		return
	}
	timer := time.NewTicker(signEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case c.now = <-c.next:
		case <-timer.C:
		}
		if due := c.due(clock.Now()); len(due) > 0 {
			g.cosign(ctx, due)
		}
	}
}

// due lists the witnesses that are to be asked now.
func (c *cosigners) due(now time.Time) (due []*cosigner) {
	for _, w := range c.list {
		if w.done != c.now.body() && !now.Before(w.next) {
			due = append(due, w)
		}
	}
	return due
}

// errProof says that this process has no proof for a witness.
var errProof = errors.New("the log cannot be read")

// cosign asks witnesses at once, and stores what they said.
func (g *Log) cosign(ctx context.Context, due []*cosigner) {
	now := g.cosigners.now // with new lines once they are stored: a second signature of one witness makes the note invalid
	lines, errs := make([]string, len(due)), make([]error, len(due))
	prove := func(from int64) (tlog.TreeProof, error) { return g.continues(ctx, from, now.Size) }
	var all sync.WaitGroup
	for i, w := range due {
		all.Go(func() {
			lines[i], w.known, errs[i] = w.Cosign(ctx, now.Note, w.known, prove)
			if other := (*translog.HistoryError)(nil); errors.As(errs[i], &other) && other.Ahead > 0 {
				errs[i] = g.behind(ctx, other)
			}
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return
	}
	now.Note += strings.Join(lines, "")
	stored := g.k.DB.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		for i, w := range due {
			if err := w.put(ctx, tx, now, lines[i] != "", errs[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if stored == nil {
		g.cosigners.now = now
	}
	for i, w := range due {
		w.again(clock.Now(), now.body(), errors.Join(errs[i], stored))
		if err := cmp.Or(errs[i], stored); err != nil && clock.Now().Sub(w.said) >= witnessSaid {
			w.said = clock.Now()
			g.k.LogError(ctx, "the witness "+w.Name()+" has not cosigned the transparency log; retrying", err)
		}
	}
}

// continues proves that the log of one size continues that of another.
func (g *Log) continues(ctx context.Context, from, to int64) (proof tlog.TreeProof, err error) {
	err = g.k.DB.View(ctx, func(ctx context.Context, tx store.Tx) error {
		tree, err := store.ReadTree(ctx, tx)
		if err == nil {
			proof, err = tlog.ProveTree(to, from, tree)
		}
		return err
	})
	if err != nil {
		err = fmt.Errorf("%w: %w", errProof, err)
	}
	return proof, err
}

// behind judges that a witness has seen more leaves than the checkpoint has. It is nil if the log has them too: another
// process has signed them.
func (g *Log) behind(ctx context.Context, other *translog.HistoryError) error {
	size, err := g.size(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", errProof, err)
	case size >= other.Ahead:
		return nil
	}
	return other
}

// put stores what a witness has said of a checkpoint: its cosignature, or why there is none.
func (w *cosigner) put(ctx context.Context, tx store.Tx, now signedCheckpoint, cosigned bool, failed error) error {
	name := witnessCursor + w.ID()
	switch {
	case errors.Is(failed, errProof):
		return nil
	case failed == nil: // the trouble may be one that another process has noted
		if err := store.ForgetCursor(ctx, tx, name); err != nil {
			return err
		}
	case failed != nil:
		at, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		c, err := translog.Read(now.Note)
		if err != nil {
			return err
		}
		next := trouble{Origin: c.Origin, Error: failed.Error(), Since: at}
		var other *translog.HistoryError
		next.Refused = errors.As(failed, &other)
		if old := w.trouble; old != nil && old.Origin == next.Origin {
			next.Since = old.Since
			if old.Refused && !next.Refused { // it stays refused until it cosigns
				next.Refused, next.Error = true, old.Error
			}
		}
		w.trouble = &next
		text, err := json.Marshal(next)
		if err == nil {
			_, err = tx.Exec(ctx, texts["put trouble"], name, string(text), at)
		}
		return err
	}
	if !cosigned {
		return nil
	}
	now.Signer = w.ID()
	return putCheckpoint(ctx, tx, now)
}

// again says when the witness is asked again. A new checkpoint comes earlier only after success.
func (w *cosigner) again(now time.Time, done string, err error) {
	if err == nil {
		w.done, w.trouble, w.pause, w.next = done, nil, 0, time.Time{}
		return
	}
	w.pause = signPause(w.pause, err)
	w.next = now.Add(w.pause)
}

// readTroubles reads what processes before this one have left, and removes it of witnesses that this process does not name.
func (g *Log) readTroubles(ctx context.Context) error {
	return g.k.DB.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		all, err := troubles(ctx, tx)
		for _, x := range all {
			i := slices.IndexFunc(g.cosigners.list, func(w *cosigner) bool { return w.ID() == x.witness })
			if i >= 0 {
				g.cosigners.list[i].trouble = &x.trouble
			} else if err == nil {
				err = store.ForgetCursor(ctx, tx, witnessCursor+x.witness)
			}
		}
		return err
	})
}

// troubled is a witness that does not cosign.
type troubled struct {
	trouble
	witness string
	askedAt int64
}

// troubles lists the witnesses that do not cosign.
func troubles(ctx context.Context, tx store.Tx) ([]troubled, error) {
	return store.All(ctx, tx, texts["troubles"], nil, func(rows store.Rows, x *troubled) error {
		var text string
		if err := rows.Scan(&x.witness, &text, &x.askedAt); err != nil {
			return err
		}
		x.witness = strings.TrimPrefix(x.witness, witnessCursor)
		return json.Unmarshal([]byte(text), &x.trouble)
	})
}

// witnessWarnings names the witnesses of the present history that do not cosign it. One that is silent may be no witness any
// more if no process has asked it for a while; what one has refused stays.
func (g *Log) witnessWarnings(ctx context.Context) (out []pawl.Warning, err error) {
	err = g.k.DB.View(ctx, func(ctx context.Context, tx store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		all, err := troubles(ctx, tx)
		if err != nil || len(all) == 0 {
			return err
		}
		l, err := readLog(ctx, tx)
		if err != nil {
			return err
		}
		out = nil
		for _, x := range all {
			w := pawl.Warning{Code: "witness_silent", Command: "pawl log checkpoint",
				Detail: fmt.Sprintf("the witness %s has cosigned nothing since %s: %s", x.witness, store.Stamp(x.Since).Format(time.RFC3339), x.Error)}
			old := time.Duration(now-x.askedAt)*time.Microsecond > witnessAsked
			young := time.Duration(now-x.Since)*time.Microsecond < witnessSaid
			if x.Refused {
				w.Code, w.Command = "witness_refused", "pawl verify --all"
				w.Detail += ": the log was rolled back or changed, or the witness is wrong"
			} else if old || young {
				continue
			}
			if x.Origin == l.last().Origin {
				out = append(out, w)
			}
		}
		return nil
	})
	return out, err
}

// witnessGauges says of each witness of this process whether it cosigns, and how many signed leaves it has not cosigned.
func (g *Log) witnessGauges(ctx context.Context) (out []pawl.Gauge, err error) {
	if len(g.cosigners.list) == 0 {
		return nil, nil
	}
	err = g.k.DB.View(ctx, func(ctx context.Context, tx store.Tx) error {
		all, err := troubles(ctx, tx)
		if err != nil {
			return err
		}
		l, err := readLog(ctx, tx)
		if err != nil {
			return err
		}
		var newest int64
		sizes := map[string]int64{}
		for _, s := range l.signed {
			if s.Epoch == l.last().Epoch {
				newest, sizes[s.Signer] = max(newest, s.Size), s.Size
			}
		}
		out = nil
		for _, w := range g.cosigners.list {
			failing := 0.0
			if slices.ContainsFunc(all, func(x troubled) bool { return x.witness == w.ID() }) {
				failing = 1
			}
			labels := []string{"witness", w.Name()}
			out = append(out, pawl.Gauge{Name: "pawl_witness_failing", Help: "1 while the witness does not cosign the log.", Labels: labels,
				Value: failing}, pawl.Gauge{Name: "pawl_witness_lag_leaves", Help: "Signed leaves that it has not cosigned.", Labels: labels,
				Value: float64(newest - sizes[w.ID()])})
		}
		return nil
	})
	return out, err
}
