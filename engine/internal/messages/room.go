// Package messages is the room of messages: what agents write in chunks while others read it, and the conversations of tasks.
// It caches the newest chunks of the messages that are read, and sends each reader what follows its position. What appends and
// snapshots of steps are made of is in store: hot verbs and checkpoints use it.
package messages

import (
	"context"
	"embed"

	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/internal/watch"
	"github.com/pawl-work/pawl/store"
)

//go:embed *.sql
var sqlFiles embed.FS

var texts = store.Texts(sqlFiles, "message.sql")

// Messages are the messages of a database. Its methods are those of pawl.Service.
type Messages struct {
	k *kernel.Kernel
	s *state
}

// state is what all Messages of a process share.
type state struct {
	watcher *watcher
	items   itemCache // of messages
}

// New returns the messages of a database, and gives the kernel what others ask of them.
func New(k *kernel.Kernel, hub *watch.Hub) *Messages {
	o := options{DB: k.DB, Hub: hub, Log: k.Log}
	if k.DB.Dialect().Commits != nil {
		o.Settle = func(ctx context.Context) error {
			_, err := k.Feed.Head(ctx)
			return err
		}
	}
	ms := &Messages{k, &state{watcher: watching(o)}}
	k.Messages = forWork{ms}
	return ms
}

// Over returns the messages over another Kernel of the same database.
func Over(ms *Messages, k *kernel.Kernel) *Messages { return &Messages{k, ms.s} }

// forWork implements kernel.Messages.
type forWork struct{ *Messages }

// Close implements kernel.Messages.
func (f forWork) Close() { f.s.watcher.close() }

// Declared is the declaration of the room. A fork or a clone of a task begins without messages.
func Declared() kernel.Room {
	rule := func(name, says, repair string) store.RuleSearch {
		return store.RuleSearch{Rule: store.Rule{Name: name, Says: says, Repair: repair}, SQL: texts["breaches of "+name]}
	}
	return kernel.Room{
		Name: "messages",
		Tables: []kernel.Table{
			{Name: "messages", Key: "task", Archive: "all", Copy: "none", Values: []string{"content"},
				Plain:   []string{"id", "namespace", "thread", "role", "state", "model", "checkpoint_id", "usage", "metadata", "cuts"},
				Changes: "with each append and step, of which no event tells, and when it ends or goes on again"},
			{Name: "message_chunks", Key: "message", Values: []string{"body"}, Plain: []string{"message_id"}, Changes: "never"},
		},
		Steps: []store.Step{
			{Name: "messages", Quick: true, Run: func(ctx context.Context, p store.Sweeping) error { return endOrphans(ctx, p.DB, nil, "") }},
			{Name: "messages of tasks", Run: endOwnOrphans},
			{Name: "chunks", Run: removeChunks},
		},
		Rules: []store.RuleSearch{
			rule("chunks", "the chunks of a message are numbered from 0 without a gap, as many as it counts",
				"remove the chunks after a gap, and set messages.chunks to the number of those that remain"),
			rule("open message", "an item has one open message at most, and one that has ended has its content", "stop the older ones"),
		},
	}
}
