package rabbitmq_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/testbroker"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/relay"
	relayrabbit "github.com/pawl-work/pawl/relay/rabbitmq"
	"github.com/pawl-work/pawl/worker"
	"github.com/pawl-work/pawl/worker/rabbitmq"
)

func TestMain(m *testing.M) { pawltest.Main(m) }

// testQueue is a RabbitMQ queue for one test.
type testQueue struct {
	*testing.T
	url, queue string
	ch         *amqp.Channel
}

func open(t *testing.T) *testQueue {
	p := &testQueue{T: t, url: testbroker.RabbitMQ(t), queue: "pawl-test-" + rand.Text()}
	conn := pawltest.Must[*amqp.Connection](t)(amqp.Dial(p.url))
	p.ch = pawltest.Must[*amqp.Channel](t)(conn.Channel())
	pawltest.Must[amqp.Queue](t)(p.ch.QueueDeclare(p.queue, true, false, false, false, nil))
	t.Cleanup(func() {
		_, _ = p.ch.QueueDelete(p.queue, false, false, false)
		_ = conn.Close()
	})
	return p
}

func (p *testQueue) send(body string) {
	p.Helper()
	if err := p.ch.PublishWithContext(p.Context(), "", p.queue, true, false,
		amqp.Publishing{Body: []byte(body), DeliveryMode: amqp.Persistent}); err != nil {
		p.Fatal(err)
	}
}

// left returns how many messages wait in the queue, without those in flight.
func (p *testQueue) left() int {
	p.Helper()
	return pawltest.Must[amqp.Queue](p.T)(p.ch.QueueDeclarePassive(p.queue, true, false, false, false, nil)).Messages
}

// drive runs a worker until stop.
func (p *testQueue) drive(svc rabbitmq.Service, handlers ...worker.Handler) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		o := rabbitmq.QueueOptions{Options: rabbitmq.Options{Pause: 50 * time.Millisecond}, URL: p.url, Queue: p.queue}
		done <- rabbitmq.Run(ctx, svc, o, func(ctx context.Context, c pawl.Claimer) error {
			return worker.RunWith(ctx, c, worker.Options{WaitSeconds: 1, Concurrency: 4}, handlers...)
		})
	}()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				p.Errorf("the worker: %v", err)
			}
		})
	}
	p.Cleanup(stop)
	return stop
}

// stopWhenEmpty ends a worker when every message has been acknowledged. A message that is in flight,
// or kept for a pause, returns to the queue when its worker has ended.
func (p *testQueue) stopWhenEmpty(stop func(), svc rabbitmq.Service, handler worker.Handler) {
	p.Helper()
	for range 50 {
		until(p.T, "the queue is empty", func() bool { return p.left() == 0 })
		stop()
		if p.left() == 0 {
			return
		}
		stop = p.drive(svc, handler)
	}
	p.Errorf("%d messages are never acknowledged", p.left())
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 6000 {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("never: %s", what)
}

// A worker runs exactly the items that messages name. A message that is delivered again after
// its item was done changes nothing and is acknowledged.
func TestMessagesNameTheWork(t *testing.T) {
	p, q := pawltest.OpenReal(t, pawltest.SQLite), open(t)
	var mu sync.Mutex
	runs := map[string]int{}
	handler := worker.Handle("a", func(ctx context.Context, in string) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		runs[in]++
		return in, nil
	})
	task := func(input string) pawl.Task {
		return p.Create(pawl.NewTask{Type: "a", Payload: json.RawMessage(`"` + input + `"`)})
	}
	first, unnamed, second := task("first"), task("unnamed"), task("second")
	item := pawltest.Must[pawl.List[pawl.Item]](t)(p.Engine.ListItems(t.Context(), pawl.ItemFilter{TaskID: second.ID})).Items[0]
	named := `{"task_id":"` + first.ID + `"}`
	q.send(named)
	q.send(named)
	q.send(`{"specversion":"1.0","id":"evt_1","data":{"namespace":"default","task_id":"` + second.ID + `","item_id":"` + item.ID + `"}}`)
	q.send(`{"task_id":"tsk_gone"}`)
	q.send(`no JSON`)
	q.send(`{"namespace":"elsewhere","task_id":"` + unnamed.ID + `"}`)
	stop := q.drive(p.Engine, handler)
	completed := func(x pawl.Task) bool {
		return pawltest.Must[pawl.Task](t)(p.Engine.GetTask(t.Context(), x.ID)).State == pawl.TaskCompleted
	}
	until(t, "what was named is done", func() bool { return completed(first) && completed(second) })
	q.send(named) // redelivered long after
	q.stopWhenEmpty(stop, p.Engine, handler)
	mu.Lock()
	defer mu.Unlock()
	if runs["first"] != 1 || runs["second"] != 1 || runs["unnamed"] != 0 {
		t.Errorf("runs: %v", runs)
	}
}

