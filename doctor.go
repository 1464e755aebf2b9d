package pawl

// DefaultDoctorEvents is how many events a check compares with the log unless it says otherwise.
const DefaultDoctorEvents = 100_000

// DoctorCall asks for a check of the whole database.
type DoctorCall struct {
	// Events is how many of the newest events are compared with the transparency log; nil =
	// DefaultDoctorEvents, below 0 = all.
	Events *int `json:"events,omitempty"`
}

// Breach is a violation of an invariant of the database.
type Breach struct {
	Rule    string `json:"rule"`
	Code    string `json:"code,omitempty"` // the rule in snake_case, if it has such a name; it does not change
	Subject string `json:"subject"`        // what violates the rule: an id where there is one
	Found   string `json:"found"`
	Repair  string `json:"mend"` // how to repair it
}

// Warning is a condition of the database that breaks no rule but puts a promise at risk, or slows
// work down.
type Warning struct {
	Code    string `json:"code"`    // snake_case; it does not change
	Detail  string `json:"detail"`  // what was found, and what to do
	Command string `json:"command"` // a command line that helps, or shows more
}

// DoctorReport is what a check found.
type DoctorReport struct {
	Clean    bool      `json:"clean"`    // no invariant is violated
	Breaches []Breach  `json:"breaches"` // the first 20 of each rule, then how many more there are
	Warnings []Warning `json:"warnings"`
	Logged   int       `json:"logged"` // events that were compared with the log
}
