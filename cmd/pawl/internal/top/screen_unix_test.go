//go:build unix

package top

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/term"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/testterm"
)

// hostile has what would control a terminal: an escape sequence, a direction mark and a line break.
const hostile = "a\x1b[2J\u202eb\n"

func frameOf(queued int64) *frame {
	at := time.Date(2026, 11, 26, 9, 0, 0, 0, time.UTC)
	f := &frame{At: at, WindowSeconds: 300, Queues: []queueLine{{Type: "ocr", Queued: queued, Workers: 1}, {Type: hostile, Queued: 2}},
		Stuck: []stuckLine{{hostile, 2, pawl.Why{Reason: pawl.BlockedByNoWorker, Since: at.Add(-time.Minute), Detail: "no worker " + hostile,
			Command: "pawl worker --type " + hostile}}}}
	for i := range 50 {
		f.Leased = append(f.Leased, leaseLine{ItemID: fmt.Sprint("itm_", i), Type: "ocr", WorkerID: hostile, Attempt: i, HeldSeconds: 75})
	}
	f.add(nil)
	return f
}

type shown struct {
	*testterm.Terminal
	*screen
	before *term.State // of the terminal
	ended  chan error
	count  atomic.Int64
}

// input is a terminal that can be closed while a reader asks for its descriptor: after a panic
// Bubble Tea does not wait for its reader.
type input struct {
	*os.File
	mu sync.Mutex
}

func (i *input) Fd() uintptr {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.File.Fd()
}

func (i *input) Close() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.File.Close()
}

// show runs the screen on a terminal. The frames count the reads.
func show(ctx context.Context, t *testing.T, read func(n int64) (*frame, error)) *shown {
	t.Helper()
	s := &shown{Terminal: testterm.Open(t, 120, 30), ended: make(chan error, 1)}
	var err error
	if s.before, err = term.GetState(int(s.TTY.Fd())); err != nil {
		t.Fatal(err)
	}
	in := &input{File: s.TTY}
	t.Cleanup(func() { in.Close() })
	s.screen = &screen{place: "here", interval: 20 * time.Millisecond, colour: true, by: orders[0], frame: frameOf(1000),
		read: func(context.Context) (*frame, error) { return read(s.count.Add(1)) }}
	go func() {
		s.ended <- s.run(ctx, tea.WithInput(in), tea.WithOutput(s.TTY), tea.WithEnvironment([]string{"TERM=xterm-256color"}))
	}()
	return s
}

// gone waits for the end of the screen, and checks that the terminal is as it was.
func (s *shown) gone(t *testing.T) error {
	t.Helper()
	err := <-s.ended
	s.Until("the normal screen", func(string) bool { _, alternate := s.Screen(); return !alternate && !s.CursorHidden() })
	if screen, _ := s.Screen(); strings.Contains(screen, "QUEUE") || s.CursorHidden() {
		t.Errorf("the screen was not restored (cursor hidden: %t):\n%s", s.CursorHidden(), screen)
	}
	if after, err := term.GetState(int(s.TTY.Fd())); err != nil || !reflect.DeepEqual(after, s.before) {
		t.Errorf("the modes of the terminal were not restored: %v", err)
	}
	return err
}

func counting(n int64) (*frame, error) { return frameOf(1000 + n), nil }

// The screen draws frames as they come, sorts, pauses and explains its keys. Texts of users do not
// control the terminal.
func TestScreen(t *testing.T) {
	hold := make(chan struct{})
	s := show(t.Context(), t, func(n int64) (*frame, error) {
		if n == 1 {
			<-hold
		}
		return counting(n)
	})
	screen := s.UntilShows("HOLDER")
	if _, alternate := s.Screen(); !alternate || !s.CursorHidden() {
		t.Error("it is not the alternate screen, or shows the cursor")
	}
	close(hold)
	for _, want := range []string{"pawl top   here   09:00:00 UTC", `a\x1b[2J\u202eb\n`, "STUCK (1)", "no_worker for 1m0s", "itm_0", "1m15s",
		"more lines", "q quit"} {
		if !strings.Contains(screen, want) {
			t.Errorf("%q is not on the screen:\n%s", want, screen)
		}
	}
	if strings.Contains(s.Raw(), "\u202e") || strings.Contains(s.Raw(), "a\x1b[2J") {
		t.Error("a text of a user reached the terminal as it is")
	}
	first := func(name string) func(string) bool {
		return func(screen string) bool {
			_, rest, _ := strings.Cut(screen, "WORKERS")
			return strings.HasPrefix(strings.TrimSpace(rest), name)
		}
	}
	s.Until("the largest queue first", first("ocr"))
	s.Type("t")
	s.Until("the queues by type", first(`a\x1b`))
	s.Type("t")
	s.Until("the queues by type, reversed", first("ocr"))
	s.UntilShows("1020")
	s.Type("p")
	s.UntilShows("PAUSED")
	time.Sleep(50 * time.Millisecond) // a read that had begun ends
	n := s.count.Load()
	time.Sleep(200 * time.Millisecond)
	if s.count.Load() != n {
		t.Error("it reads while it is paused")
	}
	s.Type("p")
	s.Until("reads again", func(string) bool { return s.count.Load() > n+1 })
	s.Type("?")
	s.UntilShows("Ctrl-Z")
	s.Type("?")
	s.UntilShows("HOLDER")
	s.Type("q")
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
}

