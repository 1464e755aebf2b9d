// Package rabbitmq drives a worker from a RabbitMQ queue: each message names an item or
// a task, and the worker claims exactly that. A message is acknowledged when its item
// or task needs no more work; a redelivery after that has no effect.
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

// Options configures Drive. The zero value works.
type Options struct {
	// Pause is how long a message is kept before it is requeued, if its item cannot be
	// claimed now (another worker holds it, or it is not due); 0 = 5 s.
	Pause time.Duration
	// Log gets a line for a message without a task or item; nil = slog's default.
	Log *slog.Logger
}

// Drive returns a pawl.Claimer for worker.Run that claims the items that deliveries
// name. The consumer must not use automatic acknowledgement. Its prefetch count (Qos)
// bounds the messages in flight: set it to at least the worker's concurrency. When
// the deliveries end, claims find nothing any more: use Run to reconnect.
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
	held map[pawl.Fence]amqp.Delivery // of the claimed items
}

// Claim implements pawl.Claimer: it waits for messages and claims the items they name.
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
				break // the next call gets the error again
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

// messageBody is the body of a message: a CloudEvent of a relay, or these fields alone.
type messageBody struct {
	TaskID    string       `json:"task_id"`
	ItemID    string       `json:"item_id"`
	Namespace string       `json:"namespace"`
	Data      *messageBody `json:"data"`
}

// readBody decodes a message.
func readBody(body []byte) (messageBody, error) {
	var n messageBody
	if err := json.Unmarshal(body, &n); err != nil {
		return n, err
	}
	if n.Data != nil {
		n = *n.Data
	}
	if n.TaskID == "" && n.ItemID == "" {
		return n, errors.New("the message has neither task_id nor item_id")
	}
	return n, nil
}

// claim claims what a message names. If there is nothing to claim, it acknowledges or
// requeues the message.
func (d *driven) claim(ctx context.Context, req pawl.ClaimRequest, m amqp.Delivery) (pawl.Lease, bool, error) {
	n, err := readBody(m.Body)
	if mine := namespace(ctx); err == nil && n.Namespace != "" && n.Namespace != mine {
		err = fmt.Errorf("the message is of namespace %s, the worker of namespace %s", n.Namespace, mine)
	}
	if err != nil {
		d.o.Log.WarnContext(ctx, "message rejected", "message_id", m.MessageId, "error", err)
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
			d.settleMessage(m, open, d.o.Pause)
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

// open reports whether what a message names needs work, now or later.
func (d *driven) open(ctx context.Context, n messageBody) (bool, error) {
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

// settleMessage acknowledges a message, or requeues it after a pause. An error means that the
// connection has ended; the broker then requeues the message itself.
func (d *driven) settleMessage(m amqp.Delivery, requeue bool, pause time.Duration) {
	switch {
	case !requeue:
		_ = m.Ack(false)
	case pause <= 0:
		_ = m.Nack(false, true)
	default:
		time.AfterFunc(pause, func() { _ = m.Nack(false, true) })
	}
}

// settleAttempt acknowledges or requeues the message of an attempt that is over.
func (d *driven) settleAttempt(ctx context.Context, f pawl.Fence, pause time.Duration) {
	d.mu.Lock()
	m, ok := d.held[f]
	delete(d.held, f)
	d.mu.Unlock()
	if !ok {
		return
	}
	n, err := readBody(m.Body)
	open := true
	if err == nil {
		open, err = d.open(ctx, n)
	}
	d.settleMessage(m, open || err != nil, pause)
}
