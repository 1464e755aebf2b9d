package hot

import (
	"context"
	"strings"

	"github.com/pawl-work/pawl/store"
)

var (
	touch     = read("touch.sql")
	touchLook = strings.Replace(touch.get("Look"), " /* item */", "", 1)
	touchItem = strings.Replace(touch.get("Look"), " /* item */",
		",\n  "+store.ReturnItem("$1", "", store.PartStatuses("$1", ""), "started_at", "stage", "error",
			"progress", "progressed_at", "lease_seconds", "acquired_at", "lease_expires_at", "heartbeat_at"), 1)
	touchStart  = touch.get("Start")
	touchExtend = touch.get("Extend")
	touchReport = touch.get("Report")
)

// held is what a verb that keeps the lease reads of it.
type held struct {
	taskID                            store.TaskID
	state                             string
	worker                            int64
	failures, leaseSeconds, expiresAt int64
	acquiredAt, queue                 int64
	store.Carried                     // solo and start_to_close
	progress                          *int64
	stage                             *string
	stopped, keyID                    store.Text
	item                              store.ReturnedColumns
}

// look reads the lease that a fence names. found is false when the fence is refused.
func (h *held) look(ctx context.Context, tx store.Tx, f *store.Fence, now int64) (found bool, err error) {
	found, h.worker, h.item, err = take(ctx, tx, []any{&h.taskID, &h.queue, (*store.StateCode)(&h.state),
		&h.failures, &h.leaseSeconds, &h.expiresAt, &h.progress, &h.stage,
		&h.stopped, &h.keyID, &h.Solo, &h.acquiredAt, &h.StartToClose},
		touchLook, touchItem, f, now)
	return found, err
}

func (h *held) event(name string, f *store.Fence) event {
	return event{namespace: f.Namespace, taskID: h.taskID, itemID: store.ItemID(f.ItemID), solo: h.Solo, attempt: int64(f.Attempt), name: name,
		by: by{h.worker, h.keyID}, queue: h.queue}
}

// started records the event of the first sign of life.
func (h *held) started(ctx context.Context, tx store.Tx, f *store.Fence, now int64) error {
	if h.state != "leased" {
		return nil
	}
	e := h.event("in_progress", f)
	e.from, e.to = "leased", "in_progress"
	h.state = "in_progress"
	return e.write(ctx, tx, now)
}

type stageData struct {
	Stage    string `json:"stage"`
	Progress *int64 `json:"progress"`
}

// Touch implements store.Hot.
func (Verbs) Touch(ctx context.Context, tx store.Tx, calls []store.Touch) ([]store.Touched, error) {
	now, err := tx.Now(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]store.Touched, 0, len(calls))
	for i := range calls {
		t := &calls[i]
		var h held
		found, err := h.look(ctx, tx, &t.Fence, now)
		if err == nil && found {
			err = h.touch(ctx, tx, t, now)
		}
		if err != nil {
			return nil, err
		}
		if found {
			a := store.Touched{Ord: t.Ord, TaskID: string(h.taskID), State: h.state, Failures: int(h.failures), LeaseSeconds: int(h.leaseSeconds),
				LeaseExpiresAt: h.expiresAt, Now: now, Stopped: h.stopped}
			if t.Return {
				if a.Returned, err = store.NewReturned(t.Fence, a.TaskID, a.Failures, h.item); err != nil {
					return nil, err
				}
				a.Returned.Touched(t, now)
			}
			out = append(out, a)
		}
	}
	return out, nil
}

func (h *held) touch(ctx context.Context, tx store.Tx, t *store.Touch, now int64) error {
	reports := t.Progress != nil || t.Stage != nil
	if t.Extend {
		if t.LeaseSeconds != 0 {
			h.leaseSeconds = int64(t.LeaseSeconds)
		}
		h.expiresAt = h.LeaseEnd(h.acquiredAt, now+h.leaseSeconds*1_000_000)
		if _, err := tx.Exec(ctx, touchExtend, store.ItemID(t.ItemID), now, h.expiresAt); err != nil {
			return err
		}
	} else if !reports && h.state == "leased" {
		if _, err := tx.Exec(ctx, touchStart, store.ItemID(t.ItemID)); err != nil {
			return err
		}
	}
	if err := h.started(ctx, tx, &t.Fence, now); err != nil || !reports {
		return err
	}
	return h.report(ctx, tx, t, now)
}

// report writes progress and stage. It leaves an event when the stage is new.
func (h *held) report(ctx context.Context, tx store.Tx, t *store.Touch, now int64) error {
	was := ""
	if h.stage != nil {
		was = *h.stage
	}
	isNew := t.Stage != nil && was != *t.Stage // "" = no stage
	if t.Progress != nil {
		n := int64(*t.Progress)
		h.progress = &n
	}
	if t.Stage != nil {
		h.stage = t.Stage
	}
	if _, err := tx.Exec(ctx, touchReport, store.ItemID(t.ItemID), h.progress, h.stage, now); err != nil || !isNew {
		return err
	}
	e := h.event("progressed", &t.Fence)
	var err error
	if e.data, err = encode(stageData{*h.stage, h.progress}); err != nil {
		return err
	}
	return e.write(ctx, tx, now)
}
