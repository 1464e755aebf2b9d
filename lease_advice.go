package pawl

import "context"

// LeaseAdvice compares the lease of a type with how long its newest attempts took. Only a person
// applies it: Pawl changes no lease by itself.
type LeaseAdvice struct {
	Type string `json:"type"`
	// Current is what claims and workers of the type use, Suggested what would have avoided
	// expiries. They are equal if nothing is to be changed. A suggestion is never shorter.
	Current   LeaseSetting  `json:"current"`
	Suggested LeaseSetting  `json:"suggested"`
	Evidence  LeaseEvidence `json:"evidence"`
	Detail    string        `json:"detail"` // a sentence for people
	// Command is a command line of the program pawl that applies the suggestion; "" if nothing is
	// to be changed.
	Command string `json:"command,omitempty"`
}

// LeaseSetting is the time of a lease, and of a heartbeat in it.
type LeaseSetting struct {
	LeaseSeconds int `json:"lease_seconds"`
	// HeartbeatSeconds is how often workers extend the lease: HeartbeatsPerLease times in it.
	HeartbeatSeconds float64 `json:"heartbeat_seconds"`
}

// LeaseEvidence is what the newest attempts of a type took, in seconds.
type LeaseEvidence struct {
	N        int     `json:"n"` // attempts that ended with a result
	P50      float64 `json:"p50"`
	P95      float64 `json:"p95"`
	P99      float64 `json:"p99"`
	Expiries int     `json:"expiries"` // attempts whose lease expired
	// Avoided counts the expiries that the suggested lease would have avoided: those of items
	// that a later attempt completed in less than the suggested lease, and in more time than
	// the expired attempt had. Other expiries have another cause, such as a killed worker.
	Avoided int `json:"avoided"`
}

// LeaseAdviser suggests leases from measured durations.
type LeaseAdviser interface {
	// SuggestLeases compares the leases of types with the attempts among the newest
	// MaxMeasuredEvents events of items. It names at most MaxSeriesTypes types, those with most
	// expiries first; types selects some of them, none = all that were measured.
	SuggestLeases(ctx context.Context, types ...string) ([]LeaseAdvice, error)
}
