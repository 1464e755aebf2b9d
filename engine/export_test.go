package engine

import "github.com/pawl-work/pawl"

// Hears says whether this process hears of others' work; it begins to listen.
func (e *Engine) Hears() bool {
	e.listen()
	return e.notices.hears.Load()
}

// Told says whether another process told of work since somebody looked.
func (e *Engine) Told() bool {
	e.wake.mu.Lock()
	defer e.wake.mu.Unlock()
	return e.wake.foreign[pawl.DefaultNamespace]
}