// A new size redraws the screen at once: no line is longer, and the last line stays the last.
func TestScreenResizes(t *testing.T) {
	s := show(t.Context(), t, counting)
	s.UntilShows("HOLDER")
	for _, size := range []struct{ width, height int }{{60, 12}, {200, 60}, {20, 3}, {1, 1}, {100, 24}} {
		s.Resize(size.width, size.height)
		if err := syscall.Kill(os.Getpid(), syscall.SIGWINCH); err != nil { // it is not the terminal of this process
			t.Fatal(err)
		}
		want := "q quit   p pause"
		s.Until(fmt.Sprint("a screen of ", size), func(screen string) bool {
			lines := strings.Split(strings.TrimRight(screen, "\n"), "\n")
			last := lines[len(lines)-1]
			return len(lines) <= size.height && (size.width < 20 || len(lines) == size.height && strings.HasPrefix(last, want))
		})
	}
	s.UntilShows("HOLDER")
	s.Type("q")
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
}

// However it ends, the terminal is as it was: by a key, by a signal, and by a panic while reading
// or drawing.
func TestScreenIsRestored(t *testing.T) {
	for name, c := range map[string]struct {
		end     func(s *shown, stop func())
		read    func(n int64) (*frame, error)
		problem string
	}{
		"q":      {func(s *shown, _ func()) { s.Type("q") }, counting, ""},
		"Ctrl-C": {func(s *shown, _ func()) { s.Type("\x03") }, counting, ""},
		"signal": {func(_ *shown, stop func()) { stop() }, counting, ""},
		"panic while reading": {func(*shown, func()) {}, func(n int64) (*frame, error) {
			if n == 5 {
				panic("on purpose")
			}
			return counting(n)
		}, "panic: "},
		"panic while drawing": {func(*shown, func()) {}, func(n int64) (*frame, error) {
			if n == 5 {
				return nil, nil
			}
			return counting(n)
		}, "panic: "},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			begin := make(chan struct{})
			s := show(ctx, t, func(n int64) (*frame, error) {
				<-begin
				return c.read(n)
			})
			s.UntilShows("HOLDER")
			close(begin)
			c.end(s, stop)
			err := s.gone(t)
			if (err != nil) != (c.problem != "") || err != nil && !strings.Contains(err.Error(), c.problem) {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}

// A panic while the screen is drawn ends it.
func TestAPanicOfTheViewEndsTheScreen(t *testing.T) {
	quit := make(chan struct{})
	s := &screen{height: 10, quit: func() { close(quit) }} // without a frame
	s.View()
	<-quit
	if s.crashed == nil || !strings.Contains(s.crashed.Error(), "panic: ") {
		t.Errorf("it ends with %v", s.crashed)
	}
}

// A read that fails is said on the last line, and the frame before stays.
func TestScreenSaysWhatFailed(t *testing.T) {
	s := show(t.Context(), t, func(n int64) (*frame, error) {
		if n%10 < 5 {
			return nil, &pawl.Error{Code: pawl.CodeUnavailable, Message: "the database does not answer " + hostile}
		}
		return counting(n)
	})
	s.Until("the failure", func(screen string) bool {
		return strings.Contains(screen, `the database does not answer a\x1b`) && strings.Contains(screen, "HOLDER")
	})
	s.Until("the next frame", func(screen string) bool { return !strings.Contains(screen, "does not answer") })
	s.Type("q")
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
}
