package top

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/terminal"
)

// maxCell bounds a text of a user in a table, in characters.
const maxCell = 40

// tone is the meaning of a line's colour.
type tone int

const (
	plain  tone = iota
	title       // the header of a table
	bad         // a person has to do something
	paused      // nothing is claimed, on purpose
	quiet       // commands and keys
)

// line is a line of the screen, without colour.
type line struct {
	text string
	tone tone
}

// order is how queues are sorted: by the number of a queue, the largest first, or by type.
type order struct {
	key, name string
	less      func(a, b queueLine) int
}

func largestFirst(number func(q queueLine) float64) func(a, b queueLine) int {
	return func(a, b queueLine) int { return cmp.Compare(number(b), number(a)) }
}

// orders are the orders that keys and --sort choose; the first is the default.
var orders = []order{
	{"b", "backlog", largestFirst(func(q queueLine) float64 { return float64(q.backlog()) })},
	{"t", "type", func(a, b queueLine) int { return cmp.Compare(a.Type, b.Type) }},
	{"o", "oldest", largestFirst(func(q queueLine) float64 { return float64(q.OldestQueuedSeconds) })},
	{"s", "started", largestFirst(func(q queueLine) float64 { return float64(q.Started) })},
	{"e", "ended", largestFirst(func(q queueLine) float64 { return q.EndedPM })},
	{"w", "wait", largestFirst(func(q queueLine) float64 { return q.WaitP95 })},
	{"f", "failures", largestFirst(func(q queueLine) float64 { return float64(q.Failed) })},
}

func (f *frame) sort(by order, reverse bool) {
	slices.SortStableFunc(f.Queues, func(a, b queueLine) int {
		n := by.less(a, b)
		if reverse {
			n = -n
		}
		return cmp.Or(n, cmp.Compare(a.Type, b.Type))
	})
}

// head has the numbers of the whole namespace.
func (f *frame) head() []line {
	t := f.Totals
	relay := "none seen"
	if t.RelayLagEvents != nil {
		relay = fmt.Sprintf("%d events, %s", *t.RelayLagEvents, span(*t.RelayLagSeconds))
	}
	numbers := line{text: fmt.Sprintf("throughput %s started, %s ended   failures %s   ", perMinute(t.StartedPM), perMinute(t.EndedPM),
		percent(t.FailureRate)) + fmt.Sprintf("backlog %d: %d queued, %d leased, %d waiting   scheduled %d", t.Queued+t.Leased+t.Waiting,
		t.Queued, t.Leased, t.Waiting, t.Scheduled)}
	more := line{text: fmt.Sprintf(
		"oldest %s   p95 wait %s   workers %d   open messages %d, %d stalled   relay lag %s", span(float64(t.OldestQueuedSeconds)),
		span(t.WaitP95), t.Workers, t.Streaming, t.Stalled, relay)}
	return []line{numbers, more}
}

func (f *frame) queueLines() []line {
	if len(f.Queues) == 0 {
		return []line{{"There is no queue yet. A type has one from its first item on: pawl task create --type demo", plain},
			{"Other namespaces: pawl namespace ls", plain}}
	}
	rows := make([][]string, len(f.Queues))
	tones := make([]tone, len(f.Queues))
	for i, q := range f.Queues {
		name := q.Type
		switch {
		case q.Paused:
			name, tones[i] = name+" (paused)", paused
		case q.Queued > 0 && q.Workers == 0, q.Failed > 0 && q.Completed == 0:
			tones[i] = bad
		}
		rows[i] = []string{name, number(q.Queued), number(q.Leased), number(q.Waiting), span(float64(q.OldestQueuedSeconds)),
			perMinute(q.StartedPM), perMinute(q.EndedPM), span(q.WaitP95), number(q.Failed), number(int64(q.Workers))}
	}
	header := []string{"QUEUE", ">QUEUED", ">LEASED", ">WAITING", ">OLDEST", ">STARTED", ">ENDED", ">P95 WAIT", ">FAILED", ">WORKERS"}
	return table(header, rows, tones)
}

