package dashboard

import (
	"net/url"

	"github.com/pawl-work/pawl"
)

// failuresPage is groups of items that failed with the same error, those with the most items
// first.
type failuresPage struct {
	pawl.List[pawl.FailureGroup]
	Dead     bool // of dead letters
	Verbs    []failureVerb
	Examples names // of the newest items
}

// failureRows are groups of failures for a page.
type failureRows struct {
	Items    []pawl.FailureGroup
	Dead     bool
	Verbs    []failureVerb
	Examples names
}

// Table is the list of the page.
func (p *failuresPage) Table() failureRows { return failureRows{p.Items, p.Dead, p.Verbs, p.Examples} }

// failureVerb is what can be done to a group.
type failureVerb struct{ Verb, Label string }

// Address is that of the page that asks whether a verb is meant for a group.
func (f failureVerb) Address(g pawl.FailureGroup) string {
	q := url.Values{"verb": {f.Verb}, "failure": {g.Failure}}
	if f.Verb == pawl.BulkDelete { // a dead letter can be retried: it has not ended, and is deleted by force alone
		q.Set("state", string(pawl.TaskDeadLettered))
		q.Set("force", "1")
	}
	return "/ui/tasks/bulk?" + q.Encode()
}

// failedVerbs are those of groups that failed and are no dead letters.
var failedVerbs = []failureVerb{{pawl.BulkRetry, "retry"}, {pawl.BulkBury, "bury"}}

func (d *server) failures(v *request) (any, error) {
	return d.failureGroups(v, pawl.ItemFailed, failedVerbs...)
}

func (d *server) deadLetters(v *request) (any, error) {
	return d.failureGroups(v, pawl.ItemDeadLettered, failureVerb{pawl.BulkRetry, "retry"}, failureVerb{pawl.BulkDelete, "delete tasks"})
}

func (d *server) failureGroups(v *request, state pawl.ItemState, verbs ...failureVerb) (any, error) {
	v.shows("/v1/failures?state="+string(state), pawlCommand("failures", "--state="+string(state)))
	p := &failuresPage{Dead: state == pawl.ItemDeadLettered}
	if v.pass.May("operator", false) == nil {
		p.Verbs = verbs
	}
	var err error
	p.List, err = d.svc.ListFailures(v.Context(), pawl.FailureFilter{Types: v.words("type"), State: state,
		Page: v.pageOf("cursor", mediumRows)})
	p.Examples = d.itemsNamed(v.Context(), distinct(p.Items, func(g pawl.FailureGroup) string { return g.ItemID }))
	return p, err
}
