package demo

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/pawl-work/pawl/internal/clock"
)

const (
	barCells   = 30
	barColumns = 79 // of a line at most: a longer one would wrap, and then stay
)

// bar shows on a terminal how many items are done, in one line that it writes again.
type bar struct {
	to         io.Writer
	done, all  int
	said, line string
	began      time.Time
}

func newBar(to io.Writer, all int) *bar {
	b := &bar{to: to, all: all, began: clock.Now()}
	b.draw()
	return b
}

// set draws the line anew, if something has changed.
func (b *bar) set(done int, said string) {
	b.done, b.said = done, said
	b.draw()
}

func (b *bar) draw() {
	cells := barCells * b.done / max(b.all, 1)
	line := fmt.Sprintf("%d / %d items [%s%s] %d%% %s  %s", b.done, b.all, strings.Repeat("=", cells), strings.Repeat(" ", barCells-cells),
		100*b.done/max(b.all, 1), clock.Now().Sub(b.began).Truncate(time.Second), b.said)
	if r := []rune(line); len(r) > barColumns {
		line = string(r[:barColumns])
	}
	if line != b.line {
		fmt.Fprintf(b.to, "\r%s\x1b[K", line)
		b.line = line
	}
}

// end leaves the line.
func (b *bar) end() { fmt.Fprintln(b.to) }
