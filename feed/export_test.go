package feed

// PendingGaps is how many looks at the transactions under way are remembered.
func (f *Feed) PendingGaps() int {
	f.refreshing.Lock()
	defer f.refreshing.Unlock()
	return len(f.pendingGaps)
}
