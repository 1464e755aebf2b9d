package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/pawl-work/pawl"
)

// commission is a run of demo --agents: a work order, two agents of whom one is
// killed half-way, a rejection, an approval, and the proof.
type commission struct {
	*demo
	folder string // of the files that are worked on
	order  order
	report orderReport
	words  chan word
	hands  []*hand
}

// orderReport is the answer of demo --agents: the last line of stdout with --json.
type orderReport struct {
	Files        int    `json:"files"`
	Items        int    `json:"items"`
	Attempts     int    `json:"attempts"`
	Kills        int    `json:"kills"`
	PartsRefused int    `json:"parts_refused"`
	PartsKept    int    `json:"parts_kept"` // the killed agent's, in what the other handed in
	SentBack     int    `json:"sent_back"`
	Exact        bool   `json:"exact"`
	Folder       string `json:"folder"`
	DB           string `json:"db"`
}

func (c *commission) run(ctx context.Context) (err error) {
	if c.folder, err = os.MkdirTemp("", "pawl-order-"); err != nil {
		return err
	}
	if err := c.gather(); err != nil {
		return err
	}
	if err := one(c.svc.PutTypes(ctx, []pawl.Type{c.rules()})); err != nil {
		return err
	}
	c.task, err = pawl.Create(ctx, c.svc, pawl.NewTask{Type: c.typ, Title: "A first line for every file", Payload: encoded(c.order)})
	if err != nil {
		return err
	}
	c.report.Files, c.report.Folder, c.report.DB = len(c.order.Files), c.folder, c.demo.report.DB
	c.say("%d files in %s, %d items, two agents over MCP, %s", len(c.order.Files), c.folder, c.task.Items, c.report.DB)

	ctx, stop := context.WithTimeout(ctx, c.timeout)
	defer stop()
	if err := alongside(ctx, c.svc, c.work); err != nil {
		c.fault("%v", err)
	} else if err := c.prove(ctx); err != nil {
		c.fault("%v", err)
	}
	return c.demo.conclude(c.report, func(w io.Writer) {
		r := c.report
		fields(w, "task", c.task.ID, "files", fmt.Sprint(r.Files), "items", fmt.Sprint(r.Items), "attempts", fmt.Sprint(r.Attempts), "agents killed", fmt.Sprint(r.Kills),
			"parts refused", fmt.Sprint(r.PartsRefused), "parts kept", fmt.Sprint(r.PartsKept), "sent back", fmt.Sprint(r.SentBack), "exact", fmt.Sprint(r.Exact),
			"folder", r.Folder, "database", r.DB)
	})
}

// work is the life of the order.
func (c *commission) work(ctx context.Context) error {
	c.words = make(chan word, 1024)
	defer c.dismiss()
	if err := c.start("a1", "--dies"); err != nil {
		return err
	}
	if err := c.until(ctx, func() (bool, error) { return c.report.Kills == 1, nil }); err != nil {
		return err
	}
	if err := c.start("a2"); err != nil {
		return err
	}
	if err := c.until(ctx, c.submitted); err != nil {
		return err
	}
	if err := c.sendBack(ctx); err != nil {
		return err
	}
	if err := c.until(ctx, c.submitted); err != nil {
		return err
	}
	if err := one(c.svc.ApproveTasks(c.a.byUser(ctx), []pawl.ApproveCall{{TaskID: c.task.ID, Comment: "as ordered"}})); err != nil {
		return err
	}
	return c.takeEffect(ctx)
}

func (c *commission) start(name string, more ...string) error {
	h, err := c.hire(name, c.words, append([]string{"demo-agent"}, more...)...)
	if err == nil {
		c.hands = append(c.hands, h)
	}
	return err
}

// until hears the agents out until something is so.
func (c *commission) until(ctx context.Context, so func() (bool, error)) error {
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("gave up: %w", ctx.Err())
		case w := <-c.words:
			if err := c.hear(w); err != nil {
				return err
			}
		case <-look.C:
		}
		if done, err := so(); done || err != nil {
			return err
		}
	}
}

func (c *commission) hear(w word) error {
	switch {
	case w.over:
		w.from.gone = true
		if wasKilled(w.err) {
			c.report.Kills++
			return nil
		}
		return fmt.Errorf("%s ended too soon (%v): %s", w.from.name, w.err, w.from.said)
	case w.err != nil:
		return w.err
	case w.Refused != "":
		c.report.PartsRefused++
		c.say("%s is refused: %s; it mends that", w.from.name, w.Refused)
	case w.Gate != "":
		c.say("%s is killed in the middle of %s", w.from.name, w.Item)
		return w.from.cmd.Process.Kill()
	}
	return nil
}

