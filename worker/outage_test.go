package worker

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-work/pawl"
)

// outage is a claimer whose server is away for a time after an effect was sent.
type outage struct {
	*fake
	until time.Time
	done  json.RawMessage
}

func (o *outage) OpenEffect(context.Context, pawl.OpenEffectCall) (pawl.OpenedEffect, error) {
	return pawl.OpenedEffect{ID: "eff_1", Key: "k", State: pawl.EffectOpen, Send: true}, nil
}

func (o *outage) EffectDone(_ context.Context, id string, call pawl.EffectDoneCall) (pawl.EffectRecord, error) {
	if time.Now().Before(o.until) {
		return pawl.EffectRecord{}, &pawl.Error{Code: pawl.CodeUnavailable, Message: "away"}
	}
	o.done = call.Answer
	return pawl.EffectRecord{ID: id}, nil
}

func (o *outage) EffectUnknown(context.Context, string, pawl.EffectUnknownCall) (pawl.EffectRecord, error) {
	return pawl.EffectRecord{}, nil
}

func TestAReportIsSentWhileTheLeaseHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &outage{fake: newFake()}
		ctx, stop := context.WithTimeout(context.Background(), 2*time.Minute)
		defer stop()
		o.add("t", `1`)
		pay := func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
			_, err := pawl.Effect(ctx, "charge", pawl.EffectOptions{}, func(context.Context, string) (int, error) {
				o.until = time.Now().Add(40 * time.Second)
				return 7, nil
			})
			return nil, err
		}
		err := RunWith(ctx, o, Options{Logger: discardLogger()}, Handler{"t", pay})
		if err != nil || string(o.done) != "7" || o.state("itm_0") != pawl.ItemCompleted {
			t.Errorf("%v, the effect has %q, the item is %s", err, o.done, o.state("itm_0"))
		}
	})
}
