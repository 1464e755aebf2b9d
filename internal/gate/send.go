package gate

import (
	"context"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
)

// errOver says that an answer is over the gate's bound.
var errOver = errors.New("the upstream's answer is over the gate's limit")

// send sends the request of an opened effect, records what came of it, and then answers. It goes on when
// the caller is gone: what the upstream answers is recorded.
func (c *call) send(ctx context.Context, out pawl.OpenedEffect) {
	c.mine().Meet(c.key)
	c.sending = out.Sending
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.g.Timeout)
	defer Renew(ctx, c.g.Lease, func(ctx context.Context) { c.keep(ctx, out.ID) })()
	defer cancel()
	res, err := c.transmit(ctx, out.Key)
	if err != nil {
		c.notAnswered(ctx, out.ID, err)
		return
	}
	defer res.Body.Close()
	if kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); kind == "text/event-stream" && res.StatusCode < 300 {
		c.streamed(ctx, out.ID, res)
		return
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, c.g.MaxBody+1))
	if int64(len(body)) > c.g.MaxBody {
		err = errOver
	}
	switch status := res.StatusCode; {
	case err != nil:
		c.unknown(ctx, out.ID, err)
	case status >= 500 || status == http.StatusRequestTimeout:
		c.unknown(ctx, out.ID, errors.New("the upstream answered "+res.Status))
	case status >= 400:
		c.failed(ctx, out.ID, res, body)
	default:
		c.done(ctx, out.ID, res, body)
	}
}

// keep extends the gate's lease.
func (c *call) keep(ctx context.Context, id string) {
	call := pawl.KeepEffectCall{ItemID: c.fence.ItemID, WorkerID: c.fence.WorkerID, Attempt: c.fence.Attempt, LeaseSeconds: c.g.Lease}
	if _, err := c.g.Ledger.KeepEffect(ctx, id, call); err != nil && ctx.Err() == nil {
		c.g.Log.WarnContext(ctx, "the lease of a gate was not extended", "effect", id, "error", err)
	}
}

