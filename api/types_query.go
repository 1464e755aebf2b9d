package api

// TypesQuery names types.
type TypesQuery struct {
	Type []string `query:"type" doc:"Of any of these types."`
}
