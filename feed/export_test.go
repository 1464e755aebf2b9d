package feed

// Witnesses is how many looks at the transactions under way are remembered.
func (f *Feed) Witnesses() int {
	f.turn.Lock()
	defer f.turn.Unlock()
	return len(f.witnesses)
}
