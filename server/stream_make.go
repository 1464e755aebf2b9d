package server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// createStream answers a PUT.
func (s *server) createStream(w http.ResponseWriter, r *http.Request) error {
	data, err := streamBody(r)
	if err != nil {
		return err
	}
	want, records, err := s.wanted(r, data)
	if err != nil {
		return err
	}
	ctx := r.Context()
	st, err := s.findStream(ctx, want.Name)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if st == nil {
		payload, _ := json.Marshal(want) // it always marshals
		task, err := one(s.svc.CreateTasks(ctx, []pawl.NewTask{{Type: api.StreamType, Title: titleOf(want.Name), Payload: payload,
			InputHash: streamHash(want.Name), RunAt: &pawl.Never}}))
		if err != nil {
			return err
		}
		if !task.Deduplicated {
			status = http.StatusCreated
		}
		if st = streamOf(&task); st == nil {
			return streamConflict("task "+task.ID+" has the name of the stream", nil)
		}
	}
	if st.deleted {
		return streamConflict("the stream was deleted; its name is free when its forks are gone", nil)
	}
	if !st.matches(want) {
		return streamConflict("the stream exists with another configuration", nil)
	}
	tail, err := s.fill(ctx, st, want, records)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", st.ContentType)
	h.Set(headerNextOffset, tail.next)
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	if tail.closed {
		h.Set(headerClosed, "true")
	}
	if status == http.StatusCreated {
		scheme := "http"
		if r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" {
			scheme = "https"
		}
		h.Set("Location", scheme+"://"+r.Host+strings.ReplaceAll(r.URL.EscapedPath(), "%2F", "/"))
	}
	w.WriteHeader(status)
	return nil
}

// titleOf is the name of a stream as the title of its task.
func titleOf(name string) string {
	for len(name) > pawl.MaxTitleLen || !utf8.ValidString(name) {
		name = name[:len(name)-1]
	}
	return name
}

// matches reports whether a stream has the configuration that is wanted. What it began with does not count.
func (c *clientStream) matches(want *streamConfig) bool {
	ttl := func(c *streamConfig) int64 {
		if c.TTLSeconds == nil {
			return -1
		}
		return *c.TTLSeconds
	}
	if mediaType(c.ContentType) != mediaType(want.ContentType) || ttl(&c.streamConfig) != ttl(want) || c.Closed != want.Closed ||
		(c.Fork == nil) != (want.Fork == nil) {
		return false
	}
	if c.ExpiresAt != want.ExpiresAt {
		had, err1 := time.Parse(time.RFC3339, c.ExpiresAt)
		has, err2 := time.Parse(time.RFC3339, want.ExpiresAt)
		if err1 != nil || err2 != nil || !had.Equal(has) {
			return false
		}
	}
	return c.Fork == nil || *c.Fork == *want.Fork
}

// fill writes what a stream begins with, unless it has it, and returns its end. Only the content that the stream was made
// with is written: a source may have grown since, and another client may ask for the same name.
func (s *server) fill(ctx context.Context, st *clientStream, want *streamConfig, records []streamRecord) (done appendDone, err error) {
	records = slices.Concat(records[:min(st.Inherited, want.Inherited)], records[want.Inherited:])
	sameStart := int64(len(records)) == st.Initial && (st.Start == "" || st.Start == startOf(records))
	w := s.writers.of(st.task)
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		if err := s.catchUp(ctx, st, w); err != nil {
			return done, err
		}
		if w.at >= st.Initial {
			return appendDone{next: streamOffset(w.epoch, w.at), closed: w.closed || w.ended}, nil
		}
		if !sameStart {
			return done, &pawl.Error{Code: pawl.CodeUnavailable, RetryAfter: time.Second,
				Message: "another client makes the stream, with other content; DELETE gives its name up"}
		}
		call := pawl.AppendCall{MessageFence: pawl.MessageFence{MessageID: *w.message.Load(), Writer: w.token}, Offset: w.at}
		for size, i := 0, w.at; i < int64(len(records)) && size < streamPageBytes && len(call.Chunks) < pawl.MaxChunksPerCall; i++ {
			c := records[i].chunk()
			size += len(c.Data)
			call.Chunks = append(call.Chunks, c)
		}
		if _, err := one(s.svc.Append(ctx, []pawl.AppendCall{call})); err != nil {
			w.forget()
			if !errors.Is(err, pawl.ErrConflict) {
				return done, err
			}
		}
	}
}

// wanted reads the stream that a PUT asks for, and what it begins with.
func (s *server) wanted(r *http.Request, data []byte) (*streamConfig, []streamRecord, error) {
	name, err := streamName(r)
	if err == nil && isMessage(name) {
		err = streamConflict("names that begin with msg_ are of messages", nil)
	}
	if err != nil {
		return nil, nil, err
	}
	h := r.Header
	c := &streamConfig{Name: name, ContentType: h.Get("Content-Type"), ExpiresAt: h.Get(headerExpiresAt),
		Closed: strings.EqualFold(h.Get(headerClosed), "true")}
	if err := c.lives(h); err != nil {
		return nil, nil, err
	}
	if len(c.ContentType) > pawl.MaxKeyLen {
		return nil, nil, pawl.Invalid("", "Content-Type has at most 255 bytes")
	}
	var inherited []streamRecord
	if h.Get(headerForkedFrom) != "" {
		if inherited, err = s.forkOf(r.Context(), h, c); err != nil {
			return nil, nil, err
		}
	} else if h.Get(headerForkSub) != "" || h.Get(headerForkOffset) != "" {
		return nil, nil, &pawl.Error{Code: pawl.CodeInvalid, Message: "a fork names its source in " + headerForkedFrom}
	}
	c.ContentType = cmp.Or(c.ContentType, "application/octet-stream")
	var own []streamRecord
	if len(data) > 0 {
		if own, err = recordsOf(data, c.isJSON()); err != nil {
			return nil, nil, err
		}
	}
	if len(own) == 0 && c.Closed {
		own = []streamRecord{{}}
	}
	if len(own) > 0 {
		own[0].Write = &streamWrite{Of: len(own), Closed: c.Closed}
	}
	all := append(inherited, own...)
	c.Initial, c.Start = int64(len(all)), startOf(all)
	return c, all, nil
}

