package gate

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

// call is one request to an upstream.
type call struct {
	g     *Gate
	u     *upstream
	w     http.ResponseWriter
	r     *http.Request
	fence pawl.Fence
	at    place
	body  []byte

	digest  string // of the request
	key     string
	sending int   // its number, once it may be sent
	amount  int64 // that it may cost
}

// openSeconds is how long a request waits while an equal one is being sent.
const openSeconds = 30

// pass sends a request that changes nothing, and returns its answer.
func (c *call) pass(ctx context.Context) {
	res, err := c.g.reads.Do(c.request(ctx, ""))
	if err != nil {
		refuse(c.w, c.r, &pawl.Error{Code: pawl.CodeUnavailable, Op: "gate", Message: "the upstream " + c.u.name + " does not answer"})
		return
	}
	defer res.Body.Close()
	copyHeaders(c.w.Header(), res.Header)
	c.w.WriteHeader(res.StatusCode)
	stream(c.w, res.Body)
}

// request makes the request for the upstream.
func (c *call) request(ctx context.Context, key string) *http.Request {
	out, err := http.NewRequestWithContext(ctx, c.r.Method, c.u.address(c.at, c.r.URL.RawQuery), bytes.NewReader(c.body))
	if err != nil {
		out, _ = http.NewRequestWithContext(ctx, http.MethodGet, c.u.base.String(), http.NoBody) // its path is none: it is refused there
		return out
	}
	out.Header = c.u.passed(c.r.Header)
	copyHeaders(out.Header, c.u.headers)
	if key != "" && c.u.KeyHeader != "" {
		out.Header.Set(c.u.KeyHeader, key)
	}
	return out
}

// effect sends a request that changes something, once, or answers what was recorded.
func (c *call) effect(ctx context.Context) {
	c.identify()
	amount, err := c.u.price(c.r.Method, c.at, c.body)
	if c.amount = amount; err != nil {
		refuse(c.w, c.r, err)
		return
	}
	ask, err := c.changed(ctx)
	if err != nil {
		refuse(c.w, c.r, err)
		return
	}
	open := pawl.OpenEffectCall{ItemID: c.fence.ItemID, WorkerID: c.fence.WorkerID, Attempt: c.fence.Attempt, Name: c.name(), Key: c.key,
		RequestHash: c.digest, Repeatable: c.u.Repeatable, Approve: c.u.Approve || ask}
	if amount > 0 {
		open.Budget, open.Amount = c.u.Budget, amount
	}
	out, err := c.open(ctx, open)
	if err != nil && pawl.EffectOf(err) == "" {
		if now, who, lost := c.g.caller(c.r, false); lost != nil {
			err = lost
		} else if who != c.fence { // the database went back to a time before the claim that was remembered
			again := *c
			again.fence = who
			again.effect(now)
			return
		}
	}
	if e := pawl.EffectOf(err); e != "" && pawl.CodeOf(err) == pawl.CodeEffectUnknown && c.u.Probe != "" {
		if c.probe(ctx, e) {
			out, err = c.open(ctx, open)
		}
	}
	if err != nil {
		refuse(c.w, c.r, err)
		return
	}
	c.w.Header().Set(EffectHeader, out.ID)
	switch {
	case out.Send:
		c.send(ctx, out)
	case out.State == pawl.EffectDone:
		c.w.Header().Set(ReplayedHeader, "true")
		c.replay(ctx, out)
	case out.State == pawl.EffectWaiting:
		c.w.Header().Set("Location", "/v1/effects/"+out.ID)
		writeJSON(c.w, http.StatusAccepted, map[string]any{"id": out.ID, "state": out.State})
	case out.State == pawl.EffectFailed:
		refuse(c.w, c.r, &pawl.Error{Code: pawl.CodeForbidden, Op: "gate", EffectID: out.ID, Message: "effect " + out.ID + " was rejected"})
	default:
		refuse(c.w, c.r, &pawl.Error{Code: pawl.CodeConflict, Op: "gate", State: string(out.State), Allowed: []string{},
			Reason: pawl.ReasonEffectOpen, EffectID: out.ID, Message: "effect " + out.ID + " is being sent; ask again"})
	}
}

// open opens the effect for the gate, and waits while an equal request is being sent.
func (c *call) open(ctx context.Context, open pawl.OpenEffectCall) (out pawl.OpenedEffect, err error) {
	open.LeaseSeconds = c.g.Lease
	out, err = c.g.Ledger.OpenEffect(ctx, open)
	if err == nil && !out.Send && out.State == pawl.EffectOpen {
		open.WaitSeconds = openSeconds
		out, err = c.g.Ledger.OpenEffect(ctx, open)
	}
	return out, err
}

// name is the name of the effect: its upstream, method and path.
func (c *call) name() string {
	name := c.u.name + " " + c.r.Method + " " + c.at.shown()
	if runes := []rune(name); len(runes) > pawl.MaxEffectNameLen {
		name = string(runes[:pawl.MaxEffectNameLen])
	}
	return name
}

// identify sets the digest of the request and the key of the effect: what the caller says, or else the
// item, the request, and how many equal ones of this attempt were answered before. The caller's own
// idempotency key does not count: SDKs make a new one after a crash.
func (c *call) identify() {
	body := sha256.Sum256(c.body)
	c.digest = Digest(append([]string{c.u.name, c.r.Method, c.at.text, c.r.URL.RawQuery, hex.EncodeToString(body[:])}, c.at.differs()...)...)
	if c.key = c.r.Header.Get(KeyHeader); c.key != "" {
		return
	}
	c.key = KeyOf(c.fence.ItemID, c.digest, strconv.Itoa(c.mine().Answered(c.digest)))
}

// Digest is the SHA-256 of texts, hexadecimal. Where one ends and the next begins counts.
func Digest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// maxAttempts bounds the attempts that a process remembers.
const maxAttempts = 10_000

// mine returns what this process knows of the attempt's requests.
func (c *call) mine() *Requests {
	c.g.mu.Lock()
	defer c.g.mu.Unlock()
	who := attempt{c.fence.ItemID, c.fence.Attempt}
	mine := c.g.seen[who]
	if mine == nil {
		if len(c.g.seen) >= maxAttempts {
			oldest, at := attempt{}, clock.Now()
			for a, r := range c.g.seen {
				if r.last.Before(at) {
					oldest, at = a, r.last
				}
			}
			delete(c.g.seen, oldest)
		}
		mine = NewRequests(false)
		c.g.seen[who] = mine
	}
	mine.last = clock.Now()
	return mine
}

// changed reports whether a person is asked because of what earlier attempts have sent; see Requests.Changed.
func (c *call) changed(ctx context.Context) (bool, error) {
	if c.u.Changed == "new" || c.u.Approve {
		return false, nil
	}
	return c.mine().Changed(ctx, c.g.Ledger, Request{Fence: c.fence, Upstream: c.u.name, Key: c.key, Digest: c.digest})
}

// copyHeaders sets the headers of a request or an answer that are passed on, or the credentials of a request.
func copyHeaders(to, from http.Header) {
	var hop []string // what from says for its connection alone
	for _, names := range from["Connection"] {
		for name := range strings.SplitSeq(names, ",") {
			hop = append(hop, http.CanonicalHeaderKey(strings.TrimSpace(name)))
		}
	}
	for name, values := range from {
		if !slices.Contains(dropped, name) && !slices.Contains(hop, name) {
			to[name] = values
		}
	}
}

// stream copies an answer as it comes.
func stream(w http.ResponseWriter, from io.Reader) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if _, gone := w.Write(buffer[:n]); gone != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
		}
		if err != nil {
			return
		}
	}
}
