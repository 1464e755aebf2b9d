package gate

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
)

// Requests are what one attempt has sent through this process.
type Requests struct {
	last time.Time // when the attempt sent something last; guarded by the gate's lock

	mu       sync.Mutex
	answered map[string]int  // how many equal requests were answered, by their digest
	met      map[string]bool // the effects that the attempt has sent or got the answer of, by their key
	first    bool            // no earlier attempt at the item has an effect
	// before are the keys of all effects that earlier attempts have sent to a service, also of those that failed. They are
	// read once: earlier attempts send nothing any more.
	before map[string][]string
}

// NewRequests returns those of an attempt that has sent nothing. first says that no attempt was before it.
func NewRequests(first bool) *Requests {
	return &Requests{answered: map[string]int{}, met: map[string]bool{}, before: map[string][]string{}, first: first}
}

// Answered returns how many requests with a digest were answered.
func (r *Requests) Answered(digest string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.answered[digest]
}

// Count counts an answer that the attempt has got: the next equal request is another one.
func (r *Requests) Count(digest string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answered[digest]++
}

// Meet says that the attempt has sent the effect of a key: it is the counterpart of an earlier attempt's.
func (r *Requests) Meet(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.met[key] = true
}

// Request is a request to a service whose effect is not opened yet.
type Request struct {
	Fence    pawl.Fence
	Upstream string // the service: the names of its effects begin with it and a space
	Key      string
	Digest   string
}

// Changed reports whether no earlier attempt at the item has sent the request, while an effect that an earlier
// attempt has sent to the same service has no counterpart yet: the attempt has not sent that request. Then the
// request may be the same intention in other words, and a person is asked. What is known not to have happened
// needs no counterpart, and what was never sent neither. In a fork the effects of the original are earlier ones.
func (r *Requests) Changed(ctx context.Context, ledger pawl.EffectReader, q Request) (bool, error) {
	r.mu.Lock()
	first := r.first
	r.mu.Unlock()
	if first {
		return false, nil
	}
	same, err := ledger.ListEffects(ctx, pawl.EffectFilter{ItemID: q.Fence.ItemID, Key: q.Key})
	if err != nil {
		return false, err
	}
	if len(same.Items) > 0 {
		if same.Items[0].RequestHash == q.Digest { // another request under the key is refused, and is no counterpart
			r.Meet(q.Key)
		}
		return false, nil
	}
	if r.settled(q.Upstream) {
		return false, nil
	}
	sent, happened, some, err := earlier(ctx, ledger, q)
	if err != nil {
		return false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.first = !some // earlier attempts open no effects any more
	r.before[q.Upstream] = sent
	return slices.ContainsFunc(happened, func(key string) bool { return !r.met[key] }), nil
}

// settled reports whether each effect that earlier attempts have sent to a service is known, and has its counterpart.
func (r *Requests) settled(upstream string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, known := r.before[upstream]
	return known && !slices.ContainsFunc(before, func(key string) bool { return !r.met[key] })
}

// earlier returns the keys of effects that earlier attempts have sent to the service, and of those that may have happened,
// and whether earlier attempts have any effects.
func earlier(ctx context.Context, ledger pawl.EffectReader, q Request) (sent, happened []string, some bool, err error) {
	for cursor := ""; ; {
		list, err := ledger.ListEffects(ctx, pawl.EffectFilter{ItemID: q.Fence.ItemID, Page: pawl.Page{Limit: pawl.MaxPage, Cursor: cursor}})
		if err != nil {
			return nil, nil, false, err
		}
		for _, f := range list.Items {
			if f.Attempt >= q.Fence.Attempt {
				continue
			}
			some = true
			if f.Sendings == 0 && f.Source == "" || !strings.HasPrefix(f.Name, q.Upstream+" ") {
				continue
			}
			if sent = append(sent, f.Key); f.State != pawl.EffectFailed {
				happened = append(happened, f.Key)
			}
		}
		if cursor = list.Next; cursor == "" {
			return sent, happened, some, nil
		}
	}
}

// KeyOf is the key of an effect that has none of its own: of the item, so that a fork of its task finds the effects of
// the original, and of the request, the answered-th of equal ones.
func KeyOf(itemID, request, answered string) string { return itemID + "." + Digest(request, answered) }
