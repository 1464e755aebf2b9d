package client

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// maxChunk is how many bytes of a batch go into one request: well below the limit of a body.
const maxChunk = pawl.MaxBodyBytes / 2

// batch sends calls to the batch form of a verb. A batch that is too large for one request is
// sent as several: its calls are independent of each other.
func batch[C, V any](ctx context.Context, c *Client, verb api.Verb[C, V], calls []C) ([]pawl.Result[V], error) {
	name := verb.Batch
	if len(calls) > pawl.MaxItemsPerCall {
		return nil, &pawl.Error{Code: pawl.CodeInvalid, Op: name,
			Message: fmt.Sprintf("%d calls in one batch; at most %d are allowed", len(calls), pawl.MaxItemsPerCall)}
	}
	calls = pawl.Provenant(ctx, calls)
	out := make([]pawl.Result[V], len(calls))
	b := batcher[V]{c: c, r: request{route: api.RouteOf(name)}, out: out}
	var chunk []sealed
	size := 0
	for i := range calls {
		text, err := encode(calls[i])
		if err == nil && len(text) > pawl.MaxBodyBytes-64 {
			err = &pawl.Error{Code: pawl.CodeTooLarge, Op: name, Message: "the call alone is over what one request may have"}
		}
		if err != nil {
			out[i].Err = err
			continue
		}
		if size+len(text) > maxChunk && len(chunk) > 0 {
			b.send(ctx, chunk)
			chunk, size = nil, 0
		}
		chunk = append(chunk, sealed{i, text})
		size += len(text)
	}
	b.send(ctx, chunk)
	return b.answers()
}

// sealed is one call as JSON, with its index in the batch.
type sealed struct {
	at   int
	text []byte
}

type batcher[V any] struct {
	c        *Client
	r        request
	out      []pawl.Result[V]
	sent     int   // requests whose outcome was final
	requests int   // all requests, with those that were split and sent again
	lost     error // the error of the last request that was not answered
	none     bool  // the first request was not answered, so no call's outcome is known
}

// bounded lists the calls whose batches are bounded as a whole by what they make: one in parts would
// pass the bound.
var bounded = map[string]bool{api.CloneTasks.Batch: true, api.ForkTasks.Batch: true}

// send sends a request and stores the answers. A request that is refused as a whole for the
// content of one call is sent again in halves, until that call is alone.
func (b *batcher[V]) send(ctx context.Context, chunk []sealed) {
	if len(chunk) == 0 {
		return
	}
	texts := make([][]byte, len(chunk))
	for i := range chunk {
		texts[i] = chunk[i].text
	}
	b.c.keyed(ctx, &b.r, b.requests)
	b.requests++
	b.r.body = slices.Concat([]byte(`{"items":[`), bytes.Join(texts, []byte(",")), []byte(`]}`))
	var answer api.Results[V]
	err := b.c.do(ctx, b.r, &answer)
	code := pawl.CodeOf(err)
	switch {
	case err == nil && len(answer.Results) != len(chunk):
		err = &pawl.Error{Code: pawl.CodeInternal, Op: b.r.route.Name,
			Message: fmt.Sprintf("%d answers to %d calls", len(answer.Results), len(chunk))}
	case (code == pawl.CodeInvalid || code == pawl.CodeTooLarge && !bounded[b.r.route.Name]) && len(chunk) > 1:
		b.send(ctx, chunk[:len(chunk)/2])
		b.send(ctx, chunk[len(chunk)/2:])
		return
	}
	b.sent++
	if err != nil {
		b.refused(chunk, err)
		return
	}
	for i, r := range answer.Results {
		at := chunk[i].at
		switch {
		case r.Error != nil:
			b.out[at].Err = failed(&b.r, *r.Error, time.Duration(r.RetryAfterMS)*time.Millisecond)
		case r.Value != nil:
			b.out[at].Value = *r.Value
		}
	}
}

// refused stores the error of a request in each of its calls.
func (b *batcher[V]) refused(chunk []sealed, err error) {
	if e, ok := err.(*pawl.Error); ok && e.Code == pawl.CodeInvalid {
		for i := range e.Fields {
			e.Fields[i].Pointer = strings.TrimPrefix(e.Fields[i].Pointer, "/items/0")
		}
	} else {
		b.lost, b.none = err, b.none || b.sent == 1
	}
	for _, s := range chunk {
		b.out[s.at].Err = err
	}
}

// answers returns the answers of the batch. If its only request was not answered, it returns
// that request's error instead.
func (b *batcher[V]) answers() ([]pawl.Result[V], error) {
	if b.none && b.sent == 1 {
		return nil, b.lost
	}
	return b.out, nil
}
