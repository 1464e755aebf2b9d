package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/terminal"
)

// Show prints v as JSON if that is the output format, else what text writes. JSON is
// indented on a terminal and one line otherwise.
func (a *App) Show(v any, text func(w io.Writer)) error {
	if a.Config.Output != "json" {
		text(a.Stdout)
		return nil
	}
	return a.Encode(v, terminal.IsTerminal(a.Stdout))
}

// Done prints what a verb without a value has done, for people, and {} as JSON; or it returns the error.
func (a *App) Done(err error, text string) error {
	if err != nil {
		return err
	}
	return a.Show(struct{}{}, func(w io.Writer) { fmt.Fprintln(w, terminal.Printable(text)) })
}

// Encode writes a value as JSON to stdout.
func (a *App) Encode(v any, indent bool) error {
	enc := json.NewEncoder(a.Stdout)
	enc.SetEscapeHTML(false)
	if indent {
		enc.SetIndent("", "  ")
	}
	return enc.Encode(v)
}

// Blocked describes what something waits for.
func Blocked(b *pawl.Blocked) string {
	if b == nil {
		return ""
	}
	text := b.Reason + ": " + terminal.Printable(b.Detail)
	if b.Until != nil {
		text += ", until " + terminal.Time(*b.Until)
	}
	return text
}

// Why describes what something waits for and, if it failed, its last error.
func Why(b *pawl.Blocked, f *pawl.Failure) string {
	var both []string
	if b != nil {
		both = append(both, b.Reason+": "+b.Detail)
	}
	if f != nil {
		both = append(both, "error: "+cmp.Or(f.Message, f.Code))
	}
	return strings.Join(both, "; ")
}

// Due returns when something stops being blocked; nil if that is not known.
func Due(b *pawl.Blocked) *time.Time {
	if b == nil {
		return nil
	}
	return b.Until
}

// Pending formats the counts of items without a worker.
func Pending(p *pawl.Pending) string {
	if p == nil {
		return ""
	}
	return fmt.Sprintf(": %d queued, %d scheduled, %d waiting", p.Queued, p.Scheduled, p.Waiting)
}

// List prints a page, or all pages if asked, and where the next page begins.
func List[T any](
	ctx context.Context,
	a *App,
	p Pages,
	header string,
	line func(T) string,
	fetch func(context.Context, pawl.Page) (pawl.List[T], error),
) error {
	out := pawl.List[T]{Items: []T{}}
	err := p.Each(func(page pawl.Page) (string, error) {
		got, err := fetch(ctx, page)
		out.Items = append(out.Items, got.Items...)
		out.Next, out.Incomplete = got.Next, got.Incomplete
		return got.Next, err
	})
	if err != nil {
		return err
	}
	return a.Show(out, func(w io.Writer) {
		rows := make([]string, len(out.Items))
		for i, x := range out.Items {
			rows[i] = line(x)
		}
		terminal.Table(w, header, rows)
		a.More(out.Next)
	})
}

// More says on stderr how to get the page behind a cursor; "" = there is none.
func (a *App) More(cursor string) {
	if cursor != "" {
		fmt.Fprintf(a.Stderr, "more: --cursor %s, or --all\n", cursor)
	}
}

// ShowEach prints the results of a batch, and errors for the calls that were refused.
// The first error is the command's. A single call prints its value, several print a
// list.
func ShowEach[T any](a *App, rs []pawl.Result[T], err error, text func(w io.Writer, vs []T)) error {
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
		if err := a.Show(v, func(w io.Writer) { text(w, held) }); err != nil {
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
