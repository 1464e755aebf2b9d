package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/childproc"
	"github.com/pawl-work/pawl/internal/terminal"
)

// agentRun is a run of demo --agents: a work order, two agents of which one is killed
// half-way, a rejection, an approval, and the checks.
type agentRun struct {
	*demo
	folder    string // of the files that are worked on
	order     order
	report    AgentReport
	messages  chan message
	processes []*process
}

// AgentReport is the result of RunAgents: the last line of stdout with --json.
type AgentReport struct {
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

func (c *agentRun) run(ctx context.Context) (err error) {
	if c.folder, err = os.MkdirTemp("", "pawl-order-"); err != nil {
		return err
	}
	if err := c.copyFiles(); err != nil {
		return err
	}
	if err := onlyError(c.Service.PutTypes(ctx, []pawl.Type{c.orderType()})); err != nil {
		return err
	}
	c.task, err = pawl.Create(ctx, c.Service, pawl.NewTask{Type: c.typ, Title: "A first line for every file", Payload: encoded(c.order)})
	if err != nil {
		return err
	}
	c.report.Files, c.report.Folder, c.report.DB = len(c.order.Files), c.folder, c.demo.report.DB
	c.log("%d files in %s, %d items, two agents over MCP, %s", len(c.order.Files), c.folder, c.task.Items, c.report.DB)

	ctx, stop := context.WithTimeout(ctx, c.Timeout)
	defer stop()
	if err := c.Sweeping(ctx, c.work); err != nil {
		c.addFailure("%v", err)
	} else if err := c.prove(ctx); err != nil {
		c.addFailure("%v", err)
	}
	return c.demo.finish(c.report, func(w io.Writer) {
		r := c.report
		terminal.Fields(
			w,
			"task",
			c.task.ID,
			"files",
			fmt.Sprint(r.Files),
			"items",
			fmt.Sprint(r.Items),
			"attempts",
			fmt.Sprint(r.Attempts),
			"agents killed",
			fmt.Sprint(r.Kills),
			"parts refused",
			fmt.Sprint(r.PartsRefused),
			"parts kept",
			fmt.Sprint(r.PartsKept),
			"sent back",
			fmt.Sprint(r.SentBack),
			"exact",
			fmt.Sprint(r.Exact),
			"folder",
			r.Folder,
			"database",
			r.DB,
		)
	})
}

// work runs the order from its creation until it is applied.
func (c *agentRun) work(ctx context.Context) error {
	c.messages = make(chan message, 1024)
	defer c.stopAll()
	if err := c.start("a1", "--dies"); err != nil {
		return err
	}
	if err := c.waitUntil(ctx, func() (bool, error) { return c.report.Kills == 1, nil }); err != nil {
		return err
	}
	if err := c.start("a2"); err != nil {
		return err
	}
	if err := c.waitUntil(ctx, c.submitted); err != nil {
		return err
	}
	if err := c.sendBack(ctx); err != nil {
		return err
	}
	if err := c.waitUntil(ctx, c.submitted); err != nil {
		return err
	}
	if err := onlyError(c.Service.ApproveTasks(c.byUser(ctx), []pawl.ApproveCall{{TaskID: c.task.ID, Comment: "as ordered"}})); err != nil {
		return err
	}
	return c.applyOrder(ctx)
}

func (c *agentRun) start(name string, more ...string) error {
	h, err := c.startProcess(name, c.messages, append([]string{"demo-agent"}, more...)...)
	if err == nil {
		c.processes = append(c.processes, h)
	}
	return err
}

// waitUntil handles the agents' messages until a condition holds.
func (c *agentRun) waitUntil(ctx context.Context, so func() (bool, error)) error {
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("gave up: %w", ctx.Err())
		case w := <-c.messages:
			if err := c.handle(w); err != nil {
				return err
			}
		case <-look.C:
		}
		if done, err := so(); done || err != nil {
			return err
		}
	}
}

func (c *agentRun) handle(w message) error {
	switch {
	case w.exited:
		w.from.ended = true
		if childproc.WasKilled(w.err) {
			c.report.Kills++
			return nil
		}
		return fmt.Errorf("%s ended too soon (%v): %s", w.from.name, w.err, w.from.stderr)
	case w.err != nil:
		return w.err
	case w.Refused != "":
		c.report.PartsRefused++
		c.log("%s is refused: %s; it corrects that", w.from.name, w.Refused)
	case w.Pause != "":
		c.log("%s is killed in the middle of %s", w.from.name, w.Item)
		return w.from.cmd.Process.Kill()
	}
	return nil
}

