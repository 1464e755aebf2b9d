package feed

// PendingGaps returns the number of remembered queries for the transactions in progress.
func (f *Feed) PendingGaps() int {
	f.refreshing.Lock()
	defer f.refreshing.Unlock()
	return len(f.pendingGaps)
}

// BeforePromotion has the feed take the server that it knows for one of an earlier timeline.
func (f *Feed) BeforePromotion() {
	f.refreshing.Lock()
	defer f.refreshing.Unlock()
	f.checked.Timeline--
	f.server.Timeline--
}
