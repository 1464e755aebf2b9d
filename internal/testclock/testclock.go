// Package testclock is the clock of a server for tests: it stands, and only a request moves it. A
// database gets one when it is new, and keeps it; any other database is refused.
package testclock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/internal/durable"
	"github.com/pawl-work/pawl/internal/strictjson"
	"github.com/pawl-work/pawl/store/sqlite"
)

// Path is where requests move the clock of a server.
const Path = "/v1/test/advance"

const (
	suffix = ".test-clock" // of the file beside the database that has its time
	grace  = time.Second   // how much later than asked Advance still does what falls due
	most   = pawl.MaxDelay // of one Advance

	mostBody = 1 << 10 // of a request, in bytes
)

// Clock is a clock that only Advance moves. It is safe for concurrent use.
type Clock struct {
	file string

	moving sync.Mutex // held by Advance
	mu     sync.Mutex
	at     time.Time
}

// Open returns the clock of the database of a URL. That of a new database stands at start; later it
// stands where it was left. It refuses PostgreSQL, whose clock is the server's, and a database that is
// there and was made without a test clock.
func Open(url string, start time.Time) (*Clock, error) {
	path, _, local, err := sqlite.SplitURL(url)
	if err != nil {
		return nil, err
	}
	if !local {
		return nil, refused("works on SQLite alone: the clock of PostgreSQL is the server's")
	}
	c := &Clock{file: path + suffix, at: start.UTC()}
	if info, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return c, c.keep(c.at)
	}
	text, err := os.ReadFile(c.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, refused("is for new databases: %s was made without a test clock", path)
	}
	if err != nil {
		return nil, err
	}
	if c.at, err = time.Parse(time.RFC3339Nano, strings.TrimSpace(string(text))); err != nil {
		return nil, refused("cannot read %s: %v", c.file, err)
	}
	return c, nil
}

func refused(format string, args ...any) error {
	return &pawl.Error{Code: pawl.CodeInvalid, Op: "serve", Message: fmt.Sprintf("--test-clock "+format, args...)}
}

// keep writes down where the clock is to stand after a restart.
func (c *Clock) keep(at time.Time) error {
	return durable.Replace(c.file, at.Format(time.RFC3339Nano)+"\n")
}

// Now returns the time of the clock, in UTC.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

// set moves the clock forward.
func (c *Clock) set(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at.After(c.at) {
		c.at = at
	}
}

// Ticker does what is due, and says when something falls due next: an engine.
type Ticker interface {
	Tick(ctx context.Context) (pawl.Ticked, error)
}

// Advance moves the clock forward by d, at most ten years. What falls due on the way happens at its time, in
// order. What falls due up to a second later happens too, and the clock then stands there: workers add the time
// that a handler took to the end of a sleep.
func (c *Clock) Advance(ctx context.Context, t Ticker, d time.Duration) error {
	c.moving.Lock()
	defer c.moving.Unlock()
	until := c.Now().Add(d)
	if err := c.keep(until); err != nil {
		return err
	}
	for {
		ticked, err := t.Tick(ctx)
		if err != nil {
			return err
		}
		next := ticked.NextAt
		if next != nil && !next.After(c.Now()) { // it could not be done yet
			later := c.Now().Add(time.Second)
			next = &later
		}
		if next == nil || next.After(until.Add(grace)) {
			break
		}
		c.set(*next)
	}
	if !c.Now().Before(until) {
		return c.keep(c.Now())
	}
	c.set(until)
	_, err := t.Tick(ctx)
	return err
}

// Handler moves the clock by the seconds of a POST, which may be 0, and answers with its time.
func (c *Clock) Handler(t Ticker) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, err := c.answer(r, t)
		status, kind := http.StatusOK, "application/json"
		if err != nil {
			p := api.ProblemOf(err, r.URL.Path)
			answer, status, kind = p, p.Status, "application/problem+json"
		}
		body, _ := json.Marshal(answer) // it always marshals
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = w.Write(body) // a caller that is gone
	})
}

func (c *Clock) answer(r *http.Request, t Ticker) (any, error) {
	if r.Method != http.MethodPost {
		return nil, &pawl.Error{Code: pawl.CodeNotFound, Op: "advance", Message: "the clock is moved by POST"}
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, mostBody))
	if err != nil {
		return nil, err
	}
	var in struct {
		Seconds float64 `json:"seconds"`
	}
	if err := strictjson.Read(body, &in); err != nil {
		return nil, err
	}
	if in.Seconds < 0 || in.Seconds > most.Seconds() {
		return nil, pawl.Invalid("/seconds", "must be from 0 to %.0f", most.Seconds())
	}
	if in.Seconds > 0 {
		err = c.Advance(r.Context(), t, time.Duration(in.Seconds*float64(time.Second)))
	}
	return map[string]time.Time{"now": c.Now()}, err
}
