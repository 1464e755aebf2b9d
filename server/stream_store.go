package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// streamConfig is the payload of a stream's task: what the stream was made with.
type streamConfig struct {
	Name        string      `json:"name"`
	ContentType string      `json:"content_type"`
	TTLSeconds  *int64      `json:"ttl_seconds,omitempty"`
	ExpiresAt   string      `json:"expires_at,omitempty"`
	Closed      bool        `json:"closed,omitempty"`
	Initial     int64       `json:"initial,omitempty"`   // chunks that it is made with: until they are there, it is not
	Inherited   int64       `json:"inherited,omitempty"` // those of them that are the source's
	Start       string      `json:"start,omitempty"`     // their digest: only a PUT with the same content writes them
	Fork        *streamFork `json:"fork,omitempty"`
}

// streamFork is where a fork left its source.
type streamFork struct {
	From   string `json:"from"`
	TaskID string `json:"task_id"`
	Offset string `json:"offset"`
	Sub    int64  `json:"sub_offset,omitempty"`
}

// streamMarks is the metadata of a stream's task: what changes later.
type streamMarks struct {
	UsedAt  *time.Time `json:"used_at,omitempty"`
	Deleted bool       `json:"deleted,omitempty"`
}

// clientStream is a stream that a client made.
type clientStream struct {
	streamConfig
	task    string
	used    time.Time
	deleted bool
}

func (c *streamConfig) isJSON() bool { return mediaType(c.ContentType) == "application/json" }

// streamHash is the input hash of a stream's task: a name has one task.
func streamHash(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:])
}

// streamFields are the fields of a task that say what its stream is.
var streamFields = []string{"id", "version", "payload", "metadata", "created_at"}

// findStream returns the stream of a name, also a deleted one that has forks; nil = there is none.
// One that has expired is removed, and so is a deleted one whose last fork went with its task.
func (s *server) findStream(ctx context.Context, name string) (*clientStream, error) {
	l, err := s.svc.ListTasks(ctx, pawl.TaskFilter{Types: []string{api.StreamType}, InputHash: streamHash(name),
		Fields: streamFields, Page: pawl.Page{Limit: 1}})
	if err != nil || len(l.Items) == 0 {
		return nil, err
	}
	st := streamOf(&l.Items[0])
	if st == nil || st.Name != name {
		return nil, nil
	}
	var version *int
	if !st.deleted {
		over, err := s.expired(ctx, st)
		if err != nil || !over {
			return st, err
		}
		version = &l.Items[0].Version
	}
	removed, err := s.removeStream(ctx, st, version)
	if errors.Is(err, pawl.ErrPrecondition) { // it was used meanwhile
		return s.findStream(ctx, name)
	}
	if errors.Is(err, pawl.ErrQuarantined) || errors.Is(err, pawl.ErrNotFound) {
		err = nil
	}
	if st.deleted && !removed {
		return st, err
	}
	return nil, err
}

// expired says whether a stream's time is over by the database's clock, which is read again before it is said.
func (s *server) expired(ctx context.Context, st *clientStream) (bool, error) {
	if st.TTLSeconds == nil && st.ExpiresAt == "" {
		return false, nil
	}
	now, err := s.clock.now(ctx, false)
	if err == nil && st.expired(now) {
		now, err = s.clock.now(ctx, true)
	}
	return err == nil && st.expired(now), err
}

// streamOf reads a stream's task; nil = it is none.
func streamOf(t *pawl.Task) *clientStream {
	st := &clientStream{task: t.ID, used: t.CreatedAt}
	var marks streamMarks
	if json.Unmarshal(t.Payload, &st.streamConfig) != nil || json.Unmarshal(t.Metadata, &marks) != nil {
		return nil
	}
	if marks.UsedAt != nil {
		st.used = *marks.UsedAt
	}
	st.deleted = marks.Deleted
	return st
}

// touchPart: an access is noted once this part of the time to live has passed since the last one
// that was noted, and the stream lives so much longer.
const touchPart = 8

func (c *clientStream) expired(now time.Time) bool {
	if c.TTLSeconds != nil {
		ttl := time.Duration(*c.TTLSeconds) * time.Second
		return !now.Before(c.used.Add(ttl + ttl/touchPart))
	}
	if c.ExpiresAt != "" {
		at, err := time.Parse(time.RFC3339, c.ExpiresAt)
		return err == nil && !now.Before(at)
	}
	return false
}

// touch notes an access to a stream with a time to live, which begins anew.
func (s *server) touch(ctx context.Context, st *clientStream) {
	if st == nil || st.TTLSeconds == nil {
		return
	}
	now, err := s.clock.now(ctx, false)
	if err == nil && now.Sub(st.used) < time.Duration(*st.TTLSeconds)*time.Second/touchPart {
		return
	}
	marks, _ := json.Marshal(streamMarks{UsedAt: &now}) // times always marshal
	if err == nil {
		_, err = one(s.svc.UpdateTasks(context.WithoutCancel(ctx), []pawl.TaskUpdate{{TaskID: st.task, Metadata: marks}}))
	}
	if err != nil && !errors.Is(err, pawl.ErrConflict) { // the time of a cancelled stream does not begin anew
		s.opts.Log.WarnContext(ctx, "an access to a stream is not noted", "task_id", st.task, "error", err)
	}
}

// streamThread is the thread of the messages of streams that are no forks: a task has one of it.
const streamThread = "pawl.streams"

// forkThread is the thread of the messages of forks of a stream.
func forkThread(task string) string { return "pawl.forks/" + task }

