package logs

import (
	"context"
	"encoding/base64"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/translog"
)

// state is the transparency log as one transaction reads it.
type state struct {
	tree   *store.Tree
	epochs []epoch // at least one
	signed []signedCheckpoint
}

// readLog reads the log's tree, its histories and the checkpoints that are in the database.
func readLog(ctx context.Context, tx store.Tx) (l state, err error) {
	if l.tree, err = store.ReadTree(ctx, tx); err != nil {
		return l, err
	}
	if l.epochs, err = readEpochs(ctx, tx); err != nil {
		return l, err
	}
	if len(l.epochs) == 0 {
		return l, &pawl.Error{Code: pawl.CodeInternal, Op: "log", Message: "table log_epochs has no row: the log has no name"}
	}
	l.signed, err = signedCheckpoints(ctx, tx)
	return l, err
}

// read is readLog in a transaction of its own.
func (g *Log) read(ctx context.Context) (state, error) {
	return kernel.Read(kernel.ForAll(ctx), g.k, func(ctx context.Context, tx store.Tx, _ string) (state, error) { return readLog(ctx, tx) })
}

// last is the present history.
func (l state) last() epoch { return l.epochs[len(l.epochs)-1] }

// outside is what is known of the log outside the database.
type outside struct {
	translog.Trust        // the keys that count
	kept           string // the checkpoint that is kept beside the signing key; "" = none
	wanted         bool   // the caller named keys: one of them must have signed, or witnesses
}

// outside reads the signer's files. Call it before the transaction that reads the log: a
// checkpoint that is signed later may be larger than the log of its snapshot.
func (g *Log) outside(trust *translog.Trust) (k outside, err error) {
	path := g.key
	if trust != nil {
		k.Trust = *trust
	}
	k.kept, k.wanted = translog.ReadKept(path), len(k.Keys)+len(k.Witnesses) > 0
	if k.Trust, err = k.Check(); err != nil {
		return k, &pawl.Error{Code: pawl.CodeInvalid, Op: "verify", Message: err.Error(), Err: err}
	}
	if len(k.Keys) == 0 {
		k.Keys, err = translog.Public(path)
	}
	return k, err
}

// root returns the root that the log has to have: that of the largest checkpoint that a
// known key has signed. It is in the database, or kept beside the key.
func (l state) root(known outside) (root store.LogRoot, found *pawl.LogCheckpoint, faults []store.LogFault) {
	signed := l.signed
	if known.kept != "" {
		signed = append(signed, signedCheckpoint{Note: known.kept})
	}
	origin := l.last().Origin
	if known.kept != "" && !known.wanted {
		if c, err := translog.Open(known.kept, known.Keys); err != nil || c.Origin != origin {
			faults = append(faults, store.LogFault{Kind: store.FaultRoot,
				Found: "the checkpoint that is kept beside the key is of another history than the log's"})
		}
	}
	var size int64 // of the largest checkpoint that is signed, cosigned or not
	for _, s := range signed {
		if c, err := translog.Open(s.Note, known.Keys); err == nil && c.Origin == origin {
			size = max(size, c.Size)
		}
		c, err := known.Open(s.Note)
		if err != nil || c.Origin != origin {
			continue // of another key or history
		}
		if found != nil && (c.Size < found.Size || c.Size == found.Size && len(s.Note) <= len(found.Note)) {
			continue // the same with fewer cosignatures
		}
		root = store.LogRoot{Size: c.Size, Root: c.Root}
		found = &pawl.LogCheckpoint{Origin: origin, Size: c.Size, Root: base64.StdEncoding.EncodeToString(c.Root[:]), Note: s.Note}
		if s.CreatedAt > 0 {
			found.SignedAt = store.Stamp(s.CreatedAt)
		}
	}
	switch {
	case found == nil && len(known.Witnesses) > 0:
		faults = append(faults, store.LogFault{Kind: store.FaultRoot, Found: "no checkpoint of this log is cosigned by as many of the witnesses"})
	case found == nil && known.wanted:
		faults = append(faults, store.LogFault{Kind: store.FaultRoot, Found: "no checkpoint of this log is signed with the given key"})
	case max(size, root.Size) > l.tree.Size:
		root = store.LogRoot{}
		faults = append(faults, store.LogFault{Kind: store.FaultRoot, Position: l.tree.Size + 1,
			Found: "the log has fewer leaves than its checkpoint: the database went back in time, or its end was cut off"})
	}
	return root, found, faults
}

// newestSigned returns how a transaction that begins after the call reads the newest checkpoint
// that a known key has signed. When the log is shorter than that, there is none.
func (g *Log) newestSigned() (func(context.Context, store.Tx) (store.SignedRoot, error), error) {
	known, err := g.outside(nil)
	if err != nil {
		return nil, signerError("log", err)
	}
	return func(ctx context.Context, tx store.Tx) (out store.SignedRoot, err error) {
		l, err := readLog(ctx, tx)
		if err != nil {
			return out, err
		}
		root, found, _ := l.root(known)
		if out.LogRoot = root; root.Size > 0 {
			out.Note = found.Note
		}
		by := known
		by.Witnesses = g.cosigners.keys()
		for by.Quorum = len(by.Witnesses); by.Quorum > 0; by.Quorum-- {
			if root, c, _ := l.root(by); c != nil && root.Size > 0 {
				out.Cosigned = append(out.Cosigned, store.SignedRoot{LogRoot: root, Note: c.Note})
			}
		}
		origin := l.last().Origin
		out.Open = func(note string) (store.LogRoot, bool) {
			c, err := translog.Open(note, known.Keys)
			return store.LogRoot{Size: c.Size, Root: c.Root}, err == nil && c.Origin == origin
		}
		return out, nil
	}, nil
}
