package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// The messages of an item that was sent back are found without a read of what happened before.
func TestTheMessagesOfAReworkedItemReadFewEvents(t *testing.T) {
	withType(t, strictReport, pawl.Hooks{}, func(o typeFixture) {
		ctx := o.Context()
		_, ls := o.task(400)
		calls := make([]pawl.SubmitCall, len(ls))
		for i := range calls {
			calls[i] = pawl.SubmitCall{Fence: ls[i].Fence(), Result: []byte(`{"title":"a"}`)}
		}
		need[[]pawl.Result[pawl.Moved]](t)(o.Engine.Submit(ctx, calls))
		need[pawl.SweepStats](t)(o.Engine.Sweep(ctx))
		need[pawl.Task](t)(first(o.Engine.RejectTasks(ctx, []pawl.RejectCall{{TaskID: ls[0].TaskID, AllowRework: true,
			ItemIDs: []string{ls[0].ID}, Errors: []pawl.Complaint{{Code: "thin", Message: "thin"}}}})))
		l := leases(t, o.Engine, pawl.ClaimRequest{WorkerID: "w"}, 1)[0]
		m := need[pawl.Message](t)(first(o.Engine.StartMessages(ctx, []pawl.StartCall{{Fence: l.Fence(), Role: pawl.RoleAssistant}})))
		if o.Database == pawltest.Postgres {
			ok(t, o.Exec("ANALYZE"))
		}
		ok(t, o.Engine.DB().View(ctx, func(ctx context.Context, tx store.Tx) error {
			r := &recorder{Tx: tx}
			l, err := engine.MessagesOfItem(ctx, r, l.TaskID, l.ID, 1, pawl.Page{Limit: 9})
			if err != nil || len(l.Items) != 1 || l.Items[0].ID != m.ID {
				return fmt.Errorf("messages %+v, %w", l.Items, err)
			}
			plan, err := explain(ctx, tx, o.Database == pawltest.SQLite, r.queries[0], r.args[0])
			if mostRead(plan) > 100 {
				t.Errorf("it reads %.0f events:\n%s", mostRead(plan), strings.Join(plan, "\n"))
			}
			return err
		}))
	})
}
