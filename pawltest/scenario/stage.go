package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
)

// stage is one conversation: the service, and the names given so far.
type stage struct {
	ctx    context.Context
	svc    pawl.Service
	clock  pawltest.Clock
	start  time.Time
	ids    map[string]string // task1 → its id
	names  map[string]string // id → task1
	claims map[[2]string]int // (worker, item id) → the attempt of the last claim
	tokens map[string]string // key → token of the current run
	keys   map[string]string // hash → idempotency key that a command named
	counts map[string]int    // task, item, message → how many are named

	another func() pawl.Service
	servers []pawl.Service
	readers map[string]*reader // by their names
}

func newStage(ctx context.Context, svc pawl.Service, clock pawltest.Clock, another func() pawl.Service) *stage {
	return &stage{ctx: ctx, svc: svc, clock: clock, start: clock.Now(), ids: map[string]string{}, names: map[string]string{},
		claims: map[[2]string]int{}, tokens: map[string]string{}, keys: map[string]string{}, counts: map[string]int{},
		another: another, servers: []pawl.Service{svc}, readers: map[string]*reader{}}
}

// call is a command: its verb, plain words and name=value pairs.
type call struct {
	verb  string
	words []string
	named map[string]string
	items []call
}

// parse splits a line at its spaces, except within single quotes.
func parse(line string) call {
	var tokens []string
	var b strings.Builder
	quoted, some := false, false
	for _, r := range line + " " {
		switch {
		case r == '\'':
			quoted, some = !quoted, true
		case r == ' ' && !quoted:
			if some {
				tokens = append(tokens, b.String())
			}
			b.Reset()
			some = false
		default:
			b.WriteRune(r)
			some = true
		}
	}
	c := call{named: map[string]string{}}
	for n, token := range tokens {
		name, value, found := strings.Cut(token, "=")
		switch {
		case n == 0:
			c.verb = token
		case found && !strings.ContainsAny(name, `{["`):
			c.named[name] = value
		default:
			c.words = append(c.words, token)
		}
	}
	return c
}

// word returns the n-th plain word; "" if there is none.
func (c call) word(n int) string {
	if n < len(c.words) {
		return c.words[n]
	}
	return ""
}

func (c call) number(name string) int {
	n, _ := strconv.Atoi(c.named[name])
	return n
}

func (c call) raw(name string) json.RawMessage {
	if v, found := c.named[name]; found {
		return json.RawMessage(v)
	}
	return nil
}

func (c call) list(name string) []string {
	if c.named[name] == "" {
		return nil
	}
	return strings.Split(c.named[name], ",")
}

// at reads a time relative to now: +1h.
func (s *stage) at(text string) *time.Time {
	if text == "" {
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return nil
	}
	t := s.clock.Now().Add(d)
	return &t
}

// when writes a time relative to the start.
func (s *stage) when(t time.Time) string { return "+" + t.Sub(s.start).String() }

// name gives an id its name.
func (s *stage) name(kind, id string) string {
	if id == "" {
		return ""
	}
	if s.names[id] == "" {
		s.counts[kind]++
		name := kind + strconv.Itoa(s.counts[kind])
		s.names[id], s.ids[name] = name, id
	}
	return s.names[id]
}

// id returns the id that a name stands for; an unknown name is returned unchanged.
func (s *stage) id(name string) string {
	if id, found := s.ids[name]; found {
		return id
	}
	return name
}

// fence returns (worker, item) with the attempt of the last claim, or with attempt=n.
func (s *stage) fence(c call) pawl.Fence {
	f := pawl.Fence{ItemID: s.id(c.word(1)), WorkerID: c.word(0)}
	f.Attempt = s.claims[[2]string{f.WorkerID, f.ItemID}]
	if c.named["attempt"] != "" {
		f.Attempt = c.number("attempt")
	}
	if f.Attempt == 0 {
		f.Attempt = 1
	}
	return f
}

// refusal returns an error in one line.
func (s *stage) refusal(err error) string {
	var e *pawl.Error
	if !errors.As(err, &e) {
		return "error: " + err.Error()
	}
	out := "error: " + string(e.Code)
	if e.Reason != "" {
		out += fmt.Sprintf(" %s: state %s, holder %q, attempt %d", e.Reason, e.State, e.Holder, e.Attempt)
	} else if e.Code == pawl.CodeConflict && e.State != "" {
		out += fmt.Sprintf(": state %s allows %v", e.State, e.Allowed)
	}
	if x := e.Exhausted; x != nil {
		out += fmt.Sprintf(": %s, limit %d, remaining %d, reserved %d", x.OnExhausted, x.Limit, x.Remaining, x.Reserved)
		if x.SignalKey != "" {
			out += ", signal " + s.name("change", x.SignalKey)
		}
		if x.TaskID != "" {
			out += ", " + s.name("task", x.TaskID)
		}
	}
	if e.Expected != nil {
		out += fmt.Sprintf(", expected %d", *e.Expected)
	}
	if e.RetryAfter > 0 {
		out += ", retry after " + e.RetryAfter.String()
	}
	for _, f := range e.Fields {
		out += " " + f.Pointer
	}
	return out
}

// first returns the answer to a batch of one.
func first[T any](rs []pawl.Result[T], err error) (T, error) {
	var zero T
	if err != nil || len(rs) != 1 {
		return zero, errors.Join(err)
	}
	return rs[0].Value, rs[0].Err
}

// nameItems names a task's items by their position.
func (s *stage) nameItems(taskID string) ([]pawl.Item, error) {
	list, err := s.svc.ListItems(s.ctx, pawl.ItemFilter{TaskID: taskID, Page: pawl.Page{Limit: pawl.MaxPage}})
	slices.SortFunc(list.Items, func(a, b pawl.Item) int { return a.Position - b.Position })
	for _, i := range list.Items {
		s.name("item", i.ID)
	}
	return list.Items, err
}
