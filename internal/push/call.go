package push

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/relay/webhook"
)

var (
	errStopping = errors.New("the server stops")
	errOver     = errors.New("the item was cancelled, or the attempt has ended")
)

const (
	maxMessage = 500              // bytes of an answer that a failure has
	reportTime = 10 * time.Second // of a report, once the server stops
)

// call sends a claimed item, and reports what comes of it. held says that the callee goes on with the item.
func (p *Pusher) call(ctx context.Context, l *line, lease pawl.Lease) (held bool) {
	ctx = pawl.As(ctx, pawl.Caller{Namespace: p.o.Namespace, ActorType: pawl.ActorWorker, ActorID: p.worker})
	calling, stop := context.WithCancelCause(ctx)
	beating := make(chan struct{})
	p.renew(calling, stop, lease) // it has started from here on: if it is lost, that counts
	go func() {
		defer close(beating)
		for sleep(calling, p.beats) {
			p.renew(calling, stop, lease)
		}
	}()
	begun := clock.Now()
	status, body, after, err := post(calling, l, lease)
	cause := context.Cause(calling)
	stop(nil)
	<-beating
	if errors.Is(cause, errOver) {
		p.o.Log.Info("a call was stopped: its item was cancelled, or its attempt has ended", "item_id", lease.ID, "attempt", lease.Attempt)
		return false
	}
	ctx, done := reporting(ctx, lease)
	defer done()
	if errors.Is(cause, errStopping) && status != http.StatusAccepted {
		p.report(ctx, lease, "release", func() error {
			return first(p.o.Service.Release(ctx, []pawl.ReleaseCall{{Fence: lease.Fence()}}))
		})
		return false
	}
	l.circuit.note(err == nil && status < 500, begun, clock.Now())
	return p.settle(ctx, lease, status, body, after, err)
}

// reporting returns a context that ends when the lease must have run out, or some time after the server has begun to stop.
func reporting(ctx context.Context, lease pawl.Lease) (_ context.Context, done func()) {
	out, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(reportTime, time.Duration(lease.LeaseSeconds)*time.Second))
	watched := context.AfterFunc(ctx, func() { time.AfterFunc(reportTime, cancel) })
	return out, func() { watched(); cancel() }
}

// renew keeps the lease, and stops the call when it is of no use any more.
func (p *Pusher) renew(ctx context.Context, stop context.CancelCauseFunc, lease pawl.Lease) {
	rs, err := p.o.Service.Heartbeat(ctx, []pawl.HeartbeatCall{{Fence: lease.Fence()}})
	if err == nil && len(rs) == 1 {
		err = rs[0].Err
	}
	code := pawl.CodeOf(err)
	if code == pawl.CodeLeaseLost || code == pawl.CodeNotFound || code == pawl.CodeConflict || err == nil && rs[0].Value.Cancelled {
		stop(errOver)
	}
}

// post sends the item and reads the answer.
func post(ctx context.Context, l *line, lease pawl.Lease) (status int, body []byte, after time.Duration, err error) {
	item, err := json.Marshal(lease)
	if err != nil {
		return 0, nil, 0, err
	}
	header := http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + lease.Token}}
	if lease.TraceParent != "" {
		header.Set("Traceparent", lease.TraceParent)
	}
	if lease.TraceState != "" {
		header.Set("Tracestate", lease.TraceState)
	}
	res, err := l.poster.Post(ctx, lease.ID+"."+strconv.Itoa(lease.Attempt), item, header)
	if err != nil {
		return 0, nil, 0, err
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusAccepted { // the callee has the item, whatever becomes of the answer
		_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, pawl.MaxPayloadBytes)) // it may go on within the request
		return res.StatusCode, nil, 0, nil
	}
	body, err = io.ReadAll(io.LimitReader(res.Body, pawl.MaxPayloadBytes+1))
	return res.StatusCode, bytes.TrimSpace(body), webhook.RetryAfter(res.Header), err
}

