package relay_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/relay"
)

// fakeSource is a Source whose events the test writes.
type fakeSource struct {
	mu     sync.Mutex
	events []pawl.Event
	more   chan struct{}
	epoch  int64
	start  int64 // of the epoch
	reads  int   // the most events that were read at once
}

func newFakeSource() *fakeSource { return &fakeSource{more: make(chan struct{})} }

// write adds an event of a task.
func (s *fakeSource) write(task, event string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := int64(len(s.events) + 1)
	s.events = append(
		s.events,
		pawl.Event{
			ID:        fmt.Sprintf("evt_%d", n),
			Position:  n,
			Epoch:     s.epoch,
			Namespace: "default",
			TaskType:  "t",
			TaskID:    task,
			Event:     event,
			CreatedAt: time.Unix(n, 0),
		},
	)
	close(s.more)
	s.more = make(chan struct{})
}

// newEpoch removes the events after a position and begins a new epoch.
func (s *fakeSource) newEpoch(position int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events, s.start = s.events[:position:position], position
	s.epoch++
	close(s.more)
	s.more = make(chan struct{})
}

func (s *fakeSource) ReadAt(_ context.Context, after pawl.FeedPosition, limit int) ([]pawl.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if after.Epoch != s.epoch {
		restart := pawl.FeedPosition{Epoch: s.epoch, Position: min(after.Position, s.start)}
		return nil, &pawl.Error{Code: pawl.CodeConflict, Reason: pawl.ReasonEpoch, Restart: &restart}
	}
	from := min(int(after.Position), len(s.events))
	s.reads = max(s.reads, limit)
	return s.events[from:min(from+limit, len(s.events))], nil
}

func (s *fakeSource) Check(ctx context.Context, at pawl.FeedPosition) error {
	_, err := s.ReadAt(ctx, at, 0)
	return err
}

func (s *fakeSource) WaitAt(ctx context.Context, after pawl.FeedPosition) error {
	for {
		s.mu.Lock()
		more, there := s.more, int64(len(s.events)) > after.Position || s.epoch != after.Epoch
		s.mu.Unlock()
		if there {
			return nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// fakeStore is a StateStore in memory.
type fakeStore struct {
	mu     sync.Mutex
	relays map[string]pawl.Relay
	down   bool
	slow   time.Duration // how long an answer of KeepRelay takes
}

func newFakeStore() *fakeStore { return &fakeStore{relays: map[string]pawl.Relay{}} }

var errDown = errors.New("the database does not answer")

func (b *fakeStore) TakeRelay(_ context.Context, sink, kind, holder string, ttl time.Duration) (pawl.Relay, bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.relays[sink]
	switch now := time.Now(); {
	case b.down:
		return r, false, errDown
	case r.DisabledAt != nil, r.Holder != "" && r.HeldUntil.After(now):
		return r, false, nil
	default:
		until := now.Add(ttl)
		r.Sink, r.Kind, r.Holder, r.HeldUntil = sink, kind, holder, &until
	}
	b.relays[sink] = r
	return r, true, nil
}

func (b *fakeStore) KeepRelay(ctx context.Context, r pawl.Relay, ttl time.Duration) (bool, error) {
	b.mu.Lock()
	defer func() { time.Sleep(b.takes()) }()
	defer b.mu.Unlock()
	if b.down || ctx.Err() != nil {
		return false, errDown
	}
	if b.relays[r.Sink].Holder != r.Holder {
		return false, nil
	}
	until := time.Now().Add(ttl)
	r.HeldUntil = &until
	if ttl == 0 {
		r.Holder, r.HeldUntil = "", nil
	}
	b.relays[r.Sink] = r
	return true, nil
}

func (b *fakeStore) takes() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.slow
}

// set changes how the store answers.
func (b *fakeStore) set(slow time.Duration, down bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.slow, b.down = slow, down
}

func (b *fakeStore) of(sink string) pawl.Relay {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.relays[sink]
}

// change changes a relay's state as another process would.
func (b *fakeStore) change(sink string, fn func(*pawl.Relay)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.relays[sink]
	fn(&r)
	b.relays[sink] = r
}

// fakeSink is a Sink that keeps the messages it accepts; answer decides which ones.
type fakeSink struct {
	mu              sync.Mutex
	accepted        []relay.Message
	answer          func(relay.Message) error // nil = everything is taken
	largestBatch    int
	sameTaskInBatch bool // a batch held two of one task
	batches         int
	closed          bool
}

func (s *fakeSink) Send(ctx context.Context, messages []relay.Message) []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batches++
	s.largestBatch = max(s.largestBatch, len(messages))
	seen := map[string]bool{}
	answers := make([]error, len(messages))
	for i, m := range messages {
		s.sameTaskInBatch = s.sameTaskInBatch || seen[m.Event.TaskID]
		seen[m.Event.TaskID] = true
		if s.answer != nil {
			answers[i] = s.answer(m)
		}
		if answers[i] == nil {
			s.accepted = append(s.accepted, m)
		}
	}
	return answers
}

func (s *fakeSink) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

func (s *fakeSink) set(answer func(relay.Message) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

func (s *fakeSink) ids() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []string
	for _, m := range s.accepted {
		ids = append(ids, m.Event.ID)
	}
	return ids
}

// waitUntil waits for a condition, for at most a minute or two.
func waitUntil(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for n := 0; !ok(); time.Sleep(50 * time.Millisecond) { // a look at a database costs more than what it waits for
		if n++; n == 1200 {
			t.Fatalf("never: %s", what)
		}
	}
}

// start runs a relay until stop, or the test's end.
func start(t *testing.T, o relay.Options) (stop func()) {
	t.Helper()
	if o.Lease == 0 {
		o.Lease = 600 * time.Millisecond
	}
	if o.Holder == "" {
		o.Holder = "here"
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- relay.Run(ctx, o) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("Run: %v", err)
			}
		})
	}
	t.Cleanup(stop)
	return stop
}
