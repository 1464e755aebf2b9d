package engine

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/internal/idform"
	"github.com/pawl-work/pawl/store"
)

// Resume reads the resume state of an item: all that its next attempt needs.
func (e *Engine) Resume(ctx context.Context, itemID string) (pawl.ResumeState, error) {
	itemID = idform.Item(itemID)
	return e.resume(ctx, itemID, func(r *resuming) (pawl.ResumeState, error) {
		out, err := r.page(ctx, "")
		for err == nil && out.Next != "" {
			var more pawl.ResumeState
			if more, err = r.page(ctx, out.Next); err == nil {
				out.Add(more)
			}
		}
		return out, err
	})
}

// ResumePage reads one page of the resume state; see pawl.Recorder.
func (e *Engine) ResumePage(ctx context.Context, itemID, cursor string) (pawl.ResumeState, error) {
	itemID = idform.Item(itemID)
	return e.resume(ctx, itemID, func(r *resuming) (pawl.ResumeState, error) { return r.page(ctx, cursor) })
}

func (e *Engine) resume(ctx context.Context, itemID string, read func(*resuming) (pawl.ResumeState, error)) (pawl.ResumeState, error) {
	return view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) (pawl.ResumeState, error) {
		it, err := store.GetItem(ctx, tx, ns, itemID, 0)
		if err != nil {
			return pawl.ResumeState{}, err
		}
		held, err := e.holdsLease(ctx, tx, it)
		if err != nil {
			return pawl.ResumeState{}, err
		}
		return read(&resuming{tx: tx, ns: ns, item: it, held: held, kids: e.k.Children, messaged: e.k.Messages,
			answer: e.k.Signals.Answers(ns, it.TaskID, it.ID)})
	})
}

// resuming reads the resume state of an item by pages.
type resuming struct {
	tx   store.Tx
	ns   string
	item store.ItemRow
	held bool

	kids     kernel.Children
	messaged kernel.Messages
	answer   func(ctx context.Context, tx store.Tx, a pawl.Awaited, c *pawl.Checkpoint) (pawl.SentSignal, bool, error)
}

// resumePage is a page that is being read.
type resumePage struct {
	*resuming
	out  pawl.ResumeState
	room *store.PageRoom
	said *pawl.List[pawl.MessageRef] // the first messages; nil on later pages
}

// resumeList is a list of rows of a resume state.
type resumeList struct {
	name string
	read func(p *resumePage, ctx context.Context, after string) (next string, err error)
}

// resumeLists are in the order in which they are read. A cursor is the name of the list
// to continue, a colon and the last row that was read of it.
var resumeLists = []resumeList{{"step", (*resumePage).steps}, {"part", (*resumePage).parts}, {"message", (*resumePage).messages},
	{"child", (*resumePage).children}}

// wholeList is the row limit of lists that only their bytes limit.
const wholeList = math.MaxInt32

func (r *resuming) page(ctx context.Context, cursor string) (pawl.ResumeState, error) {
	p := &resumePage{resuming: r, room: store.NewPageRoom(), out: pawl.ResumeState{
		Held: r.held, ItemID: r.item.ID, TaskID: r.item.TaskID, Attempt: r.item.Attempt,
		Steps: map[string]pawl.Checkpoint{}, Signals: map[string]pawl.SentSignal{}, Parts: []pawl.ItemPart{}, Messages: []pawl.MessageRef{},
	}}
	lists, after := resumeLists, ""
	if cursor == "" {
		if err := p.head(ctx); err != nil {
			return p.out, err
		}
	} else {
		var name string
		name, after, _ = strings.Cut(cursor, ":")
		at := slices.IndexFunc(lists, func(l resumeList) bool { return l.name == name })
		if at < 0 || name == "step" && after == "" {
			return p.out, pawl.Invalid("/cursor", "is not a cursor of this list")
		}
		lists = lists[at:]
	}
	for _, l := range lists {
		next, err := l.read(p, ctx, after)
		if err != nil {
			return p.out, err
		}
		if p.room.Full {
			p.out.Next = l.name + ":" + next
			break
		}
		after = ""
	}
	return p.out, nil
}

// head reads what only the first page has, except for the newest checkpoints, which steps
// reads.
func (p *resumePage) head(ctx context.Context) error {
	if f := p.item.Error; f != nil {
		p.out.Error = f
		p.room.Take(len(f.Code) + len(f.Message) + len(f.Detail))
	}
	said, err := p.messaged.OfItem(ctx, p.tx, p.item.TaskID, p.item.ID, p.item.Rework, pawl.Page{Limit: store.FirstRows})
	if err != nil {
		return err
	}
	p.said = &said
	if p.out.OpenMessage, err = p.messaged.Open(ctx, p.tx, p.ns, p.item.ID, said); p.out.OpenMessage != nil {
		p.room.Take(200)
		for _, c := range p.out.OpenMessage.ToolCalls {
			p.room.Take(64 + len(c.ToolCallID) + len(c.ToolName))
		}
	}
	return err
}

