package suite

import (
	"time"

	"github.com/pawl-work/pawl"
)

var effectSenders = noun{"senders of effects", []promise{
	{"what an earlier sender did not do says nothing about the present sending", func(w *fixture) {
		w.oneItem()
		first := w.claim("w1")
		opened := w.openEffect(first, "charge")
		w.release(first)
		w.resolve(opened.ID, pawl.DidNotHappen)
		second := w.claim("w2")
		w.openEffect(second, "charge")
		w.effectFailed(first, opened.ID) // late, and about its own sending
		f := w.effect(opened.ID, pawl.EffectOpen)
		w.same([]any{f.Late, f.Contradicts, f.LateReport.State}, []any{true, false, pawl.EffectFailed}, "late, contradicts, the report")
		_, err := w.svc.EffectUnknown(w.ctx, opened.ID, pawl.EffectUnknownCall{ItemID: first.ID, WorkerID: first.WorkerID,
			Attempt: first.Attempt})
		w.ok(err, "unknown")
		w.effect(opened.ID, pawl.EffectOpen)
		w.release(second)
		w.effectFailed(first, opened.ID)
		w.effect(opened.ID, pawl.EffectUnknown)
		_, err = w.svc.OpenEffect(w.ctx, openCall(w.claim("w3"), "charge"))
		w.refused(err, pawl.CodeEffectUnknown)
		w.effectFailed(second, opened.ID) // the present sender knows
		w.effect(opened.ID, pawl.EffectFailed)
	}},
	{"what its sender says after a decision that it did not happen is asked about before it is sent again", func(w *fixture) {
		w.oneItem()
		first := w.claim("w1")
		opened := w.openEffect(first, "charge")
		w.release(first)
		w.resolve(opened.ID, pawl.DidNotHappen)
		w.clock.Advance(time.Second)
		w.effectDone(first, opened.ID, `"ch_1"`)
		w.effect(opened.ID, pawl.EffectFailed)
		second := w.claim("w2")
		_, err := w.svc.OpenEffect(w.ctx, openCall(second, "charge"))
		w.same(w.refused(err, pawl.CodeEffectUnknown).EffectID, opened.ID, "the effect")
		w.effect(opened.ID, pawl.EffectUnknown)
		w.clock.Advance(time.Second)
		w.resolve(opened.ID, pawl.DidNotHappen) // the person knows both statements
		w.same(w.openEffect(second, "charge").ID, opened.ID, "id")
	}},
	{"an earlier sending that happened after all decides, and contradicts", func(w *fixture) {
		w.oneItem()
		first := w.claim("w1")
		opened := w.openEffect(first, "charge")
		w.release(first)
		w.resolve(opened.ID, pawl.DidNotHappen)
		second := w.claim("w2")
		w.openEffect(second, "charge")
		w.effectDone(first, opened.ID, `"ch_1"`)
		f := w.effect(opened.ID, pawl.EffectDone)
		w.same([]any{f.Contradicts, string(f.Answer)}, []any{true, `"ch_1"`}, "contradicts, the answer")
		w.effectDone(second, opened.ID, `"ch_2"`)
		f = w.effect(opened.ID, pawl.EffectDone)
		w.same([]any{f.Contradicts, string(f.Answer), string(f.LateReport.Answer)}, []any{true, `"ch_1"`, `"ch_2"`}, "beside the decision")
	}},
}}
