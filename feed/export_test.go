package feed

// PendingGaps returns the number of remembered queries for the transactions in progress.
func (f *Feed) PendingGaps() int {
	f.refreshing.Lock()
	defer f.refreshing.Unlock()
	return len(f.pendingGaps)
}
