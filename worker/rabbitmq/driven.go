// Package rabbitmq lets RabbitMQ say what a worker does: each message names an
// item or a task, and the worker claims exactly that. A message is acknowledged
// when there is nothing more to do about what it names: one that is delivered
// again after that does nothing.
package rabbitmq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/pawl-work/pawl"
)

// Service is what a driven worker needs of Pawl: an engine or a client.
type Service interface {
	pawl.Claimer
	pawl.TaskReader
	pawl.ItemReader
}

// Options steer Drive. The zero value is the default of each.
type Options struct {
	// Pause is how long a message is kept whose item cannot be had now (another
	// worker has it, or its time has not come) before it is put back; 0 = 5 s.
	Pause time.Duration
	// Log gets a line for a message that names nothing; nil = slog's default.
	Log *slog.Logger
}

// Drive is a pawl.Claimer for worker.Run whose claims take what deliveries name.
// The consumer of the deliveries must not acknowledge by itself; it bounds how
// many messages are under way (Qos): give it at least the worker's concurrency.
// When the deliveries end, claims find nothing any more: use Run to keep a
// connection.
func Drive(svc Service, deliveries <-chan amqp.Delivery, o Options) pawl.Claimer {
	if o.Pause <= 0 {
		o.Pause = 5 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &driven{Service: svc, o: o, deliveries: deliveries, held: map[pawl.Fence]amqp.Delivery{}}
}

type driven struct {
	Service
	o          Options
	deliveries <-chan amqp.Delivery

	mu   sync.Mutex
	held map[pawl.Fence]amqp.Delivery // of what is being done
}

// Claim implements pawl.Claimer: it waits for messages and claims what they name.
func (d *driven) Claim(ctx context.Context, req pawl.ClaimRequest) ([]pawl.Lease, error) {
	var leases []pawl.Lease
	limit := max(req.Limit, 1)
	waiting, cancel := context.WithTimeout(ctx, time.Duration(req.WaitSeconds)*time.Second)
	defer cancel()
	for len(leases) < limit {
		m, ok := d.next(waiting, len(leases) == 0 && req.WaitSeconds > 0)
		if !ok {
			break
		}
		lease, found, err := d.claim(ctx, req, m)
		if err != nil {
			_ = m.Nack(false, true)
			if len(leases) > 0 {
				break // the next call meets the error again
			}
			return nil, err
		}
		if found {
			leases = append(leases, lease)
		}
	}
	return leases, nil
}

func (d *driven) next(ctx context.Context, wait bool) (amqp.Delivery, bool) {
	select {
	case m, ok := <-d.deliveries:
		if ok || !wait {
			return m, ok
		}
		<-ctx.Done()
		return m, false
	default:
	}
	if !wait {
		return amqp.Delivery{}, false
	}
	select {
	case m, ok := <-d.deliveries:
		if !ok {
			<-ctx.Done()
		}
		return m, ok
	case <-ctx.Done():
		return amqp.Delivery{}, false
	}
}

// named is what a message names, in a CloudEvent of a relay or plainly.
type named struct {
	TaskID    string `json:"task_id"`
	ItemID    string `json:"item_id"`
	Namespace string `json:"namespace"`
	Data      *named `json:"data"`
}

// read says what a message names.
func read(body []byte) (named, error) {
	var n named
	if err := json.Unmarshal(body, &n); err != nil {
		return n, err
	}
	if n.Data != nil {
		n = *n.Data
	}
	if n.TaskID == "" && n.ItemID == "" {
		return n, errors.New("it names neither task nor item")
	}
	return n, nil
}

// claim takes what a message names. Where there is nothing to take, the message
// is settled.
func (d *driven) claim(ctx context.Context, req pawl.ClaimRequest, m amqp.Delivery) (pawl.Lease, bool, error) {
	n, err := read(m.Body)
	if mine := namespace(ctx); err == nil && n.Namespace != "" && n.Namespace != mine {
		err = fmt.Errorf("it is of the namespace %s, the worker of %s", n.Namespace, mine)
	}
	if err != nil {
		d.o.Log.WarnContext(ctx, "a message is refused", "message_id", m.MessageId, "error", err)
		return pawl.Lease{}, false, m.Nack(false, false)
	}
	req.TaskID, req.ItemID, req.Limit, req.WaitSeconds, req.Prefetch = n.TaskID, n.ItemID, 1, 0, false
	leases, err := d.Service.Claim(ctx, req)
	if err != nil && !errors.Is(err, pawl.ErrNotFound) {
		return pawl.Lease{}, false, err
	}
	if len(leases) == 0 {
		open, err := d.open(ctx, n)
		if err == nil {
			d.settle(m, open, d.o.Pause)
		}
		return pawl.Lease{}, false, err
	}
	d.mu.Lock()
	d.held[leases[0].Fence()] = m
	d.mu.Unlock()
	return leases[0], true, nil
}

func namespace(ctx context.Context) string {
	if ns := pawl.CallerOf(ctx).Namespace; ns != "" {
		return ns
	}
	return pawl.DefaultNamespace
}

// open says whether there is work to do, now or later, on what a message names.
func (d *driven) open(ctx context.Context, n named) (bool, error) {
	var status pawl.Status
	var err error
	if n.ItemID != "" {
		var i pawl.Item
		i, err = d.GetItem(ctx, n.ItemID)
		status = i.Status
		if i.State == pawl.ItemSubmitted || i.State == pawl.ItemAccepted {
			return false, err
		}
	} else {
		var t pawl.Task
		t, err = d.GetTask(ctx, n.TaskID)
		status = t.Status
		if t.State == pawl.TaskSubmitted || t.State == pawl.TaskApproved || t.State == pawl.TaskApplied {
			return false, err
		}
	}
	if errors.Is(err, pawl.ErrNotFound) {
		return false, nil
	}
	return status == pawl.StatusPending || status == pawl.StatusInProgress || status == pawl.StatusExpired, err
}

// settle acknowledges a message, or puts it back after a pause. What goes wrong
// is the connection's end: the broker then puts it back itself.
func (d *driven) settle(m amqp.Delivery, back bool, pause time.Duration) {
	switch {
	case !back:
		_ = m.Ack(false)
	case pause <= 0:
		_ = m.Nack(false, true)
	default:
		time.AfterFunc(pause, func() { _ = m.Nack(false, true) })
	}
}

// let settles the message of an attempt that is over.
func (d *driven) let(ctx context.Context, f pawl.Fence, pause time.Duration) {
	d.mu.Lock()
	m, ok := d.held[f]
	delete(d.held, f)
	d.mu.Unlock()
	if !ok {
		return
	}
	n, err := read(m.Body)
	open := true
	if err == nil {
		open, err = d.open(ctx, n)
	}
	d.settle(m, open || err != nil, pause)
}
