package hot

import (
	"context"
	_ "embed"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

var (
	//go:embed open_effect.sql
	openEffectSQL string
	//go:embed report_effect.sql
	reportEffectSQL string
)

// OpenEffect implements store.Hot.
func (Verbs) OpenEffect(ctx context.Context, tx store.Tx, f store.Fence, e *store.EffectRow, gateSeconds int, data store.Text) (done bool,
	err error) {
	var now int64
	done, err = store.Row(ctx, tx, []any{&now}, openEffectSQL, store.ItemID(f.ItemID), f.Namespace, f.WorkerID, f.Attempt, e.ID, e.Key, e.Name,
		e.RequestHash, e.Repeatable, e.Sender, e.KeyID, *store.GateUntil(0, gateSeconds), e.Senders, data)
	return done, err
}

// ReportEffect implements store.Hot.
func (Verbs) ReportEffect(ctx context.Context, tx store.Tx, f store.Fence, e *store.EffectRow) (done bool, err error) {
	more := ""
	switch e.State {
	case pawl.EffectDone:
		more = `,"answer_hash":"` + string(e.AnswerHash) + `"`
	case pawl.EffectUnknown:
		more = `,"reason":"sender"`
	}
	done, err = store.Row(ctx, tx, e.Unreported(), reportEffectSQL, store.ItemID(f.ItemID), f.Namespace, f.WorkerID, f.Attempt, e.ID, e.KeyID,
		string(e.State), e.Answer, e.AnswerHash, e.Error, more, e.Sendings)
	if done {
		e.Namespace, e.ItemID, e.WorkerID, e.Attempt = f.Namespace, f.ItemID, f.WorkerID, f.Attempt
	}
	return done, err
}
