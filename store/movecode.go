package store

// The classes of a MoveCode: whose event it is.
const (
	MoveOfTask = "task" // the task's
	MoveOfItem = "item" // an item's, which does not move its task by itself
	MoveOfOnly = "only" // an item's that was then the only item of its task
)

// MoveCode is what the database's tables store for an event: one number for the event's
// name, the states that it changed and whose they are.
type MoveCode struct {
	Code             int // from 1; a code never changes its meaning, and is never given again
	Class, Event     string
	From, To         string // of the item, or of the task if it is the task's event; "" = none
	TaskFrom, TaskTo string // the change of the task that its only item's change caused
}