// submitted says whether all is handed in and may be decided about.
func (c *commission) submitted() (bool, error) {
	t, err := c.svc.GetTask(context.Background(), c.task.ID)
	return t.ReadyForApproval, err
}

func (c *commission) items(ctx context.Context) ([]pawl.Item, error) {
	l, err := c.svc.ListItems(ctx, pawl.ItemFilter{TaskID: c.task.ID})
	items := slices.DeleteFunc(l.Items, func(it pawl.Item) bool { return it.Kind != pawl.KindWork })
	slices.SortFunc(items, func(a, b pawl.Item) int { return a.Position - b.Position })
	return items, err
}

// sendBack looks at what was handed in, and rejects the first item: its lines are
// to be sealed.
func (c *commission) sendBack(ctx context.Context) error {
	items, err := c.items(ctx)
	if err != nil {
		return err
	}
	parts, err := c.svc.ListParts(ctx, pawl.PartFilter{ItemID: items[0].ID})
	if err != nil {
		return err
	}
	for _, p := range parts.Items {
		if p.WorkerID == c.nameOf("a1") {
			c.report.PartsKept++
		}
	}
	why := []pawl.Complaint{{Code: unsealed, Message: "name the first 12 digits of the file's sha256, so that a reader can check it", Field: "/line"}}
	err = one(c.svc.RejectTasks(c.a.byUser(ctx), []pawl.RejectCall{{TaskID: c.task.ID, Errors: why, AllowRework: true, ItemIDs: []string{items[0].ID}}}))
	if err == nil {
		c.report.SentBack++
		c.say("item %s is sent back: %s", items[0].ID, why[0].Message)
	}
	return err
}

// takeEffect is the trusted worker that applies the order.
func (c *commission) takeEffect(ctx context.Context) error {
	ls, err := c.svc.Claim(ctx, pawl.ClaimRequest{WorkerID: c.nameOf("hand"), Types: []string{c.typ + pawl.ApplySuffix}, LeaseSeconds: pawl.DefaultLeaseSeconds, WaitSeconds: 10})
	if err != nil || len(ls) != 1 {
		return errors.Join(err, fmt.Errorf("%d apply items", len(ls)))
	}
	done, err := c.apply(ctx)
	if err != nil {
		return err
	}
	_, err = pawl.Complete(ctx, c.svc, ls[0].Fence(), encoded(done))
	return err
}

// dismiss sends the agents home; who does not go is killed.
func (c *commission) dismiss() {
	for _, h := range c.hands {
		h.stdin.Close()
	}
	late := time.AfterFunc(10*time.Second, func() {
		for _, h := range c.hands {
			_ = h.cmd.Process.Kill() // an error says that it is gone
		}
	})
	defer late.Stop()
	for _, h := range c.hands {
		for !h.gone {
			if w := <-c.words; w.over {
				w.from.gone = true
			}
		}
	}
}

// prove reads from the record what happened, and holds it against the disk.
func (c *commission) prove(ctx context.Context) error {
	r := &c.report
	items, err := c.items(ctx)
	if err != nil {
		return err
	}
	r.Items = len(items)
	for _, it := range items {
		r.Attempts += it.Attempt
		c.hold(it.State == pawl.ItemCompleted, "item %s is %s (%s)", it.ID, it.State, failure(it.Error))
	}
	c.hold(r.Kills == 1, "%d agents were killed", r.Kills)
	c.hold(r.PartsKept == min(orderChunk, r.Files)/2, "%d parts of the killed agent were kept", r.PartsKept)
	c.hold(r.PartsRefused == 2, "%d parts were refused", r.PartsRefused)
	c.hold(r.Attempts >= r.Items+2, "%d attempts at %d items: one was cut off, one sent back", r.Attempts, r.Items)
	applied, err := c.svc.ListEvents(ctx, pawl.EventFilter{TaskID: c.task.ID, Event: "applied"})
	if err != nil {
		return err
	}
	if len(applied.Items) != 1 {
		return fmt.Errorf("the order took effect %d times", len(applied.Items))
	}
	return c.compare(applied.Items[0].Diff)
}
