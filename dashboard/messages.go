package dashboard

import (
	"cmp"
	"slices"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// messagesPage is messages of a namespace, newest first, and those that no worker writes.
type messagesPage struct {
	messageTable
	Next    string
	Stalled messageTable
	Problem *api.Problem // of the stalled ones
	Tells   bool         // the stalled ones are shown apart
}

// messageTable is messages with the names of their tasks.
type messageTable struct {
	Items []pawl.Message
	Names names
}

// messages lists messages. Its filters are parameters of the address.
func (d *server) messages(v *request) (any, error) {
	f := pawl.MessageFilter{Thread: v.word("thread"), Stalled: v.word("stalled") != "", Desc: true, Page: v.pageOf("cursor", mediumRows)}
	for _, s := range v.words("status") {
		f.Statuses = append(f.Statuses, pawl.MessageState(s))
	}
	v.showsList("/v1/messages", "message", map[string]string{"thread": "thread", "status": "status", "stalled": "stalled"})
	v.also([]string{"--desc"}, "order=desc")
	l, err := d.svc.ListMessages(v.Context(), f)
	if err != nil {
		return nil, err
	}
	p := &messagesPage{messageTable: messageTable{Items: l.Items}, Next: l.Next}
	if p.Tells = !f.Stalled && f.Thread == "" && len(f.Statuses) == 0 && f.Cursor == ""; p.Tells {
		stalled := sectionOf(d.svc.ListMessages(v.Context(), pawl.MessageFilter{Stalled: true, Page: v.pageOf("", maxRows)}))
		p.Stalled.Items, p.Problem = stalled.Items, stalled.Problem
	}
	p.Names = d.tasksNamed(v.Context(), distinct(slices.Concat(p.Items, p.Stalled.Items), func(m pawl.Message) string { return m.TaskID }))
	p.Stalled.Names = p.Names
	return p, nil
}

// Label is the name of a message: the title of its task, or else its conversation.
func (t messageTable) Label(m pawl.Message) string {
	return cmp.Or(t.Names[m.TaskID], m.Thread, m.ID)
}

// Usage is what a message cost, in words.
func (t messageTable) Usage(m pawl.Message) string { return usageIn(m.Usage) }
