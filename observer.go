package pawl

import "time"

// Observer is told what an engine does, for metrics; package metrics has one. Its methods are
// called from several goroutines. They must return at once.
type Observer interface {
	// Counted tells of events that this engine gave their positions in the feed. Of several
	// engines on one database, one tells of each event.
	Counted(c CountedEvents)
	// Took tells how long a call of claim, complete or heartbeat took. types are those of the
	// items that a claim returned; a claim that returns none is not told of.
	Took(verb, namespace string, types []string, took time.Duration)
	// Committed tells of concurrent calls that one transaction carried out: their number, 1 or
	// more. verb is what all of them do, such as "complete"; on SQLite it is "write", because
	// calls of all verbs share a transaction.
	Committed(verb string, calls int)
	// Swept tells of a pass of the sweep in this process: of each whole pass, and of what a timer did
	// in between, if it did something.
	Swept(s SweepStats)
}

// Pool is the state of a pool of connections to the database.
type Pool struct {
	Name        string
	Max         int    // connections, at most
	InUse, Idle int    // connections
	Waits       int64  // calls that found no idle connection, since the database was opened
	Exhausted   string // why a call got no connection in the last 10 s; "" = none failed, or a later one got one
}

// CountedEvents are events of the tasks of one type. Times are in seconds.
type CountedEvents struct {
	Namespace, Type string
	Events          map[string]int64 // by name
	Waits           []float64        // how long claimed items were queued
	Pickups         []float64        // how long after its creation an item was claimed for the first time
	Runs            []float64        // how long attempts took that completed, submitted a result or failed
	Leases          []float64        // how long leases lasted, whatever ended them
}
