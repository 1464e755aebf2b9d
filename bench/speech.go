package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

// These constants say how fast a model writes, and how often its writer saves.
const (
	chunkEvery = 20 * time.Millisecond // 50 a second
	flushEvery = 100 * time.Millisecond
	settling   = time.Second // chunks before that are not measured
)

// words are the text of a message, one chunk each.
var words = []pawl.Words{"The ", "pawl ", "drops ", "into ", "each ", "tooth ", "as ", "it ", "passes, ", "and ", "the ", "wheel ",
	"cannot ", "turn ", "back. "}

// streamLoad is a number of messages that are written at once, each with readers that follow it.
type streamLoad struct {
	writer, reader *runningEngine
	streams        int
	readers        int           // per message
	rotate         time.Duration // how often a stream begins a new message; 0 = never
	start          time.Time
	lags           lags
	said           atomic.Int64
}

// lags counts the chunks by how many milliseconds after they were written they were read.
type lags struct{ ms [10_001]atomic.Int64 }

func (l *lags) add(d time.Duration) {
	l.ms[min(max(d.Milliseconds(), 0), int64(len(l.ms)-1))].Add(1)
}

// quantile returns a quantile in ms, by nearest rank.
func (l *lags) quantile(q float64) float64 {
	var all, seen int64
	for i := range l.ms {
		all += l.ms[i].Load()
	}
	for i := range l.ms {
		if seen += l.ms[i].Load(); all > 0 && float64(seen) >= q*float64(all) {
			return float64(i)
		}
	}
	return float64(len(l.ms))
}

// reply is an open message, and the lease and fence of its writer.
type reply struct {
	lease pawl.Lease
	fence pawl.MessageFence
}

func (s *streamLoad) begin(ctx context.Context, worker string) (r reply, err error) {
	t, err := pawl.Create(ctx, s.writer, pawl.NewTask{Type: taskOf, Reply: &pawl.Reply{}})
	if err != nil {
		return r, err
	}
	ls, err := s.writer.Claim(ctx, pawl.ClaimRequest{WorkerID: worker, TaskID: t.ID, LeaseSeconds: 86_400})
	if err != nil || len(ls) == 0 {
		return r, errors.Join(err, fmt.Errorf("claimed %d of 1", len(ls)))
	}
	return reply{ls[0], pawl.MessageFence{MessageID: ls[0].OpenMessage.ID, WorkerID: worker, Attempt: ls[0].Attempt}}, nil
}

// run has all streams write for a time.
func (s *streamLoad) run(ctx context.Context, takes time.Duration) error {
	first := make([]reply, s.streams)
	if _, err := many(callers, func(who int) error {
		for i := who; i < len(first); i += callers {
			var err error
			if first[i], err = s.begin(ctx, fmt.Sprintf("writer-%d", i)); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	runtime.GC()
	s.start = clock.Now()
	_, err := many(s.streams, func(i int) error { return s.stream(ctx, i, first[i], s.start.Add(takes)) })
	return err
}

// stream writes one conversation: one message or, with rotate, one after the other.
func (s *streamLoad) stream(ctx context.Context, i int, r reply, until time.Time) (err error) {
	turn := s.rotate * time.Duration(i+1) / time.Duration(s.streams) // for the first message: the streams do not all change at once
	sleep(ctx, time.Duration(i)*flushEvery/time.Duration(s.streams))
	for begun := clock.Now(); ; begun = clock.Now() {
		end := until
		if next := begun.Add(turn); s.rotate > 0 && next.Before(until) {
			end = next
		}
		if err := s.message(ctx, r, begun, end); err != nil || end == until {
			return err
		}
		if r, err = s.begin(ctx, r.fence.WorkerID); err != nil {
			return err
		}
		turn = s.rotate
	}
}

// message writes a message from begun to end, and has it read.
func (s *streamLoad) message(ctx context.Context, r reply, begun, end time.Time) error {
	var reading, here sync.WaitGroup
	failed := make([]error, s.readers)
	for n := range s.readers {
		here.Add(1)
		come := sync.OnceFunc(here.Done)
		reading.Go(func() {
			defer come()
			failed[n] = s.read(ctx, r.fence.MessageID, begun, come)
		})
	}
	here.Wait()
	err := s.writeChunks(ctx, r, begun, end)
	reading.Wait()
	return errors.Join(append(failed, err)...)
}

func (s *streamLoad) writeChunks(ctx context.Context, r reply, begun, end time.Time) error {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	offset := int64(0)
	for now := begun; now.Before(end) && ctx.Err() == nil; now = clock.Now() {
		<-tick.C
		call := pawl.AppendCall{MessageFence: r.fence, Offset: offset}
		for due := int64(clock.Now().Sub(begun) / chunkEvery); offset < due && len(call.Chunks) < pawl.MaxChunksPerCall; offset++ {
			call.Chunks = append(call.Chunks, pawl.Chunk{Type: pawl.ChunkText, Text: words[offset%int64(len(words))]})
		}
		if len(call.Chunks) == 0 {
			continue
		}
		if err := firstOf(s.writer.Append(ctx, []pawl.AppendCall{call})); err != nil {
			return err
		}
		s.said.Add(int64(len(call.Chunks)))
	}
	if err := firstOf(s.writer.FinishMessages(ctx, []pawl.FinishCall{{MessageFence: r.fence}})); err != nil {
		return err
	}
	_, err := pawl.Complete(ctx, s.writer, r.lease.Fence(), nil)
	return err
}

// read follows a message to its end.
func (s *streamLoad) read(ctx context.Context, id string, begun time.Time, come func()) error {
	next := int64(0)
	return s.reader.FollowMessage(ctx, id, -1, func(f pawl.MessageFrame) error {
		come()
		if len(f.Chunks) > 0 && f.Offset != next {
			return fmt.Errorf("chunk %d of %s came when %d was due", f.Offset, id, next)
		}
		next += int64(len(f.Chunks))
		now := clock.Now()
		for i := range f.Chunks {
			if said := begun.Add(time.Duration(f.Offset+int64(i)+1) * chunkEvery); said.Sub(s.start) > settling {
				s.lags.add(now.Sub(said))
			}
		}
		return nil
	})
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
