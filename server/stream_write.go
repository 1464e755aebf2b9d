package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/strictjson"
)

// streamAppend is what a client wants to append.
type streamAppend struct {
	records  []streamRecord
	kind     string // its content type; "" = not given
	seq      string
	producer string
	epoch, n int64
	closes   bool
}

func (a *streamAppend) closeOnly() bool { return a.closes && len(a.records) == 0 }

// appendDone is the answer to an append.
type appendDone struct {
	next     string
	seq      int64 // the highest that the producer was accepted with
	repeated bool
	closed   bool
}

// appendOf reads an append.
func appendOf(h http.Header, data []byte, st *clientStream) (*streamAppend, error) {
	a := &streamAppend{kind: h.Get("Content-Type"), seq: h.Get(headerSeq), closes: strings.EqualFold(h.Get(headerClosed), "true")}
	if err := a.producerOf(h); err != nil {
		return nil, err
	}
	switch {
	case len(data) == 0 && a.closes:
		return a, nil
	case len(data) == 0:
		return nil, pawl.Invalid("", "an append has a body")
	case a.kind == "":
		return nil, &pawl.Error{Code: pawl.CodeInvalid, Message: "Content-Type is required"}
	case mediaType(a.kind) != mediaType(st.ContentType):
		return a, nil // refused later, in the order of the protocol
	}
	var err error
	if a.records, err = recordsOf(data, st.isJSON()); err == nil && len(a.records) == 0 {
		err = pawl.Invalid("", "an empty list appends nothing")
	}
	return a, err
}

func (a *streamAppend) producerOf(h http.Header) error {
	given := 0
	for _, name := range []string{headerProducer, headerEpoch, headerProducerSeq} {
		if len(h.Values(name)) > 0 {
			given++
		}
	}
	if given == 0 {
		return nil
	}
	a.producer = h.Get(headerProducer)
	var err1, err2 error
	a.epoch, err1 = producerNumber(h.Get(headerEpoch))
	a.n, err2 = producerNumber(h.Get(headerProducerSeq))
	if given < 3 || a.producer == "" || err1 != nil || err2 != nil || len(a.producer) > pawl.MaxKeyLen || !plainText(a.producer) {
		return &pawl.Error{Code: pawl.CodeInvalid, Message: strings.Join([]string{headerProducer, headerEpoch, headerProducerSeq}, ", ") +
			" are given together: a name of 1 to 255 bytes, and two numbers from 0 to 2^53-1"}
	}
	return nil
}

func producerNumber(text string) (int64, error) {
	n, err := strconv.ParseUint(text, 10, 53)
	return int64(n), err
}

// streamPiece is how much of an append one chunk has: in any form it fits a chunk.
const streamPiece = 512 << 10

// recordsOf cuts a body into chunks: a JSON value each, or bytes.
func recordsOf(data []byte, isJSON bool) ([]streamRecord, error) {
	if isJSON {
		return valuesOf(data)
	}
	var out []streamRecord
	for len(data) > 0 {
		n := min(len(data), streamPiece)
		for n < len(data) && n > streamPiece-utf8.UTFMax && !utf8.RuneStart(data[n]) {
			n--
		}
		out = append(out, pieceOf(data[:n]))
		data = data[n:]
	}
	return out, nil
}

// pieceOf is bytes as text if they are.
func pieceOf(data []byte) streamRecord {
	if text := string(data); plainText(text) {
		return streamRecord{Text: &text}
	}
	return streamRecord{Bytes: data}
}

