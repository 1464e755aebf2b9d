package top

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/internal/terminal"
)

// idlePart is how much longer than a read the pause after it is, at least: reading a database in
// which counting takes long uses a tenth of the time.
const idlePart = 9

// keysHelp is the last line of the screen, and help explains the keys.
const keysHelp = "q quit   p pause   ? help   sort: b backlog  t type  o oldest  s started  e ended  w wait  f failures"

// screen is the live view. Bubble Tea calls it in one goroutine; reads run in others.
type screen struct {
	read     func(ctx context.Context) (*frame, error)
	ctx      context.Context // of the reads
	reads    sync.RWMutex    // held while a read runs
	ended    bool            // no read may begin; under reads
	place    string          // what is read: the namespace, and the server or the database
	interval time.Duration
	colour   bool

	by               order
	reverse          bool
	paused, help     bool
	reading, waiting bool // a read runs; a pause before the next one runs
	frame            *frame
	problem          error // of the newest read
	quit             func()
	crashed          error // a panic, which ends the screen
	width, height    int
}

type readMsg struct {
	frame *frame
	err   error
	took  time.Duration
}

type dueMsg struct{}

// crashMsg is a panic of a read.
type crashMsg struct{ err error }

// crash ends the screen after a panic. Bubble Tea would catch it too, but closes the terminal then
// while it still reads from it.
func (s *screen) crash(panicked any) tea.Cmd {
	if s.crashed == nil {
		s.crashed = panicError(panicked)
	}
	return tea.Quit
}

// panicError is called by a deferred function that has recovered from a panic: it has its place.
func panicError(panicked any) error { return fmt.Errorf("panic: %v\n%s", panicked, debug.Stack()) }

// Init waits for the first interval: the first frame is read before the screen is drawn.
func (s *screen) Init() tea.Cmd { return s.wait(s.interval) }

// Update handles a key, a new size of the terminal, or a frame that was read.
func (s *screen) Update(msg tea.Msg) (model tea.Model, cmd tea.Cmd) {
	defer func() {
		if p := recover(); p != nil {
			model, cmd = s, s.crash(p)
		}
	}()
	return s, s.update(msg)
}

func (s *screen) update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case crashMsg:
		s.crashed = msg.err
		return tea.Quit
	case tea.WindowSizeMsg:
		s.width, s.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		return s.press(msg.String())
	case dueMsg:
		s.waiting = false
		return s.next()
	case readMsg:
		s.reading, s.problem = false, msg.err
		if msg.err == nil {
			s.frame = msg.frame
			s.frame.sort(s.by, s.reverse)
		}
		return s.wait(min(max(s.interval, idlePart*msg.took), max(s.interval, time.Minute)))
	}
	return nil
}

func (s *screen) press(key string) tea.Cmd {
	switch key {
	case "q", "ctrl+c":
		return tea.Quit
	case "ctrl+z":
		return tea.Suspend
	case "?":
		s.help = !s.help
	case "esc":
		s.help = false
	case "p":
		s.paused = !s.paused
		return s.next()
	}
	for _, o := range orders {
		if o.key == key {
			s.by, s.reverse = o, o.name == s.by.name && !s.reverse
			s.frame.sort(s.by, s.reverse)
		}
	}
	return nil
}

// wait begins the pause before the next read.
func (s *screen) wait(d time.Duration) tea.Cmd {
	s.waiting = true
	return tea.Tick(d, func(time.Time) tea.Msg { return dueMsg{} })
}

// next begins to read, unless it is paused, a read runs or a pause before it does.
func (s *screen) next() tea.Cmd {
	if s.paused || s.reading || s.waiting {
		return nil
	}
	s.reading = true
	return func() (msg tea.Msg) {
		defer func() {
			if p := recover(); p != nil {
				msg = crashMsg{panicError(p)}
			}
		}()
		s.reads.RLock()
		defer s.reads.RUnlock()
		if s.ended {
			return nil
		}
		began := clock.Now()
		f, err := s.read(s.ctx)
		return readMsg{f, err, clock.Now().Sub(began)}
	}
}

