// Package testterm is a terminal for tests: a pseudo-terminal, and an emulator that knows what
// a person would see on it.
package testterm

import (
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"

	"github.com/pawl-work/pawl/internal/clock"
)

// patience bounds how long Until waits.
const patience = 30 * time.Second

// Terminal is a terminal. Its methods can be called from several goroutines.
type Terminal struct {
	TTY *os.File // the side of the program
	t   *testing.T
	pty *os.File
	mu  sync.Mutex
	vt  *vt.Emulator
	alt bool
	raw strings.Builder
}

// Open opens a terminal that is closed at the end of the test.
func Open(t *testing.T, width, height int) *Terminal {
	t.Helper()
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	term := &Terminal{TTY: slave, t: t, pty: master, vt: vt.NewEmulator(width, height)}
	term.vt.SetCallbacks(vt.Callbacks{AltScreen: func(on bool) { term.alt = on }})
	term.Resize(width, height)
	var done sync.WaitGroup
	done.Go(func() { _, _ = io.Copy(master, term.vt) }) // the answers to a program's questions
	done.Go(func() { _, _ = io.Copy(term, master) })    // until the terminal is closed
	t.Cleanup(func() {
		slave.Close()
		master.Close()
		if answers, ok := term.vt.InputPipe().(io.Closer); ok { // Close of the emulator races with its Read
			answers.Close()
		}
		done.Wait()
	})
	return term
}

// Write draws what a program has written.
func (t *Terminal) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.raw.Write(p)
	return t.vt.Write(p)
}

// Resize changes the size, which the program learns by a signal.
func (t *Terminal) Resize(width, height int) {
	t.t.Helper()
	t.mu.Lock()
	t.vt.Resize(width, height)
	t.mu.Unlock()
	if err := pty.Setsize(t.pty, &pty.Winsize{Rows: uint16(height), Cols: uint16(width)}); err != nil {
		t.t.Fatal(err)
	}
}

// Type sends keys to the program.
func (t *Terminal) Type(keys string) {
	t.t.Helper()
	if _, err := io.WriteString(t.pty, keys); err != nil {
		t.t.Fatal(err)
	}
}

// Screen returns the text that is visible, and whether it is the alternate screen.
func (t *Terminal) Screen() (text string, alternate bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.vt.String(), t.alt
}

// CursorHidden reports whether the cursor is hidden.
func (t *Terminal) CursorHidden() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.vt.CursorHidden()
}

// Raw returns all that the program has written.
func (t *Terminal) Raw() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.raw.String()
}

// Until waits until the screen shows what ok looks for, and returns it.
func (t *Terminal) Until(what string, ok func(screen string) bool) string {
	t.t.Helper()
	for end := clock.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		screen, _ := t.Screen()
		if ok(screen) {
			return screen
		}
		if clock.Now().After(end) {
			t.t.Fatalf("it never showed %s:\n%s", what, screen)
		}
	}
}

// UntilShows waits until the screen has a text.
func (t *Terminal) UntilShows(text string) string {
	t.t.Helper()
	return t.Until(text, func(screen string) bool { return strings.Contains(screen, text) })
}