func valuesOf(data []byte) ([]streamRecord, error) {
	data = bytes.TrimSpace(data)
	if !json.Valid(data) {
		return nil, pawl.Invalid("", "is not JSON")
	}
	values := []json.RawMessage{data}
	if data[0] == '[' {
		_ = json.Unmarshal(data, &values) // a valid list
	}
	if len(values) > pawl.MaxChunksPerCall {
		return nil, &pawl.Error{Code: pawl.CodeTooLarge, Message: "an append has at most " + strconv.Itoa(pawl.MaxChunksPerCall) + " values"}
	}
	out := make([]streamRecord, len(values))
	for i, v := range values {
		if strictjson.Scan(v) == nil && !bytes.Contains(v, []byte(`\u`)) {
			out[i].JSON = v
		} else { // JSON that a message may not have: a name twice, U+0000, half a character
			var one bytes.Buffer
			_ = json.Compact(&one, v) // it is valid
			out[i].Bytes = one.Bytes()
		}
	}
	return out, nil
}

// streamWriter is what this server knows of a stream that it writes: the state up to a chunk. It
// may lag behind what other servers wrote; an append that is based on it is then refused by the
// message, whose offset has moved.
type streamWriter struct {
	message atomic.Pointer[string]

	mu        sync.Mutex // held while an append is made: the next one needs its state
	token     string
	at        int64
	epoch     int64
	seq       string
	producers map[string]producerState
	closed    bool // by a chunk
	ended     bool // the message has ended
}

type producerState struct{ epoch, last int64 }

func (w *streamWriter) forget() {
	w.token, w.at, w.seq, w.producers, w.closed, w.ended = "", 0, "", nil, false, false
}

// take adds a record to the state.
func (w *streamWriter) take(r *streamRecord, inherited int64) {
	w.at++
	if r.Write == nil || w.at <= inherited {
		return
	}
	if r.Write.Seq != "" {
		w.seq = r.Write.Seq
	}
	if r.Write.Producer != "" {
		if w.producers == nil {
			w.producers = map[string]producerState{}
		}
		w.producers[r.Write.Producer] = producerState{r.Write.Epoch, r.Write.N}
	}
	w.closed = w.closed || r.Write.Closed
}

// catchUp opens the message for this server, and reads what was written since.
func (s *server) catchUp(ctx context.Context, st *clientStream, w *streamWriter) error {
	if w.token == "" && !w.ended {
		open := pawl.OpenCall{TaskID: st.task, Role: pawl.RoleAssistant, Thread: streamThread, OnConflict: pawl.OnConflictReturn}
		if st.Fork != nil {
			open.Thread = forkThread(st.Fork.TaskID)
		}
		m, err := one(s.svc.OpenMessages(ctx, []pawl.OpenCall{open}))
		if err != nil {
			return err
		}
		w.message.Store(&m.ID)
		w.token, w.ended = m.Writer, m.Writer == ""
	}
	p, err := s.streamPage(pawl.InEpoch(ctx, w.epoch), *w.message.Load(), w.at, 0)
	if err == nil && p.epoch != w.epoch && w.at > 0 {
		err = pawl.Invalid("/after", "the database went back in time")
	}
	if errors.Is(err, pawl.ErrInvalid) && w.at > 0 {
		w.forget()
		return s.catchUp(ctx, st, w)
	}
	if err != nil {
		return err
	}
	w.epoch, w.ended = p.epoch, p.ended
	for _, c := range p.chunks {
		r, err := record(c.Data)
		if err != nil {
			return err
		}
		w.take(&r, st.Inherited)
	}
	if w.closed && !w.ended { // who closed it stopped in between
		return s.endStream(ctx, w)
	}
	return nil
}

// endStream ends the message of a closed stream.
func (s *server) endStream(ctx context.Context, w *streamWriter) error {
	fence := pawl.MessageFence{MessageID: *w.message.Load(), Writer: w.token}
	_, err := one(s.svc.FinishMessages(ctx, []pawl.FinishCall{{MessageFence: fence}}))
	w.ended = true
	if errors.Is(err, pawl.ErrConflict) { // another server did
		err = nil
	}
	return err
}

