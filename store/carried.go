package store

// Carried is what an item takes along from table to table while it moves. To add a
// column: a migration for each database that adds it to the tables of states, a
// field here and a line in Columns. All statements then read, write and archive it.
type Carried struct {
	Attempt, Failures, MaxAttempts          int
	Solo, Feeds, Acceptance, Rework, Spared int
}

// Columns are those that every table of items has that have not ended: ready,
// scheduled, waiting, leases and rests. In statements they are @columns(carried).
func (c *Carried) Columns() []Column {
	return []Column{
		{"attempt", &c.Attempt},
		{"failures", &c.Failures},
		{"max_attempts", &c.MaxAttempts},
		{"solo", &c.Solo},
		{"feeds", &c.Feeds},
		{"acceptance", &c.Acceptance},
		{"rework", &c.Rework},
		{"spared", &c.Spared},
	}
}

// Kept are those that an item that has ended keeps, in ends. In statements they are
// @columns(kept).
func (c *Carried) Kept() []Column {
	return []Column{{"attempt", &c.Attempt}, {"failures", &c.Failures}, {"rework", &c.Rework}}
}
