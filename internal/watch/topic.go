package watch

// Topic is something that may change. The zero Topic is none.
type Topic struct {
	kind kind
	name string
}

type kind byte

const (
	work kind = iota + 1
	commits
	feed
	messages
	message
	task
)

// Work is the claimable work of a namespace.
func Work(namespace string) Topic { return Topic{work, namespace} }

// Commits stands for all transactions: those of this process, and those known of other
// processes.
func Commits() Topic { return Topic{kind: commits} }

// Feed is the newest position of the feed. In other processes, a change of it counts as a
// change of Commits.
func Feed() Topic { return Topic{kind: feed} }

// Messages stands for all messages, as they are in the database.
func Messages() Topic { return Topic{kind: messages} }

// Message is what this process knows about one message.
func Message(id string) Topic { return Topic{message, id} }

// Task is what this process knows about one task that a call waits for.
func Task(id string) Topic { return Topic{task, id} }

// Namespace returns the namespace of a topic of Work.
func (t Topic) Namespace() (namespace string, ok bool) { return t.name, t.kind == work }

// changedElsewhere reports whether other processes change a topic. In this process, the other topics
// follow from these.
func (k kind) changedElsewhere() bool { return k == work || k == commits || k == messages }