// A message stays until its item is done. It is delivered again while the item is retried, and
// when the worker ends in the middle.
func TestMessageComesAgainUntilItsItemHasEnded(t *testing.T) {
	p, q := pawltest.OpenReal(t, pawltest.SQLite), open(t)
	begun := make(chan struct{}, 10)
	left := errors.New("left in the middle")
	tries := 0
	var mu sync.Mutex
	handler := worker.Handle("a", func(ctx context.Context, _ json.RawMessage) (int, error) {
		mu.Lock()
		tries++
		n := tries
		mu.Unlock()
		switch n {
		case 1:
			return 0, pawl.RetryAfter(0, errors.New("once more"))
		case 2:
			begun <- struct{}{}
			<-ctx.Done()
			return 0, left
		}
		return n, nil
	})
	task := pawltest.Must[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "a"}))
	q.send(`{"task_id":"` + task.ID + `"}`)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		o := rabbitmq.QueueOptions{Options: rabbitmq.Options{Pause: 50 * time.Millisecond}, URL: q.url, Queue: q.queue}
		done <- rabbitmq.Run(ctx, p.Engine, o, func(ctx context.Context, c pawl.Claimer) error {
			return worker.RunWith(ctx, c, worker.Options{WaitSeconds: 1, StopGrace: -1}, handler)
		})
	}()
	<-begun
	cancel()
	if err := <-done; !errors.Is(err, worker.ErrGivenBack) {
		t.Errorf("the first worker ended with %v", err)
	}
	until(t, "the message is back", func() bool { return q.left() == 1 })
	stop := q.drive(p.Engine, handler)
	until(t, "the task is done", func() bool {
		return pawltest.Must[pawl.Task](t)(p.Engine.GetTask(t.Context(), task.ID)).State == pawl.TaskCompleted
	})
	q.stopWhenEmpty(stop, p.Engine, handler)
}

// This is the whole path: a task is committed, its event is published after that, and the
// message drives the worker that does it.
func TestCreationIsPublishedAfterCommitAndDone(t *testing.T) {
	p, q := pawltest.OpenReal(t, pawltest.SQLite), open(t)
	exchange := "pawl-test-" + rand.Text()
	if err := q.ch.ExchangeDeclare(exchange, "topic", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	defer q.ch.ExchangeDelete(exchange, false, false)
	if err := q.ch.QueueBind(q.queue, "default.a.proposed", exchange, false, nil); err != nil {
		t.Fatal(err)
	}
	sink := pawltest.Must[relay.Sink](t)(relayrabbit.New(relayrabbit.Options{URL: q.url, Exchange: exchange}))
	// A sink of all events would wait for a queue that takes `leased`, and hold `proposed` back.
	out := relay.SinkOptions{Name: "bus", Sink: sink, Events: []string{"proposed"}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- relay.Run(ctx, relay.Options{Source: p.Engine.Feed(), States: p.Engine, Holder: "here",
			Sinks: []relay.SinkOptions{out}})
	}()
	defer func() { cancel(); <-done }()
	handler := worker.Handle("a", func(ctx context.Context, in json.RawMessage) (json.RawMessage, error) { return in, nil })
	stop := q.drive(p.Engine, handler)
	var tasks []pawl.Task
	for range 20 {
		tasks = append(tasks, pawltest.Must[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "a"})))
	}
	for _, task := range tasks {
		until(t, task.ID+" is done", func() bool {
			return pawltest.Must[pawl.Task](t)(p.Engine.GetTask(t.Context(), task.ID)).State == pawl.TaskCompleted
		})
	}
	q.stopWhenEmpty(stop, p.Engine, handler)
}
