package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
)

// nameMessages names the messages of a task in the order in which they were created.
func (s *stage) nameMessages(f pawl.MessageFilter) ([]pawl.Message, error) {
	f.Limit = pawl.MaxPage
	list, err := s.svc.ListMessages(s.ctx, f)
	for _, m := range list.Items {
		s.name("message", m.ID)
	}
	return list.Items, err
}

func (s *stage) messageLine(m pawl.Message) string {
	out := fmt.Sprintf("%s %s %s", s.name("message", m.ID), m.Role, m.Status)
	if m.Offset > 0 || m.Status == pawl.MessageStreaming {
		out += fmt.Sprintf(", step %d of %d, offset %d", m.StepNumber, m.MaxSteps, m.Offset)
	}
	if m.Model != "" {
		out += ", model " + m.Model
	}
	if m.Usage != nil {
		out += ", usage " + string(m.Usage)
	}
	return out + ": " + string(m.Content)
}

func readMessage(s *stage, c call) (string, error) {
	m, err := s.svc.GetMessage(s.ctx, s.id(c.word(0)))
	if err != nil {
		return "", err
	}
	return s.messageLine(m), nil
}

func readMessages(s *stage, c call) (string, error) {
	list, err := s.nameMessages(pawl.MessageFilter{Thread: c.named["thread"], TaskID: s.id(c.named["task"])})
	var out strings.Builder
	for _, m := range list {
		fmt.Fprintln(&out, s.messageLine(m))
	}
	return out.String(), err
}

func beginMessage(s *stage, c call) (string, error) {
	m, err := first(
		s.svc.StartMessages(
			s.ctx,
			[]pawl.StartCall{{Fence: s.fence(c), Role: c.named["role"], Model: c.named["model"], MaxSteps: c.number("max_steps"),
				Content: c.raw("content")}},
		),
	)
	if err != nil {
		return "", err
	}
	return s.messageLine(m), nil
}

// writer returns (worker, message) with the attempt of the worker's last claim.
func (s *stage) writer(c call) (pawl.MessageFence, pawl.Message, error) {
	m, err := s.svc.GetMessage(s.ctx, s.id(c.word(1)))
	f := pawl.MessageFence{MessageID: m.ID, WorkerID: c.word(0), Attempt: max(1, s.claims[[2]string{c.word(0), m.ItemID}])}
	return f, m, err
}

// appendChunks appends each word as a chunk: a text, unless it is an object.
func appendChunks(s *stage, c call) (string, error) {
	f, m, err := s.writer(c)
	if err != nil {
		return "", err
	}
	call := pawl.AppendCall{MessageFence: f, Offset: m.Offset}
	if c.named["offset"] != "" {
		call.Offset = int64(c.number("offset"))
	}
	for _, word := range c.words[2:] {
		chunk := pawl.Chunk{Type: pawl.ChunkText, Text: pawl.Words(word)}
		if strings.HasPrefix(word, "{") {
			chunk = pawl.Chunk{}
			if err := json.Unmarshal([]byte(word), &chunk); err != nil {
				return "", err
			}
		}
		call.Chunks = append(call.Chunks, chunk)
	}
	a, err := first(s.svc.Append(s.ctx, []pawl.AppendCall{call}))
	return fmt.Sprintf("offset %d", a.Offset), err
}

func step(s *stage, c call) (string, error) {
	f, _, err := s.writer(c)
	if err != nil {
		return "", err
	}
	call := pawl.StepCall{MessageFence: f}
	if c.word(2) != "" {
		call.Snapshot = json.RawMessage(c.word(2))
	}
	ref, err := first(s.svc.StepMessages(s.ctx, []pawl.StepCall{call}))
	return fmt.Sprintf("number %d", ref.Sequence), err
}

func endMessage(s *stage, c call) (string, error) {
	f, _, err := s.writer(c)
	if err != nil {
		return "", err
	}
	m, err := first(s.svc.FinishMessages(s.ctx, []pawl.FinishCall{{MessageFence: f, Usage: c.raw("usage")}}))
	if err != nil {
		return "", err
	}
	return s.messageLine(m), nil
}

