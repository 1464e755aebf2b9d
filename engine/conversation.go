package engine

import (
	"strconv"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/store"
)

// hasMessages reports whether the task has a thread or messages.
func (d *draft) hasMessages() bool { return d.thread != "" || len(d.messages) > 0 }

// startConversation drafts the messages that a task is created with.
func (e *Engine) startConversation(d *draft, t *pawl.NewTask) error {
	if t.Reply != nil && !d.task.Solo {
		return pawl.Invalid("/reply", "is for a task of one item: others begin their messages themselves")
	}
	d.thread = t.Thread
	of := kernel.NewMessage{Namespace: d.task.Namespace, TaskID: d.task.ID, Thread: store.Text(t.Thread), MaxSteps: pawl.DefaultMaxSteps,
		Actor: d.task.Actor}
	if d.task.Solo {
		of.ItemID = store.Text(d.items[0].ID)
	}
	d.messages = e.k.Messages.Said(t, of)
	return nil
}

// openMessage decodes what a claim returns of an item's open message; nil = it has none.
func openMessage(text store.Text) *pawl.OpenMessage {
	words := strings.Fields(string(text))
	if len(words) != 4 || words[0] != string(pawl.MessageStreaming) {
		return nil
	}
	offset, _ := strconv.ParseInt(words[2], 10, 64) // a column of numbers
	step, _ := strconv.Atoi(words[3])
	return &pawl.OpenMessage{ID: words[1], Offset: offset, StepNumber: step}
}