// steps reads the named steps after a number. If after is "", it also reads the newest
// checkpoints.
func (p *resumePage) steps(ctx context.Context, after string) (string, error) {
	points := after == ""
	sent := map[string]pawl.SentSignal{}
	size := func(c *store.CheckpointRow) (int, error) {
		n := 2*len(c.Name) + sizeOfCheckpoint(&c.Checkpoint, c.SnapshotSize())
		a, waits := c.Awaits()
		if !waits || a.Over() {
			return n, nil
		}
		s, there, err := p.answer(ctx, p.tx, a, &c.Checkpoint)
		if there {
			sent[c.Name] = s
			n += 128 + 2*(len(c.Name)+len(s.Name)+len(s.Key)) + len(s.Payload)
		}
		return n, err
	}
	l, err := store.PagesIn(p.room, pawl.Page{Limit: wholeList, Cursor: cmp.Or(after, "0")}, size, store.StepCursor,
		func(page pawl.Page) (pawl.List[store.CheckpointRow], error) {
			l, newest, err := store.ResumeSteps(ctx, p.tx, p.item.ID, points, page)
			points = false
			if err == nil {
				err = p.newest(ctx, newest)
			}
			return l, err
		})
	if err != nil {
		return l.Next, err
	}
	err = store.ReadSnapshots(ctx, p.tx, l.Items)
	for _, c := range l.Items {
		p.out.Steps[c.Name] = c.Checkpoint
		if s, there := sent[c.Name]; there {
			p.out.Signals[c.Name] = s
		}
	}
	return l.Next, err
}

// newest puts the newest checkpoints into the page. cs is in order of their numbers.
func (p *resumePage) newest(ctx context.Context, cs []store.CheckpointRow) error {
	if err := store.ReadSnapshots(ctx, p.tx, cs); err != nil {
		return err
	}
	for i := range cs {
		c := &cs[i].Checkpoint
		switch c.Type {
		case pawl.IterationStart:
			p.out.IterationStart = c
		case pawl.IterationEnd:
			p.out.IterationEnd = c
		case pawl.ErrorBoundary:
			p.out.ErrorBoundary = c
		}
		p.out.Newest = c
	}
	for _, c := range []*pawl.Checkpoint{p.out.Newest, p.out.IterationStart, p.out.IterationEnd, p.out.ErrorBoundary} {
		if c != nil {
			p.room.Take(sizeOfCheckpoint(c, len(c.Snapshot)))
		}
	}
	return nil
}

// sizeOfCheckpoint returns at least the size of a checkpoint's JSON, with quotes escaped.
func sizeOfCheckpoint(c *pawl.Checkpoint, snapshot int) int {
	return 384 + 2*len(c.Name) + len(c.ArgsHash) + snapshot + len(c.Metadata)
}

func (p *resumePage) parts(ctx context.Context, after string) (string, error) {
	if !p.item.Acceptance {
		return "", nil
	}
	l, err := partsIn(ctx, p.tx, p.room, p.ns, pawl.PartFilter{ItemID: p.item.ID, Page: pawl.Page{Limit: wholeList, Cursor: after}})
	p.out.Parts = l.Items
	return l.Next, err
}

func (p *resumePage) messages(ctx context.Context, after string) (string, error) {
	size := func(m *pawl.MessageRef) (int, error) { return 256 + len(m.Model), nil }
	l, err := store.PagesIn(p.room, pawl.Page{Limit: wholeList, Cursor: after}, size, func(m pawl.MessageRef) string { return m.ID },
		func(page pawl.Page) (pawl.List[pawl.MessageRef], error) {
			if p.said != nil && page.Cursor == "" {
				return *p.said, nil
			}
			return p.messaged.OfItem(ctx, p.tx, p.item.TaskID, p.item.ID, p.item.Rework, page)
		})
	p.out.Messages = l.Items
	return l.Next, err
}

func (p *resumePage) children(ctx context.Context, after string) (string, error) {
	wait, err := p.kids.Of(ctx, p.tx, p.item.ID)
	if err != nil || wait == nil {
		return "", err
	}
	size := func(c *pawl.ChildResult) (int, error) {
		n := 256 + len(c.Key) + len(c.Result)
		if c.Error != nil {
			n += len(c.Error.Code) + len(c.Error.Message) + len(c.Error.Detail)
		}
		return n, nil
	}
	l, err := store.PagesIn(p.room, pawl.Page{Limit: wholeList, Cursor: after}, size, func(c pawl.ChildResult) string { return c.ID },
		func(page pawl.Page) (pawl.List[pawl.ChildResult], error) {
			return p.kids.Results(ctx, p.tx, p.item.ID, page)
		})
	wait.Items = l.Items
	p.out.Children = wait
	return l.Next, err
}