func stopMessage(s *stage, c call) (string, error) {
	m, err := first(s.svc.StopMessages(s.ctx, []pawl.StopCall{{MessageID: s.id(c.word(0)), Reason: c.named["reason"]}}))
	if err != nil {
		return "", err
	}
	return s.messageLine(m), nil
}

// reader is a client that follows a message.
type reader struct {
	message string
	leave   context.CancelFunc
	moved   chan struct{}

	mu    sync.Mutex
	lines []string // since the last read
	next  int64    // the number of the next chunk
	ended bool
	err   error
}

func (r *reader) add(f pawl.MessageFrame) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case f.Abandoned != nil:
		r.lines = append(r.lines, fmt.Sprintf("abandoned %d to %d of attempt %d", f.Abandoned.From, f.Abandoned.To-1, f.Abandoned.Attempt))
	case f.Snapshot != nil:
		r.lines = append(r.lines, "snapshot "+string(f.Snapshot.Content))
	case f.End != nil:
		r.lines = append(r.lines, fmt.Sprintf("end %s, offset %d", f.End.Status, f.End.Offset))
		r.ended = true
	}
	for i, c := range f.Chunks {
		text := string(c.Text)
		if c.Type != pawl.ChunkText {
			b, _ := json.Marshal(c) // it was read as JSON
			text = string(b)
		}
		r.lines = append(r.lines, fmt.Sprintf("%d %s", f.Offset+int64(i), text))
		r.next = f.Offset + int64(i) + 1
	}
	r.wake()
	return nil
}

func (r *reader) wake() {
	select {
	case r.moved <- struct{}{}:
	default:
	}
}

// frames returns the frames since the last read, once the whole message has arrived.
func (r *reader) frames(m pawl.Message) (lines []string, all bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if all = r.ended || r.next >= m.Offset && m.Status == pawl.MessageStreaming; all {
		lines, r.lines = r.lines, nil
	}
	return lines, all, r.err
}

func follow(s *stage, c call) (string, error) {
	ctx, leave := context.WithCancel(s.ctx)
	after := int64(-1)
	if c.named["after"] != "" {
		after = int64(c.number("after"))
	}
	r := &reader{message: s.id(c.word(1)), leave: leave, moved: make(chan struct{}, 1), next: after + 1}
	s.readers[c.word(0)] = r
	begun, svc := make(chan error, 2), s.svc
	go func() {
		err := svc.FollowMessage(ctx, r.message, after, func(f pawl.MessageFrame) error {
			if f.Chunks == nil && f.Abandoned == nil && f.Snapshot == nil && f.End == nil {
				begun <- nil
			}
			return r.add(f)
		})
		r.mu.Lock()
		r.err = err
		r.mu.Unlock()
		r.wake()
		begun <- err
	}()
	return "", <-begun
}

// readFrames waits until a reader has the whole message so far, and writes the new frames.
func readFrames(s *stage, c call) (string, error) {
	r := s.readers[c.word(0)]
	if r == nil {
		return "", errors.New("no reader " + c.word(0))
	}
	m, err := s.svc.GetMessage(s.ctx, r.message)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(s.ctx, 30*time.Second)
	defer cancel()
	for {
		lines, all, err := r.frames(m)
		switch {
		case all && len(lines) == 0:
			return "nothing", nil
		case all || err != nil:
			return strings.Join(lines, "\n"), err
		}
		select {
		case <-r.moved:
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

func stopFollowing(s *stage, c call) (string, error) {
	r := s.readers[c.word(0)]
	if r == nil {
		return "", errors.New("no reader " + c.word(0))
	}
	r.leave()
	return "", nil
}

// toServer sends the following commands to another server of the same database.
func toServer(s *stage, c call) (string, error) {
	n, err := strconv.Atoi(c.word(0))
	if err != nil || n < 1 {
		return "", errors.New("servers are numbered from 1")
	}
	for len(s.servers) < n {
		s.servers = append(s.servers, s.another())
	}
	s.svc = s.servers[n-1]
	return "", nil
}