// appendTo makes an append.
func (s *server) appendTo(ctx context.Context, st *clientStream, a *streamAppend) (done appendDone, err error) {
	w := s.writers.of(st.task)
	w.mu.Lock()
	defer w.mu.Unlock()
	for fresh := w.at == 0 || w.token == ""; ; fresh = true {
		if fresh {
			if err := s.catchUp(ctx, st, w); err != nil {
				return done, err
			}
		}
		done, err := w.check(a, st)
		if w.at < st.Initial {
			done, err = appendDone{}, pawl.NotFound("stream", st.Name) // it is being made, and is not there for readers either
		}
		if err != nil || done.repeated {
			if !fresh {
				continue // others may have written since
			}
			return done, err
		}
		switch err := s.writeAppend(ctx, st, w, a); {
		case err == nil:
			done.next, done.closed = streamOffset(w.epoch, w.at), w.ended
			return done, nil
		case !errors.Is(err, pawl.ErrConflict):
			return done, err
		case ctx.Err() != nil:
			return done, ctx.Err()
		}
	}
}

// writeAppend writes the chunks of an append at the place that is known.
func (s *server) writeAppend(ctx context.Context, st *clientStream, w *streamWriter, a *streamAppend) error {
	records := a.records
	if len(records) == 0 {
		records = []streamRecord{{}}
	}
	records[0].Write = &streamWrite{Of: len(records), Seq: a.seq, Producer: a.producer, Epoch: a.epoch, N: a.n, Closed: a.closes}
	call := pawl.AppendCall{MessageFence: pawl.MessageFence{MessageID: *w.message.Load(), Writer: w.token}, Offset: w.at}
	for i := range records {
		call.Chunks = append(call.Chunks, records[i].chunk())
	}
	if _, err := one(s.svc.Append(ctx, []pawl.AppendCall{call})); err != nil {
		w.forget() // whether it was written is not certain, and a repeated append would look like this one
		return err
	}
	for i := range records {
		w.take(&records[i], st.Inherited)
	}
	if a.closes {
		return s.endStream(context.WithoutCancel(ctx), w)
	}
	return nil
}

// check decides what becomes of an append, by what is known of the stream.
func (w *streamWriter) check(a *streamAppend, st *clientStream) (done appendDone, err error) {
	done = appendDone{next: streamOffset(w.epoch, w.at), closed: w.closed || w.ended, seq: a.n}
	if a.producer != "" {
		if done.seq, done.repeated, err = w.checkProducer(a); err != nil || done.repeated {
			return done, err
		}
	}
	switch {
	case done.closed && a.closeOnly() && a.producer == "":
		done.repeated = true
	case done.closed:
		err = streamConflict("the stream is closed", map[string]string{headerClosed: "true", headerNextOffset: done.next})
	case !a.closeOnly() && mediaType(a.kind) != mediaType(st.ContentType):
		err = streamConflict("the stream's content type is "+st.ContentType, nil)
	case a.seq != "" && a.seq <= w.seq:
		err = streamConflict(headerSeq+" does not rise: the last one was "+w.seq, nil)
	}
	return done, err
}

// checkProducer compares the number of an append with the last one of its producer.
func (w *streamWriter) checkProducer(a *streamAppend) (highest int64, repeated bool, err error) {
	last, known := w.producers[a.producer]
	switch {
	case known && a.epoch < last.epoch:
		return 0, false, &streamRefusal{why: &pawl.Error{Code: pawl.CodeForbidden, Message: "the producer has begun a later epoch"},
			headers: map[string]string{headerEpoch: strconv.FormatInt(last.epoch, 10)}}
	case known && a.epoch > last.epoch && a.n != 0:
		return 0, false, &pawl.Error{Code: pawl.CodeInvalid, Message: "a new epoch begins with the number 0"}
	case known && a.epoch == last.epoch && a.n <= last.last:
		return last.last, true, nil
	}
	expected := int64(0)
	if known && a.epoch == last.epoch {
		expected = last.last + 1
	}
	if a.n != expected {
		return 0, false, streamConflict("appends of the producer are missing", map[string]string{
			headerExpectedSeq: strconv.FormatInt(expected, 10), headerReceivedSeq: strconv.FormatInt(a.n, 10)})
	}
	return a.n, false, nil
}
