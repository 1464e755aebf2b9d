package server

import (
	"cmp"
	"time"

	"github.com/pawl-work/pawl"
)

// Impatient makes streams send keep-alive frames sooner, and disconnect slow readers sooner,
// for one test; 0 = unchanged.
func Impatient(beats, cuts time.Duration) (undo func()) {
	b, s := beat, slowest
	beat, slowest = cmp.Or(beats, b), cmp.Or(cuts, s)
	return func() { beat, slowest = b, s }
}

// UIStream returns what a reader gets of a message's frames if it came when the message was m.
func UIStream(m pawl.Message, frames []pawl.MessageFrame) (string, error) {
	ui := newUIStream(m, func() string { return "why" })
	text := ""
	for _, f := range frames {
		b, err := ui.frame(f)
		if err != nil {
			return text, err
		}
		text += string(b)
	}
	return text, nil
}

// KeptFrames returns how many bytes of event frames are cached.
func KeptFrames(events []pawl.Event) (n int) {
	var k frames
	for i := range events {
		k.of(0, &events[i])
	}
	for _, b := range k.at {
		n += len(b)
	}
	return n
}