// startOf is the digest of what a stream begins with; "" = nothing.
func startOf(records []streamRecord) string {
	if len(records) == 0 {
		return ""
	}
	text, _ := json.Marshal(records) // their JSON was read as JSON
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// lives reads how long a stream lives.
func (c *streamConfig) lives(h http.Header) error {
	if ttl := h.Get(headerTTL); len(h.Values(headerTTL)) > 0 {
		n, err := strconv.ParseInt(ttl, 10, 64)
		if err != nil || strconv.FormatInt(n, 10) != ttl || n < 0 || n > int64(pawl.MaxDelay/time.Second) {
			return &pawl.Error{Code: pawl.CodeInvalid, Message: headerTTL + " is a number of seconds, of at most ten years"}
		}
		c.TTLSeconds = &n
	}
	if len(h.Values(headerExpiresAt)) == 0 {
		return nil
	}
	if c.TTLSeconds != nil {
		return &pawl.Error{Code: pawl.CodeInvalid, Message: headerTTL + " and " + headerExpiresAt + " exclude each other"}
	}
	_, err := streamTime(c.ExpiresAt)
	return err
}

// forkOf reads what a fork has of its source, and completes its configuration.
func (s *server) forkOf(ctx context.Context, h http.Header, c *streamConfig) ([]streamRecord, error) {
	from := strings.TrimPrefix(strings.TrimPrefix(h.Get(headerForkedFrom), streamsPath), "/")
	source, err := s.findStream(ctx, from)
	switch {
	case err != nil:
		return nil, err
	case source == nil || isMessage(from):
		return nil, pawl.NotFound("stream", from)
	case source.deleted:
		return nil, streamConflict("the source was deleted", nil)
	case c.ContentType != "" && mediaType(c.ContentType) != mediaType(source.ContentType):
		return nil, streamConflict("the source's content type is "+source.ContentType, nil)
	}
	c.ContentType = cmp.Or(c.ContentType, source.ContentType)
	if c.TTLSeconds == nil && c.ExpiresAt == "" {
		c.TTLSeconds, c.ExpiresAt = source.TTLSeconds, source.ExpiresAt
	}
	id, err := s.messageOf(ctx, source)
	if err == nil && id == "" {
		err = pawl.NotFound("stream", from)
	}
	if err != nil {
		return nil, err
	}
	p, err := s.streamPage(ctx, id, 0, 0)
	if err != nil {
		return nil, err
	}
	c.Fork = &streamFork{From: from, TaskID: source.task, Offset: h.Get(headerForkOffset)}
	at := int64(len(p.chunks))
	if c.Fork.Offset != "" && c.Fork.Offset != "now" {
		if _, at, err = parseOffset(c.Fork.Offset); err != nil {
			return nil, err
		}
	}
	if at > int64(len(p.chunks)) {
		return nil, &pawl.Error{Code: pawl.CodeInvalid, Message: headerForkOffset + " is beyond the end of the source"}
	}
	sub, err := c.subOffset(h)
	if err != nil {
		return nil, err
	}
	return c.inherit(p.chunks, at, sub)
}

func (c *streamConfig) subOffset(h http.Header) (int64, error) {
	text := h.Get(headerForkSub)
	if len(h.Values(headerForkSub)) == 0 {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 54)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != text || n > 0 && c.Fork.Offset == "" {
		return 0, &pawl.Error{Code: pawl.CodeInvalid, Message: headerForkSub + " is a whole number, and is given with " + headerForkOffset}
	}
	c.Fork.Sub = n
	return n, nil
}

// inherit returns the source's records before a chunk, and of the append that begins there as many
// values, or bytes, as sub says. Producers and the end of the source are not inherited.
func (c *streamConfig) inherit(chunks []pawl.Chunk, at, sub int64) (out []streamRecord, err error) {
	for i, chunk := range chunks {
		r, err := record(chunk.Data)
		if err != nil {
			return nil, err
		}
		if int64(i) >= at && sub == 0 {
			break
		}
		if int64(i) > at && r.Write != nil { // the append has less
			break
		}
		if r.Write != nil {
			r.Write = &streamWrite{Of: r.Write.Of}
		}
		if int64(i) >= at {
			sub = r.cut(sub, c.isJSON())
		}
		out = append(out, r)
	}
	if sub > 0 {
		return nil, &pawl.Error{Code: pawl.CodeInvalid, Message: headerForkSub + " is more than the append there has"}
	}
	if int64(len(out)) > at { // the append that was cut is one of its own
		first := &out[at]
		first.Write = &streamWrite{Of: len(out) - int(at)}
	}
	c.Inherited = int64(len(out))
	return out, nil
}

// cut shortens a record to n bytes; a value of JSON counts as one. It returns what is left of n.
func (r *streamRecord) cut(n int64, isJSON bool) int64 {
	content := r.content()
	switch {
	case content == nil:
		return n
	case isJSON:
		return n - 1
	case int64(len(content)) <= n:
		return n - int64(len(content))
	}
	write := r.Write
	*r = pieceOf(content[:n])
	r.Write = write
	return 0
}
