package api

import "github.com/pawl-work/pawl"

// FailureQuery is a pawl.FailureFilter as a query.
type FailureQuery struct {
	Type  []string       `query:"type" doc:"Of any of these types."`
	State pawl.ItemState `query:"state" enum:"failed,dead_lettered" doc:"Only items in this state; in both without it."`
	Paging
}

// Filter returns the filter that the query asks for.
func (q FailureQuery) Filter() pawl.FailureFilter {
	return pawl.FailureFilter{Types: q.Type, State: q.State, Page: q.Page()}
}

// FailureQueryOf returns a filter as a query.
func FailureQueryOf(f pawl.FailureFilter) FailureQuery {
	return FailureQuery{Type: f.Types, State: f.State, Paging: PagingOf(f.Page)}
}