func (f *frame) stuckLines() []line {
	if len(f.Stuck) == 0 {
		return []line{{"Nothing is stuck.", plain}}
	}
	out := []line{{fmt.Sprintf("STUCK (%d)", len(f.Stuck)), title}}
	for _, s := range f.Stuck {
		count := ""
		if s.Count > 0 {
			count = fmt.Sprintf(" %d", s.Count)
		}
		out = append(out,
			line{cell(s.Type) + count + "  " + s.Reason + " for " + span(f.At.Sub(s.Since).Seconds()) + "  " + terminal.Printable(s.Detail), bad},
			line{"  " + terminal.Printable(s.Command), quiet})
	}
	return out
}

func (f *frame) leaseLines() []line {
	if len(f.Leased) == 0 {
		return []line{{"No item is leased.", plain}}
	}
	rows, tones := make([][]string, len(f.Leased)), make([]tone, len(f.Leased))
	for i, l := range f.Leased {
		ends := ""
		if l.LeaseExpiresAt != nil {
			ends = span(l.LeaseExpiresAt.Sub(f.At).Seconds())
		}
		if l.Status == pawl.StatusExpired {
			ends, tones[i] = "over", bad
		}
		done := ""
		if l.Progress > 0 || l.Stage != "" {
			done = strings.TrimSpace(fmt.Sprintf("%d %% %s", l.Progress, l.Stage))
		}
		rows[i] = []string{l.Title, l.Type, l.WorkerID, number(int64(l.Attempt)), span(l.HeldSeconds), ends, done, l.ItemID}
	}
	out := table([]string{"TITLE", "TYPE", "HOLDER", ">ATTEMPT", ">HELD", ">LEASE ENDS IN", "PROGRESS", "ITEM"}, rows, tones)
	if n := int64(len(f.Leased)); f.Totals.Leased > n {
		out = append(out, line{fmt.Sprintf("%d more are leased", f.Totals.Leased-n), plain})
	}
	return out
}

// lines returns the whole frame, for --once.
func (f *frame) lines() (out []line) {
	blank := line{}
	out = append(append(out, f.head()...), blank)
	out = append(append(out, f.queueLines()...), blank)
	out = append(append(out, f.stuckLines()...), blank)
	return append(out, f.leaseLines()...)
}

// table aligns cells in columns. A column whose header begins with ">" is aligned to the right.
func table(header []string, rows [][]string, tones []tone) []line {
	width, right := make([]int, len(header)), make([]bool, len(header))
	for i, h := range header {
		header[i], right[i] = strings.CutPrefix(h, ">")
		width[i] = len(header[i])
	}
	for _, row := range rows {
		for i, c := range row {
			row[i] = cell(c)
			width[i] = max(width[i], ansi.StringWidth(row[i]))
		}
	}
	write := func(row []string, t tone) line {
		var b strings.Builder
		for i, c := range row {
			space := strings.Repeat(" ", width[i]-ansi.StringWidth(c))
			if right[i] {
				c, space = space+c, ""
			}
			b.WriteString(c + space + "  ")
		}
		return line{strings.TrimRight(b.String(), " "), t}
	}
	out := []line{write(header, title)}
	for i, row := range rows {
		out = append(out, write(row, tones[i]))
	}
	return out
}

// cell makes a text safe for a terminal, and short.
func cell(s string) string { return cmp.Or(terminal.Clip(terminal.Printable(s), maxCell), "-") }

func number(n int64) string { return strconv.FormatInt(n, 10) }

func percent(part float64) string { return strconv.FormatFloat(100*part, 'f', 1, 64) + " %" }

func perMinute(v float64) string {
	return strconv.FormatFloat(v, 'f', map[bool]int{true: 0, false: 1}[v >= 10 || v == 0], 64) + "/min"
}

// span writes a duration in seconds: in milliseconds below a second, else to the second.
func span(seconds float64) string {
	switch d := time.Duration(seconds * float64(time.Second)); {
	case d == 0:
		return "-"
	case d.Abs() < time.Second:
		return d.Round(time.Millisecond).String()
	case d.Abs() >= 48*time.Hour:
		return fmt.Sprintf("%dd%dh", int(d.Hours())/24, int(d.Hours())%24)
	default:
		return d.Truncate(time.Second).String()
	}
}