// Renew calls extend three times in the seconds of a lease, until the context ends. The function that it returns, which is
// called then, waits for a call that runs. Most effects end before the first call: until then there is no goroutine.
func Renew(ctx context.Context, seconds int, extend func(context.Context)) (wait func()) {
	every, ended := time.Duration(seconds)*time.Second/3, make(chan struct{})
	first := time.AfterFunc(every, func() {
		defer close(ended)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for ctx.Err() == nil {
			extend(ctx)
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	})
	return func() {
		if !first.Stop() {
			<-ended
		}
	}
}

// done records the answer and returns it.
func (c *call) done(ctx context.Context, id string, res *http.Response, body []byte) {
	answer, err := c.record(ctx, res, body)
	if err == nil {
		charge := Charge(ctx, c.g.Log, id, body, c.u.Charge, c.amount)
		err = c.report(ctx, func(ctx context.Context) error {
			_, err := c.g.Ledger.EffectDone(ctx, id, pawl.EffectDoneCall{ItemID: c.fence.ItemID, WorkerID: c.fence.WorkerID,
				Attempt: c.fence.Attempt, Sending: c.sending, Answer: answer, Amount: charge})
			return err
		})
	}
	if err != nil { // the effect happened, and nothing says so: its lease ends, and then it is unknown
		c.g.Log.ErrorContext(ctx, "the answer of an effect could not be recorded", "effect", id, "error", err)
		refuse(c.w, c.r, notRecorded(id))
		return
	}
	c.give(res.StatusCode, res.Header, body)
}

func notRecorded(id string) error {
	return &pawl.Error{Code: pawl.CodeEffectUnknown, Op: "gate", EffectID: id, State: string(pawl.EffectUnknown), Allowed: []string{"resolve"},
		Message: "what became of effect " + id + " could not be recorded"}
}

// failed records that the upstream has refused the request, and returns its answer.
func (c *call) failed(ctx context.Context, id string, res *http.Response, body []byte) {
	err := c.report(ctx, func(ctx context.Context) error {
		_, err := c.g.Ledger.EffectFailed(ctx, id, pawl.EffectFailedCall{ItemID: c.fence.ItemID, WorkerID: c.fence.WorkerID,
			Attempt: c.fence.Attempt, Sending: c.sending, Error: pawl.Failure{Code: "refused", Message: "the upstream answered " + res.Status}})
		return err
	})
	if err != nil {
		refuse(c.w, c.r, notRecorded(id))
		return
	}
	copyHeaders(c.w.Header(), res.Header)
	c.w.WriteHeader(res.StatusCode)
	_, _ = c.w.Write(body)
}

// notAnswered records a request without an answer: it failed if no byte can have left, else it is unknown.
func (c *call) notAnswered(ctx context.Context, id string, err error) {
	if !notSent(err) {
		c.unknown(ctx, id, bare(err))
		return
	}
	err = c.report(ctx, func(ctx context.Context) error {
		_, err := c.g.Ledger.EffectFailed(ctx, id, pawl.EffectFailedCall{ItemID: c.fence.ItemID, WorkerID: c.fence.WorkerID,
			Attempt: c.fence.Attempt, Sending: c.sending, Error: pawl.Failure{Code: "not_sent", Message: bare(err).Error()}})
		return err
	})
	if err != nil {
		refuse(c.w, c.r, notRecorded(id))
		return
	}
	writeJSON(c.w, http.StatusBadGateway, map[string]any{"id": id, "state": pawl.EffectFailed,
		"detail": "the upstream cannot be reached; nothing was sent"})
}

// notSent reports whether an error of a client says that no connection was made.
func notSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// bare is the error without the address of the request.
func bare(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// unknown records that it is not known whether the effect happened. A probe may find out.
func (c *call) unknown(ctx context.Context, id string, why error) {
	_ = c.report(ctx, func(ctx context.Context) error { // if it fails, the lease ends, and then it is unknown too
		_, err := c.g.Ledger.EffectUnknown(ctx, id, pawl.EffectUnknownCall{ItemID: c.fence.ItemID, WorkerID: c.fence.WorkerID,
			Attempt: c.fence.Attempt, Sending: c.sending, Error: &pawl.Failure{Code: "no_answer", Message: why.Error()}})
		return err
	})
	if why == errOver {
		writeJSON(c.w, http.StatusBadGateway, map[string]any{"id": id, "state": pawl.EffectUnknown, "detail": why.Error()})
		return
	}
	if c.u.Probe != "" && c.probe(ctx, id) {
		if f, err := c.g.Ledger.GetEffect(ctx, id); err == nil && f.State == pawl.EffectDone {
			c.replay(ctx, pawl.OpenedEffect{ID: f.ID, State: f.State, Answer: f.Answer})
			return
		}
	}
	refuse(c.w, c.r, &pawl.Error{Code: pawl.CodeEffectUnknown, Op: "gate", EffectID: id, State: string(pawl.EffectUnknown),
		Allowed: []string{"resolve"}, Message: "it is not known whether effect " + id + " happened: " + why.Error()})
}

// report sends a report until it is recorded, for as long as a gate's lease lasts.
func (c *call) report(ctx context.Context, send func(context.Context) error) error {
	return Report(ctx, time.Duration(c.g.Lease)*time.Second, send)
}

// Report sends a report until it is recorded or refused, for at most a time: also when ctx has ended.
func Report(ctx context.Context, within time.Duration, send func(context.Context) error) (err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
	defer cancel()
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		if err = send(ctx); err == nil || pawl.CodeOf(err) != pawl.CodeUnavailable {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// streamed passes a stream on and records it as sent.
func (c *call) streamed(ctx context.Context, id string, res *http.Response) {
	answer, err := recorded(res, nil)
	if err == nil {
		err = c.report(ctx, func(ctx context.Context) error {
			_, err := c.g.Ledger.EffectDone(ctx, id, pawl.EffectDoneCall{ItemID: c.fence.ItemID, WorkerID: c.fence.WorkerID,
				Attempt: c.fence.Attempt, Sending: c.sending, Answer: answer})
			return err
		})
	}
	if err != nil {
		refuse(c.w, c.r, notRecorded(id))
		return
	}
	copyHeaders(c.w.Header(), res.Header)
	c.w.WriteHeader(res.StatusCode)
	stream(c.w, res.Body)
	c.mine().Count(c.digest)
}

// probe asks the upstream by the effect's key whether it happened, and reports what it says: 2xx = it did,
// with that answer; 404 or 410 = it did not. It returns whether there is a report.
func (c *call) probe(ctx context.Context, id string) bool {
	f, err := c.g.Ledger.GetEffect(ctx, id)
	if err != nil || f.State != pawl.EffectUnknown {
		return false
	}
	at := strings.ReplaceAll(c.u.Probe, "{key}", url.PathEscape(f.Key))
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(c.u.base.String(), "/")+at, http.NoBody)
	if err != nil {
		return false
	}
	copyHeaders(r.Header, c.u.headers)
	res, err := c.g.reads.Do(r)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, c.g.MaxBody+1))
	if err != nil || int64(len(body)) > c.g.MaxBody {
		return false
	}
	sender := pawl.Fence{ItemID: f.ItemID, WorkerID: f.WorkerID, Attempt: f.Attempt}
	if f.ItemID == c.fence.ItemID { // who holds the lease may say what a probe has found out; the sender's API key may be another
		sender = c.fence
	}
	switch {
	case res.StatusCode >= 200 && res.StatusCode < 300:
		answer, err := c.record(ctx, res, body)
		if err == nil {
			_, err = c.g.Ledger.EffectDone(ctx, id, pawl.EffectDoneCall{ItemID: sender.ItemID, WorkerID: sender.WorkerID,
				Attempt: sender.Attempt, Answer: answer})
		}
		return err == nil
	case res.StatusCode == http.StatusNotFound || res.StatusCode == http.StatusGone:
		_, err := c.g.Ledger.EffectFailed(ctx, id, pawl.EffectFailedCall{ItemID: sender.ItemID, WorkerID: sender.WorkerID,
			Attempt: sender.Attempt, Error: pawl.Failure{Code: "probe", Message: "the upstream does not know the key: " + res.Status}})
		return err == nil
	}
	return false
}
