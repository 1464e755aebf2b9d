package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/internal/jsonscan"
	"github.com/pawl-work/pawl/internal/nearest"
	"github.com/pawl-work/pawl/internal/strictjson"
)

// Pages are the flags of a list.
type Pages struct {
	limit  int
	cursor string
	all    bool
}

// Flags adds the flags.
func (p *Pages) Flags(cmd *cobra.Command) {
	cmd.Flags().IntVar(&p.limit, "limit", pawl.DefaultPage, "rows per page, at most 1000")
	cmd.Flags().StringVar(&p.cursor, "cursor", "", "continue after a page: its printed cursor")
	cmd.Flags().BoolVar(&p.all, "all", false, "all pages")
}

// All says whether all pages are asked for.
func (p *Pages) All() bool { return p.all }

// Each fetches the page that the flags ask for, or all pages. fetch returns the cursor of the
// next page.
func (p *Pages) Each(fetch func(page pawl.Page) (next string, err error)) error {
	page := pawl.Page{Limit: p.limit, Cursor: p.cursor}
	if p.all {
		page.Limit = pawl.MaxPage
	}
	for {
		next, err := fetch(page)
		if err != nil || !p.all || next == "" {
			return err
		}
		page.Cursor = next
	}
}

// JsonArg reads a flag that has JSON: the text itself, @FILE, or - for stdin. "" is nil.
func (a *App) JsonArg(flag, text string) (json.RawMessage, error) {
	if text == "" {
		return nil, nil
	}
	raw := []byte(text)
	if text == "-" || text[0] == '@' {
		var err error
		if raw, err = a.ReadFile(strings.TrimPrefix(text, "@")); err != nil {
			return nil, err
		}
	}
	raw = bytes.TrimSpace(raw)
	if !json.Valid(raw) {
		return nil, Invalid("--%s is not valid JSON; a string needs double quotes, for example '\"text\"'", flag)
	}
	return raw, nil
}

// Alone refuses flags of a command that were given beside one that says all, but for some.
func Alone(cmd *cobra.Command, name string, but ...string) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if err == nil && cmd.InheritedFlags().Lookup(f.Name) == nil && f.Name != name && !slices.Contains(but, f.Name) {
			err = Invalid("--%s says all: omit --%s", name, f.Name)
		}
	})
	return err
}

// Duration reads a duration, which may be in days: 90d.
func Duration(text string) (time.Duration, error) {
	if n, found := strings.CutSuffix(text, "d"); found {
		if d, err := strconv.Atoi(n); err == nil && d >= 0 && d <= 36500 {
			return time.Duration(d) * 24 * time.Hour, nil
		}
	} else if d, err := time.ParseDuration(text); err == nil {
		return d, nil
	}
	return 0, Invalid("%q is not a duration; use for example 90d or 12h", text)
}

// durationValue is the value of a flag that has a duration.
type durationValue time.Duration

func (d *durationValue) Type() string { return "duration" }

// String returns what pflag takes for no value if it is 0, and so leaves out of the help.
func (d *durationValue) String() string {
	if *d == 0 {
		return "0"
	}
	return time.Duration(*d).String()
}

func (d *durationValue) Set(text string) error {
	v, err := Duration(text)
	*d = durationValue(v)
	return err
}

// ReadFile reads a file, or stdin for -.
func (a *App) ReadFile(name string) ([]byte, error) {
	var raw []byte
	var err error
	if name == "-" {
		raw, err = io.ReadAll(a.Stdin)
	} else {
		raw, err = os.ReadFile(name)
	}
	if err != nil {
		return nil, Invalid("%v", err)
	}
	return raw, nil
}

// ReadList reads a JSON array or a stream of JSON values. It refuses what the server refuses, such as
// unknown members.
func ReadList[T any](a *App, name string) ([]T, error) {
	raw, err := a.ReadFile(name)
	if err != nil {
		return nil, err
	}
	values, rest, ok := strictjson.Values(raw)
	if bytes.HasPrefix(bytes.TrimSpace(raw), []byte("[")) && (!ok || len(bytes.TrimSpace(rest)) > 0) {
		return nil, Invalid("%s: is no list, or there is more after the list", name)
	}
	for rest = bytes.TrimSpace(raw); !ok && len(rest) > 0; {
		n := jsonscan.End(rest)
		values, rest = append(values, rest[:n]), bytes.TrimSpace(rest[n:])
	}
	out := make([]T, len(values))
	for i, text := range values {
		if err := ReadJSON(fmt.Sprintf("%s: value %d", name, i+1), text, &out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// ReadJSON reads a JSON text into v. It refuses what the server refuses, such as unknown members. what names the
// text in errors.
func ReadJSON(what string, text []byte, v any) error {
	err := strictjson.Read(text, v)
	var bad *pawl.Error
	if errors.As(err, &bad) && len(bad.Fields) > 0 {
		return Invalid("%s: %s %s", what, bad.Fields[0].Pointer, bad.Fields[0].Message)
	} else if err != nil {
		return Invalid("%s: %v", what, err)
	}
	return nil
}

// TimeArg reads an RFC 3339 time or a duration: after now for sign 1, before now for
// sign −1. "" is the zero time.
func TimeArg(flag, text string, sign int) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return t, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return time.Time{}, Invalid("--%s must be a time (2026-01-02T15:04:05Z) or a duration (10m), not %q", flag, text)
	}
	return clock.Now().Add(time.Duration(sign) * d), nil
}

// FutureTime is TimeArg for an optional time in the future.
func FutureTime(flag, text string) (*time.Time, error) {
	t, err := TimeArg(flag, text, 1)
	if err != nil || t.IsZero() {
		return nil, err
	}
	return &t, nil
}

// Seconds returns a duration in whole seconds, rounded up.
func Seconds(d time.Duration) int {
	return int((d + time.Second - 1).Truncate(time.Second) / time.Second)
}

// Choice is a flag whose values come from a fixed list.
type Choice[T ~string] struct {
	flag  string
	words []string
	known []string
}

// Choose adds the flag, with shell completion.
func Choose[T ~string](cmd *cobra.Command, flag, usage string, known []string) *Choice[T] {
	c := &Choice[T]{flag: flag, known: known}
	cmd.Flags().StringSliceVar(&c.words, flag, nil, usage)
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(known, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// Read returns the chosen values.
func (c *Choice[T]) Read() ([]T, error) {
	var out []T
	for _, word := range c.words {
		if !slices.Contains(c.known, word) {
			return nil, notOneOf("--"+c.flag, word, c.known)
		}
		out = append(out, T(word))
	}
	return out, nil
}

// notOneOf refuses a word that is not one of those that are known.
func notOneOf(what, word string, known []string) error {
	return Invalid("%s must be one of %s, not %q%s", what, strings.Join(known, ", "), word, nearest.Question(word, known))
}

// OneOf refuses a word that is not one of those that are known; "" passes.
func OneOf(what, word string, known []string) error {
	if word == "" || slices.Contains(known, word) {
		return nil
	}
	return notOneOf(what, word, known)
}

// ShownStates returns the names of the states that callers see.
func ShownStates(states []pawl.StateInfo) []string {
	var names []string
	for _, s := range states {
		if s.Shown {
			names = append(names, s.Name)
		}
	}
	return names
}

// Strings converts a list of named strings to strings.
func Strings[S ~string](words []S) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = string(w)
	}
	return out
}