// settle does what an answer says. 200 is the result, 202 means that the callee reports itself.
func (p *Pusher) settle(ctx context.Context, lease pawl.Lease, status int, body []byte, after time.Duration, err error) (held bool) {
	late := net.Error(nil)
	switch {
	case errors.As(err, &late) && late.Timeout() || errors.Is(err, context.DeadlineExceeded):
		p.fail(ctx, lease, pawl.Failure{Code: "timeout", Message: "the callee did not answer in time"}, true, 0)
	case err != nil:
		p.fail(ctx, lease, pawl.Failure{Code: "unreachable", Message: "the callee was not reached: " + err.Error()}, true, 0)
	case status == http.StatusAccepted:
		return true
	case status/100 == 2 && len(body) > pawl.MaxPayloadBytes:
		p.fail(ctx, lease, pawl.Failure{Code: "invalid_result", Message: "the answer is too large for a result"}, false, 0)
	case status/100 == 2 && len(body) > 0 && !json.Valid(body):
		p.fail(ctx, lease, pawl.Failure{Code: "invalid_result", Message: "the answer is no JSON"}, false, 0)
	case status/100 == 2:
		p.complete(ctx, lease, body)
	default:
		again := status >= 500 || status == http.StatusRequestTimeout || status == http.StatusTooEarly || status == http.StatusTooManyRequests
		message := fmt.Sprintf("the callee answered %d", status)
		if len(body) > 0 {
			message += ": " + string(body[:min(len(body), maxMessage)])
		}
		p.fail(ctx, lease, pawl.Failure{Code: "http_" + strconv.Itoa(status), Message: message}, again, after)
	}
	return false
}

// complete hands in a result. An item whose result needs acceptance is submitted.
func (p *Pusher) complete(ctx context.Context, lease pawl.Lease, result []byte) {
	if len(result) == 0 {
		result = []byte("null")
	}
	var refused *pawl.Error
	p.report(ctx, lease, "complete", func() error {
		err := first(p.o.Service.Complete(ctx, []pawl.CompleteCall{{Fence: lease.Fence(), Result: result}}))
		if errors.As(err, &refused) && refused.Code == pawl.CodeConflict && slices.Contains(refused.Allowed, "submit") {
			err = first(p.o.Service.Submit(ctx, []pawl.SubmitCall{{Fence: lease.Fence(), Result: result}}))
		}
		return err
	})
}

// fail fails the attempt.
func (p *Pusher) fail(ctx context.Context, lease pawl.Lease, why pawl.Failure, again bool, after time.Duration) {
	why.Message = strings.ReplaceAll(strings.ToValidUTF8(why.Message, "\uFFFD"), "\x00", "\uFFFD") // no other text is accepted
	call := pawl.FailCall{Fence: lease.Fence(), Error: why, Retryable: &again}
	if ms := after.Milliseconds(); again && ms > 0 {
		call.RetryAfterMS = &ms
	}
	p.report(ctx, lease, "fail", func() error { return first(p.o.Service.Fail(ctx, []pawl.FailCall{call})) })
}

// report reports an outcome, again while the database does not answer. An attempt that has ended
// meanwhile, because the callee reported itself or was late, stays as it is.
func (p *Pusher) report(ctx context.Context, lease pawl.Lease, verb string, do func() error) {
	for {
		err := do()
		code := pawl.CodeOf(err)
		var refused *pawl.Error
		switch {
		case err == nil:
			return
		case errors.As(err, &refused) && refused.Reason == pawl.ReasonEffectOpen:
			p.fail(ctx, lease, pawl.Failure{Code: pawl.ReasonEffectOpen, Message: refused.Message}, true, 0)
			return
		case code == pawl.CodeLeaseLost || code == pawl.CodeConflict || code == pawl.CodeNotFound:
			p.o.Log.Info("the attempt of a call has ended already", "item_id", lease.ID, "attempt", lease.Attempt, "error", err)
			return
		case code == pawl.CodeInvalid && verb != "fail":
			failure := pawl.FailureOf(err)
			failure.Code, failure.Message = "invalid_result", "the result was refused: "+failure.Message
			p.fail(ctx, lease, failure, false, 0)
			return
		case !code.Info().Retryable && code != pawl.CodeInternal || !sleep(ctx, claimAgain):
			p.o.Log.Warn("the outcome of a call could not be reported; its lease runs out", "item_id", lease.ID, "attempt", lease.Attempt,
				"verb", verb, "error", err)
			return
		}
	}
}

// first is the answer to a batch of one.
func first[R any](rs []pawl.Result[R], err error) error {
	if err == nil && len(rs) == 1 {
		err = rs[0].Err
	}
	return err
}
