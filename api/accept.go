package api

import (
	"github.com/pawl-work/pawl"
)

// PartQuery is a pawl.PartFilter without its item.
type PartQuery struct {
	Key string `query:"key" doc:"Of this key."`
	All bool   `query:"all" doc:"Those that a later part took the place of too."`
	Paging
}

// PartQueryOf returns a filter as a query.
func PartQueryOf(f pawl.PartFilter) PartQuery {
	return PartQuery{Key: f.Key, All: f.All, Paging: PagingOf(f.Page)}
}
