package main

import (
	"cmp"
	"context"
	"encoding/json"
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

// show prints v as JSON when that is asked for, else what text writes: indented
// on a terminal, one line for programs.
func (a *app) show(v any, text func(w io.Writer)) error {
	if a.cfg.Output != "json" {
		text(a.stdout)
		return nil
	}
	return a.encode(v, isTerminal(a.stdout))
}

func (a *app) encode(v any, indent bool) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetEscapeHTML(false)
	if indent {
		enc.SetIndent("", "  ")
	}
	return enc.Encode(v)
}

// table writes rows under a header; both have their columns between tabs.
func table(w io.Writer, header string, rows []string) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, header)
	for _, r := range rows {
		fmt.Fprintln(t, r)
	}
	t.Flush()
}

// fields writes pairs of name and value, one a line, without the empty ones.
func fields(w io.Writer, pairs ...string) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			fmt.Fprintf(t, "%s\t%s\n", pairs[i], pairs[i+1])
		}
	}
	t.Flush()
}

// row joins the cells of a line; what is in them cannot break the table or
// steer a terminal.
func row(cells ...any) string {
	out := make([]string, len(cells))
	for i, c := range cells {
		switch c := c.(type) {
		case time.Time:
			out[i] = when(c)
		case *time.Time:
			out[i] = whenever(c)
		case []string:
			out[i] = clip(printable(strings.Join(c, ", ")), 60)
		default:
			out[i] = clip(printable(fmt.Sprint(c)), 60)
		}
		if out[i] == "" {
			out[i] = "-"
		}
	}
	return strings.Join(out, "\t")
}

func when(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

func whenever(t *time.Time) string {
	if t == nil {
		return ""
	}
	return when(*t)
}

func failure(f *pawl.Failure) string {
	switch {
	case f == nil:
		return ""
	case f.Code != "":
		return printable(f.Code + ": " + f.Message)
	}
	return printable(f.Message)
}

// blocked says what something waits for.
func blocked(b *pawl.Blocked) string {
	if b == nil {
		return ""
	}
	text := b.Reason + ": " + printable(b.Detail)
	if b.Until != nil {
		text += ", until " + when(*b.Until)
	}
	return text
}

// why is what something waits for and, if it failed, its last error.
func why(b *pawl.Blocked, f *pawl.Failure) string {
	var both []string
	if b != nil {
		both = append(both, b.Reason+": "+b.Detail)
	}
	if f != nil {
		both = append(both, "error: "+cmp.Or(f.Message, f.Code))
	}
	return strings.Join(both, "; ")
}

func due(b *pawl.Blocked) *time.Time {
	if b == nil {
		return nil
	}
	return b.Until
}

// age is how long ago a time was, to the second.
func age(t time.Time) string { return max(clock.Now().Sub(t), 0).Truncate(time.Second).String() }

// pending says how items that nobody works on are divided.
func pending(p *pawl.Pending) string {
	if p == nil {
		return ""
	}
	return fmt.Sprintf(": %d queued, %d scheduled, %d waiting", p.Queued, p.Scheduled, p.Waiting)
}

// printable escapes what is not for printing, line breaks and tabs too.
func printable(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return s
	}
	quoted := strconv.Quote(s)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// clip shortens to n characters.
func clip(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// list prints a page, or all pages when asked, and says where the next begins.
func list[T any](ctx context.Context, a *app, p pages, header string, line func(T) string, fetch func(context.Context, pawl.Page) (pawl.List[T], error)) error {
	page := pawl.Page{Limit: p.limit, Cursor: p.cursor}
	if p.all {
		page.Limit = pawl.MaxPage
	}
	out := pawl.List[T]{Items: []T{}}
	for {
		got, err := fetch(ctx, page)
		if err != nil {
			return err
		}
		out.Items = append(out.Items, got.Items...)
		out.Next = got.Next
		if !p.all || got.Next == "" {
			break
		}
		page.Cursor = got.Next
	}
	return a.show(out, func(w io.Writer) {
		rows := make([]string, len(out.Items))
		for i, x := range out.Items {
			rows[i] = line(x)
		}
		table(w, header, rows)
		if out.Next != "" {
			fmt.Fprintf(a.stderr, "more: --cursor %s, or --all\n", out.Next)
		}
	})
}

// each prints the calls of a batch that held and tells about those that were
// refused; the first refusal is the command's error. One call prints its value,
// several a list.
func each[T any](a *app, rs []pawl.Result[T], err error, text func(w io.Writer, vs []T)) error {
	if err != nil {
		return err
	}
	held := make([]T, 0, len(rs))
	var no refusals
	for i, r := range rs {
		if r.Err == nil {
			held = append(held, r.Value)
		} else {
			no = append(no, refused{i, r.Err})
		}
	}
	if len(held) > 0 {
		var v any = held
		if len(rs) == 1 {
			v = held[0]
		}
		if err := a.show(v, func(w io.Writer) { text(w, held) }); err != nil {
			return err
		}
	}
	switch {
	case len(no) == 0:
		return nil
	case len(rs) == 1:
		return no[0].err
	}
	return no
}