// removeStream deletes a stream. One that has forks is marked: its name stays taken until they are
// gone, and then it goes with the last of them. One that has expired is marked too, in the version that was read: who used
// it meanwhile keeps it. A stream whose task has ended, as by a cancel, is deleted at once.
func (s *server) removeStream(ctx context.Context, st *clientStream, version *int) (removed bool, err error) {
	forks, err := s.svc.ListMessages(ctx, pawl.MessageFilter{Thread: forkThread(st.task), Page: pawl.Page{Limit: 1}})
	if err != nil {
		return false, err
	}
	has := len(forks.Items) > 0
	if has && st.deleted {
		return false, nil
	}
	if has || version != nil {
		marks, _ := json.Marshal(streamMarks{Deleted: true}) // it always marshals
		_, err = one(s.svc.UpdateTasks(ctx, []pawl.TaskUpdate{{TaskID: st.task, Version: version, Metadata: marks}}))
		ended := errors.Is(err, pawl.ErrConflict) // an ended task takes no mark, and forks have their content themselves
		if err != nil && !ended {
			return false, err
		}
		if st.deleted = true; has && !ended {
			return false, nil
		}
	}
	if _, err = one(s.svc.DeleteTasks(ctx, []pawl.TaskCall{{TaskID: st.task, Force: true}})); err != nil {
		return false, err
	}
	s.writers.drop(st.task)
	if st.Fork == nil {
		return true, nil
	}
	source, err := s.svc.ListTasks(ctx, pawl.TaskFilter{IDs: []string{st.Fork.TaskID}, Fields: streamFields, Page: pawl.Page{Limit: 1}})
	if err != nil || len(source.Items) == 0 {
		return true, err
	}
	if from := streamOf(&source.Items[0]); from != nil && from.deleted {
		_, err = s.removeStream(ctx, from, nil)
	}
	return true, err
}

// streamRecord is the data of a chunk of a stream that a client made: a piece of what was
// appended, in the first of these forms that holds it.
type streamRecord struct {
	JSON  json.RawMessage `json:"json,omitempty"`
	Text  *string         `json:"text,omitempty"`
	Bytes []byte          `json:"bytes,omitempty"`
	Write *streamWrite    `json:"write,omitempty"` // in the first chunk of an append
}

// streamWrite says what an append was.
type streamWrite struct {
	Of       int    `json:"of"` // its chunks
	Seq      string `json:"seq,omitempty"`
	Producer string `json:"producer,omitempty"`
	Epoch    int64  `json:"epoch,omitempty"`
	N        int64  `json:"n,omitempty"`
	Closed   bool   `json:"closed,omitempty"`
}

// content returns what a record adds to the stream; nil = nothing.
func (r *streamRecord) content() []byte {
	switch {
	case r.JSON != nil:
		return r.JSON
	case r.Text != nil:
		return []byte(*r.Text)
	}
	return r.Bytes
}

// record reads a chunk.
func record(data json.RawMessage) (streamRecord, error) {
	var r streamRecord
	if err := json.Unmarshal(data, &r); err != nil {
		return r, &pawl.Error{Code: pawl.CodeInternal, Op: "stream", Message: "a chunk of a stream cannot be read", Err: err}
	}
	return r, nil
}

// chunk returns a record as a chunk.
func (r *streamRecord) chunk() pawl.Chunk {
	data, _ := json.Marshal(r) // its JSON was read as JSON
	return pawl.Chunk{Type: pawl.ChunkData, Data: data}
}

// streamOffset is a position in a stream, in the form of the protocol.
func streamOffset(epoch, chunk int64) string { return fmt.Sprintf("%016d_%016d", epoch, chunk) }

var offsetForm = regexp.MustCompile(`^([0-9]{16})_([0-9]{16})$`)

// parseOffset reads a position.
func parseOffset(text string) (epoch, chunk int64, err error) {
	if text == "-1" {
		return 0, 0, nil
	}
	m := offsetForm.FindStringSubmatch(text)
	if m == nil {
		return 0, 0, pawl.Invalid("/offset", "is not an offset that this server has given")
	}
	epoch, _ = strconv.ParseInt(m[1], 10, 64) // the pattern matches digits only
	chunk, _ = strconv.ParseInt(m[2], 10, 64)
	return epoch, chunk, nil
}

// streamWriters caches what is known of the streams that this server writes.
type streamWriters struct {
	mu sync.Mutex
	by map[string]*streamWriter
}

const streamWritersKept = 10_000

func (k *streamWriters) of(task string) *streamWriter {
	k.mu.Lock()
	defer k.mu.Unlock()
	w := k.by[task]
	if w == nil {
		if k.by == nil || len(k.by) >= streamWritersKept { // a writer that is in use goes on: another one has another token
			k.by = map[string]*streamWriter{}
		}
		w = &streamWriter{}
		k.by[task] = w
	}
	return w
}

func (k *streamWriters) drop(task string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.by, task)
}

// messageOf returns the message of a stream; "" = it is being made.
func (s *server) messageOf(ctx context.Context, st *clientStream) (string, error) {
	w := s.writers.of(st.task)
	if id := w.message.Load(); id != nil {
		return *id, nil
	}
	l, err := s.svc.ListMessages(ctx, pawl.MessageFilter{TaskID: st.task, Page: pawl.Page{Limit: 1}})
	if err != nil || len(l.Items) == 0 {
		return "", err
	}
	w.message.Store(&l.Items[0].ID)
	return l.Items[0].ID, nil
}
