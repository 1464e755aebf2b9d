package logs

import (
	"context"
	"encoding/base64"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/translog"
)

// EffectReceipt proves what became of an effect; see pawl.EffectReader. The statement is made from the
// leaves alone, as by those who check it. Its checkpoint is one that as many of this process's witnesses as can be have cosigned.
func (g *Log) EffectReceipt(ctx context.Context, id string) (pawl.EffectReceipt, error) {
	known, err := g.outside(&translog.Trust{Witnesses: g.cosigners.keys()})
	if err != nil {
		return pawl.EffectReceipt{}, err
	}
	return kernel.Read(ctx, g.k, func(ctx context.Context, tx store.Tx, ns string) (pawl.EffectReceipt, error) {
		none := pawl.EffectReceipt{}
		f, err := store.GetEffect(ctx, tx, ns, id)
		if err != nil {
			return none, err
		}
		signed, roots, err := g.cosignedRoots(ctx, tx, known)
		if err != nil {
			return none, err
		}
		c := signed[0]
		list, all, err := store.ProveEffect(ctx, tx, roots[0], &f)
		for i := 1; i < len(roots) && err == nil && !all; i++ {
			c = signed[i]
			list, all, err = store.ProveEffect(ctx, tx, roots[i], &f)
		}
		switch {
		case err != nil:
			return none, err
		case !all:
			return none, &pawl.Error{Code: pawl.CodeNotFound, Op: "receipt", EffectID: id,
				Message: "the events of effect " + id + " are not all under a signed checkpoint yet"}
		case len(list) == 0:
			return none, &pawl.Error{Code: pawl.CodeNotFound, Op: "receipt", EffectID: id,
				Message: "effect " + id + " stands for effect " + string(f.Source) + " of the original, which has the receipt"}
		}
		r := pawl.EffectReceipt{Format: pawl.EffectReceiptFormat, Checkpoint: c.Note}
		leaves := make([]translog.Leaf, len(list))
		for i, p := range list {
			if leaves[i], err = translog.ReadLeaf(p.Leaf); err != nil {
				return none, err
			}
			r.Events = append(r.Events, pawl.ReceiptEvent{EventID: p.EventID, Index: p.EventProof.Leaf,
				Leaf: base64.StdEncoding.EncodeToString(p.Leaf), Hashes: encode(p.Proof)})
		}
		if r.Effect, err = translog.StateOf(leaves); err != nil {
			err = &pawl.Error{Code: pawl.CodeConflict, Op: "receipt", EffectID: id, State: string(f.State),
				Message: "the events of effect " + id + " are not all in this database: " + err.Error()}
		} else if r.Effect.State != f.State {
			err = &pawl.Error{Code: pawl.CodeConflict, Op: "receipt", EffectID: id, State: string(f.State),
				Message: "effect " + id + " is " + string(f.State) + ", and its events say " + string(r.Effect.State)}
		}
		return r, err
	})
}

// cosignedRoots returns the newest checkpoints that all of the witnesses have cosigned, that all but one have, and so on, and the
// newest of all.
func (g *Log) cosignedRoots(ctx context.Context, tx store.Tx, known outside) (out []pawl.LogCheckpoint, roots []store.LogRoot, err error) {
	for known.Quorum = len(known.Witnesses); known.Quorum >= 0; known.Quorum-- {
		if known.Quorum == 0 {
			known.Witnesses = nil
		}
		root, c, err := g.signedRoot(ctx, tx, known)
		if pawl.CodeOf(err) == pawl.CodeNotFound && known.Quorum > 0 {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		out, roots = append(out, c), append(roots, root)
	}
	return out, roots, nil
}
