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
)

// Work is the claimable work of a namespace.
func Work(namespace string) Topic { return Topic{work, namespace} }

// Commits are all transactions: each of this process, and what is known of others'.
func Commits() Topic { return Topic{kind: commits} }

// Feed is the newest position of the feed. In other processes a change of it counts as
// one of Commits.
func Feed() Topic { return Topic{kind: feed} }

// Messages are all messages, as they are in the database.
func Messages() Topic { return Topic{kind: messages} }

// Message is what this process knows of a message.
func Message(id string) Topic { return Topic{message, id} }

// Namespace is the namespace of a topic of Work.
func (t Topic) Namespace() (namespace string, ok bool) { return t.name, t.kind == work }

// elsewhere reports whether other processes change a topic. The others follow from
// these in this process.
func (k kind) elsewhere() bool { return k == work || k == commits || k == messages }
