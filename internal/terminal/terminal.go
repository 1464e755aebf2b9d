// Package terminal formats text for people: tables, fields, times and escaped strings.
package terminal

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"golang.org/x/term"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

// Table writes rows under a header. In both, tabs separate the columns.
func Table(w io.Writer, header string, rows []string) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, header)
	for _, r := range rows {
		fmt.Fprintln(t, r)
	}
	t.Flush()
}

// Fields writes pairs of a name and a value, one pair per line. Pairs with an empty value are
// left out.
func Fields(w io.Writer, pairs ...string) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			fmt.Fprintf(t, "%s\t%s\n", pairs[i], pairs[i+1])
		}
	}
	t.Flush()
}

// Row joins the cells of a line. It escapes their content, so that it cannot break the table
// or control a terminal.
func Row(cells ...any) string {
	out := make([]string, len(cells))
	for i, c := range cells {
		switch c := c.(type) {
		case time.Time:
			out[i] = Time(c)
		case *time.Time:
			out[i] = OptionalTime(c)
		case *string:
			if c != nil {
				out[i] = Clip(Printable(*c), 60)
			}
		case []string:
			out[i] = Clip(Printable(strings.Join(c, ", ")), 60)
		default:
			out[i] = Clip(Printable(fmt.Sprint(c)), 60)
		}
		if out[i] == "" {
			out[i] = "-"
		}
	}
	return strings.Join(out, "\t")
}

// Time formats a time in UTC with milliseconds; "" for the zero time.
func Time(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// OptionalTime formats a time; "" for nil.
func OptionalTime(t *time.Time) string {
	if t == nil {
		return ""
	}
	return Time(*t)
}

// Failure formats the error of an item; "" for nil.
func Failure(f *pawl.Failure) string {
	switch {
	case f == nil:
		return ""
	case f.Code != "":
		return Printable(f.Code + ": " + f.Message)
	}
	return Printable(f.Message)
}

// Age returns how long ago a time was, to the second.
func Age(t time.Time) string { return max(clock.Now().Sub(t), 0).Truncate(time.Second).String() }

// Printable escapes characters that cannot be printed, including line breaks and tabs.
func Printable(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return s
	}
	quoted := strconv.Quote(s)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// Clip shortens a text to n characters.
func Clip(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
