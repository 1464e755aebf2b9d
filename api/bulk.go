package api

// BulkCount answers a bulk call with dry_run.
type BulkCount struct {
	Count int64 `json:"count"` // tasks that the filter selects now
}