// View draws the screen.
func (s *screen) View() (v tea.View) {
	defer func() {
		if p := recover(); p != nil {
			v.AltScreen = true
			s.crash(p)
			go s.quit() // Bubble Tea waits for this function
		}
	}()
	lines := s.lines()
	out := make([]string, min(len(lines), s.height))
	for i := range out {
		out[i] = s.paint(line{ansi.Truncate(lines[i].text, s.width, "…"), lines[i].tone})
	}
	v = tea.NewView(strings.Join(out, "\n"))
	v.AltScreen = true
	return v
}

func (s *screen) lines() []line {
	state := fmt.Sprintf("every %s", s.interval)
	if s.paused {
		state = "PAUSED: p goes on"
	}
	top := line{fmt.Sprintf("pawl top   %s   %s UTC, last %s, by %s   %s", s.place, s.frame.At.UTC().Format(time.TimeOnly),
		(time.Duration(s.frame.WindowSeconds) * time.Second), s.by.name, state), title}
	bottom := line{keysHelp, quiet}
	if s.problem != nil {
		bottom = line{"The newest read failed: " + terminal.Printable(s.problem.Error()), bad}
	}
	body := s.body(s.height - 2)
	for len(body) < s.height-2 {
		body = append(body, line{})
	}
	return append(append([]line{top}, body...), bottom)
}

// body returns what is between the first and the last line, in at most so many lines.
func (s *screen) body(room int) []line {
	if s.help {
		return helpLines()
	}
	out := append(s.frame.head(), line{})
	parts := [][]line{s.frame.queueLines(), s.frame.stuckLines(), s.frame.leaseLines()}
	room -= len(out) + len(parts) - 1
	for i, n := range share(room, len(parts[0]), len(parts[1]), len(parts[2])) {
		if i > 0 {
			out = append(out, line{})
		}
		out = append(out, cut(parts[i], n)...)
	}
	return out[:min(len(out), max(room+len(parts)+2, 0))]
}

// share divides lines among parts: none gets more than it needs, and what one leaves the others get.
func share(room int, needs ...int) []int {
	got := make([]int, len(needs))
	for progress := true; progress; {
		progress = false
		for i, need := range needs {
			if room > 0 && got[i] < need {
				got[i]++
				room--
				progress = true
			}
		}
	}
	return got
}

// cut shortens a part of the screen to n lines, and says how many are missing.
func cut(lines []line, n int) []line {
	if len(lines) <= n || n == 0 {
		return lines[:min(n, len(lines))]
	}
	return append(lines[:n-1:n-1], line{fmt.Sprintf("… %d more lines; pawl top --once prints all", len(lines)-n+1), quiet})
}

func helpLines() []line {
	out := []line{{}, {"KEYS", title}, {"  q, Ctrl-C   quit", plain}, {"  p           pause, or go on", plain},
		{"  ?           this help", plain}, {"  Ctrl-Z      suspend the program", plain}, {},
		{"SORT THE QUEUES BY; THE SAME KEY AGAIN REVERSES THE ORDER", title}}
	for _, o := range orders {
		out = append(out, line{"  " + o.key + "           " + o.name, plain})
	}
	return append(out, line{}, line{"STARTED and ENDED count attempts per minute, FAILED those that failed or whose lease ran out.", plain},
		line{"OLDEST is how long the longest queued item has been queued. WORKERS are the live ones that take the type.", plain})
}

// paint adds the colour of a line.
func (s *screen) paint(l line) string {
	style := ansi.NewStyle()
	if !s.colour || l.text == "" {
		return l.text
	}
	switch l.tone {
	case title:
		style = style.Bold()
	case bad:
		style = style.ForegroundColor(ansi.Red)
	case paused:
		style = style.ForegroundColor(ansi.Yellow)
	case quiet:
		style = style.Faint()
	case plain:
		return l.text
	}
	return style.Styled(l.text)
}

// run shows the screen until the user quits or ctx ends. It leaves the terminal as it was, also
// after a panic. When it returns, no read runs.
func (s *screen) run(ctx context.Context, o ...tea.ProgramOption) error {
	var stop func()
	s.ctx, stop = context.WithCancel(ctx)
	program := tea.NewProgram(s, append(o, tea.WithoutSignalHandler())...)
	s.quit = program.Quit
	defer context.AfterFunc(ctx, s.quit)() // a context of Bubble Tea's own ends it while it still reads
	_, err := program.Run()
	stop()
	s.reads.Lock()
	defer s.reads.Unlock()
	s.ended = true
	if s.crashed != nil {
		return s.crashed
	}
	return err
}