// submitted reports whether all items are submitted and the task can be approved.
func (c *agentRun) submitted() (bool, error) {
	t, err := c.Service.GetTask(context.Background(), c.task.ID)
	return t.ReadyForApproval, err
}

func (c *agentRun) items(ctx context.Context) ([]pawl.Item, error) {
	l, err := c.Service.ListItems(ctx, pawl.ItemFilter{TaskID: c.task.ID})
	items := slices.DeleteFunc(l.Items, func(it pawl.Item) bool { return it.Kind != pawl.KindWork })
	slices.SortFunc(items, func(a, b pawl.Item) int { return a.Position - b.Position })
	return items, err
}

// sendBack reads the submitted parts and rejects the first item: its lines must name
// the file's hash.
func (c *agentRun) sendBack(ctx context.Context) error {
	items, err := c.items(ctx)
	if err != nil {
		return err
	}
	parts, err := c.Service.ListParts(ctx, pawl.PartFilter{ItemID: items[0].ID})
	if err != nil {
		return err
	}
	for _, p := range parts.Items {
		if p.WorkerID == c.nameOf("a1") {
			c.report.PartsKept++
		}
	}
	why := []pawl.Complaint{
		{Code: missingHash, Message: "name the first 12 digits of the file's sha256, so that a reader can check it", Field: "/line"},
	}
	err = onlyError(
		c.Service.RejectTasks(
			c.byUser(ctx),
			[]pawl.RejectCall{{TaskID: c.task.ID, Errors: why, AllowRework: true, ItemIDs: []string{items[0].ID}}},
		),
	)
	if err == nil {
		c.report.SentBack++
		c.log("item %s is sent back: %s", items[0].ID, why[0].Message)
	}
	return err
}

// applyOrder is the trusted worker that applies the order.
func (c *agentRun) applyOrder(ctx context.Context) error {
	ls, err := c.Service.Claim(
		ctx,
		pawl.ClaimRequest{
			WorkerID:     c.nameOf("hand"),
			Types:        []string{c.typ + pawl.ApplySuffix},
			LeaseSeconds: pawl.DefaultLeaseSeconds,
			WaitSeconds:  10,
		},
	)
	if err != nil || len(ls) != 1 {
		return errors.Join(err, fmt.Errorf("%d apply items", len(ls)))
	}
	done, err := c.apply(ctx)
	if err != nil {
		return err
	}
	_, err = pawl.Complete(ctx, c.Service, ls[0].Fence(), encoded(done))
	return err
}

// stopAll stops the agents. It kills those that have not ended after 10 s.
func (c *agentRun) stopAll() {
	for _, h := range c.processes {
		h.stdin.Close()
	}
	late := time.AfterFunc(10*time.Second, func() {
		for _, h := range c.processes {
			_ = h.cmd.Process.Kill() // an error says that it is gone
		}
	})
	defer late.Stop()
	for _, h := range c.processes {
		for !h.ended {
			if w := <-c.messages; w.exited {
				w.from.ended = true
			}
		}
	}
}

// prove compares the events with the files on the disk.
func (c *agentRun) prove(ctx context.Context) error {
	r := &c.report
	items, err := c.items(ctx)
	if err != nil {
		return err
	}
	r.Items = len(items)
	for _, it := range items {
		r.Attempts += it.Attempt
		c.check(it.State == pawl.ItemCompleted, "item %s is %s (%s)", it.ID, it.State, terminal.Failure(it.Error))
	}
	c.check(r.Kills == 1, "%d agents were killed", r.Kills)
	c.check(r.PartsKept == min(orderChunk, r.Files)/2, "%d parts of the killed agent were kept", r.PartsKept)
	c.check(r.PartsRefused == 2, "%d parts were refused", r.PartsRefused)
	c.check(r.Attempts >= r.Items+2, "%d attempts at %d items: one was cut off, one sent back", r.Attempts, r.Items)
	applied, err := c.Service.ListEvents(ctx, pawl.EventFilter{TaskID: c.task.ID, Event: "applied"})
	if err != nil {
		return err
	}
	if len(applied.Items) != 1 {
		return fmt.Errorf("the order took effect %d times", len(applied.Items))
	}
	return c.compare(applied.Items[0].Diff)
}
