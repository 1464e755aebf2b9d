package engine

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/internal/idform"
	"github.com/pawl-work/pawl/store"
)

// tokens makes task tokens: item and attempt in clear text, and a MAC of them and of the
// namespace, made with the database's secret. Tokens are not stored: a token is valid as
// long as its lease.
type tokens struct {
	macs atomic.Pointer[sync.Pool] // of *tokenMAC; making one costs as much as using it twice
}

// tokenMAC makes one token at a time.
type tokenMAC struct {
	hash.Hash
	named []byte // what the MAC is of
	sum   []byte
}

// use replaces the secret. Tokens of another one are not valid any more.
func (t *tokens) use(secret string) {
	t.macs.Store(&sync.Pool{New: func() any { return &tokenMAC{Hash: hmac.New(sha256.New, []byte(secret))} }})
}

// readSecret reads the secret of the database.
func (e *Engine) readSecret(ctx context.Context) error {
	return e.db.View(forAll(ctx), func(ctx context.Context, tx store.Tx) error {
		secret, err := tokenSecret(ctx, tx)
		if err == nil {
			e.tokens.use(secret)
		}
		return err
	})
}

// DerivedSecret returns 32 bytes for a purpose, the same in every engine on this
// database. They reveal nothing about the database's own secret.
func (e *Engine) DerivedSecret(purpose string) []byte {
	macs := e.tokens.macs.Load()
	mac := macs.Get().(*tokenMAC)
	defer macs.Put(mac)
	mac.Reset()
	mac.Write([]byte("\x00derived\x00" + purpose)) // no task token begins with NUL
	return mac.Sum(nil)
}

const (
	tokenPrefix = "task_"
	itemPrefix  = "itm_"
	macBytes    = 16
)

// mac returns the code of a text that is no task token.
func (t *tokens) mac(text string) string {
	macs := t.macs.Load()
	mac := macs.Get().(*tokenMAC)
	defer macs.Put(mac)
	mac.Reset()
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil)[:macBytes])
}

// of returns the token of an item's attempt.
func (t *tokens) of(namespace, item string, attempt int) string {
	return string(t.add(nil, namespace, item, attempt))
}

// add appends the token of an item's attempt to b.
func (t *tokens) add(b []byte, namespace, item string, attempt int) []byte {
	macs := t.macs.Load()
	mac := macs.Get().(*tokenMAC)
	defer macs.Put(mac)
	begin := len(b)
	b = append(b, tokenPrefix...)
	b = append(b, strings.TrimPrefix(item, itemPrefix)...)
	b = append(b, '_')
	b = strconv.AppendInt(b, int64(attempt), 10)
	mac.named = append(append(append(mac.named[:0], b[begin:]...), 0), namespace...)
	mac.Reset()
	mac.Write(mac.named)
	mac.sum = mac.Sum(mac.sum[:0])
	return hex.AppendEncode(append(b, '_'), mac.sum[:macBytes])
}

// tokensOf returns the tokens of claimed items. They share one allocation.
func (t *tokens) tokensOf(namespace string, rows []store.Claimed) []string {
	ends := make([]int, len(rows))
	b := make([]byte, 0, 80*len(rows))
	for i := range rows {
		b = t.add(b, namespace, rows[i].ItemID, rows[i].Attempt)
		ends[i] = len(b)
	}
	text, out, begin := string(b), make([]string, len(rows)), 0
	for i, end := range ends {
		out[i], begin = text[begin:end], end
	}
	return out
}

// CheckToken returns the lease that a task token proves; see pawl.TokenReader.
func (e *Engine) CheckToken(ctx context.Context, token string) (pawl.TaskToken, error) {
	c := pawl.CallerOf(ctx)
	item, attempt, ok := tokenParts(token)
	if !ok || !hmac.Equal([]byte(token), []byte(e.tokens.of(c.Namespace, item, attempt))) {
		return pawl.TaskToken{}, &pawl.Error{
			Code:    pawl.CodeInvalid,
			Op:      "check token",
			Message: "this is no task token of this database and namespace",
		}
	}
	it, now, err := e.k.Item(ctx, item)
	if err == nil {
		err = rules.CheckFence(rules.Item(it), pawl.Fence{ItemID: item, WorkerID: it.LastWorkerID, Attempt: attempt}, now, "check token")
	}
	if err == nil {
		err = e.keyLasts(ctx, item)
	}
	if err != nil {
		return pawl.TaskToken{}, err
	}
	return pawl.TaskToken{
		TaskID:         it.TaskID,
		ItemID:         item,
		Namespace:      c.Namespace,
		Type:           it.Type,
		Key:            it.Key,
		WorkerID:       it.LastWorkerID,
		Attempt:        attempt,
		LeaseExpiresAt: stamp(it.LeaseExpires),
	}, nil
}

// tokenParts splits a token without verifying it.
func tokenParts(token string) (item string, attempt int, ok bool) {
	rest, ok := strings.CutPrefix(token, tokenPrefix)
	id, rest, two := strings.Cut(rest, "_")
	n, _, three := strings.Cut(rest, "_")
	attempt, err := strconv.Atoi(n)
	return itemPrefix + id, attempt, ok && two && three && err == nil && len(token) <= 128
}

// FindToken is CheckToken for a token of any namespace.
func (e *Engine) FindToken(ctx context.Context, token string) (pawl.TaskToken, error) {
	var ns string
	if item, _, ok := tokenParts(token); ok {
		if err := e.db.View(forAll(ctx), func(ctx context.Context, tx store.Tx) (err error) {
			ns, err = namespaceOfItem(ctx, tx, item)
			return err
		}); err != nil {
			return pawl.TaskToken{}, err
		}
	}
	t, err := e.CheckToken(pawl.As(ctx, pawl.Caller{Namespace: ns}), token)
	if err == nil {
		e.root.claimants.note(claimAttempt{ItemID: t.ItemID, N: t.Attempt}, tokenClaim{t.Namespace, t.WorkerID})
	}
	return t, err
}

// tokenClaim is who claimed an attempt.
type tokenClaim struct{ namespace, workerID string }

// ClaimOfToken returns the claim that a task token was made for, which need not be the current one any more: the caller's
// next call has a fence. It reads the claim with FindToken once, and then only verifies the token.
func (e *Engine) ClaimOfToken(ctx context.Context, token string) (pawl.TaskToken, error) {
	item, attempt, ok := tokenParts(token)
	if ok {
		c, known := e.root.claimants.of(claimAttempt{ItemID: item, N: attempt})
		if known && hmac.Equal([]byte(token), []byte(e.tokens.of(c.namespace, item, attempt))) {
			return pawl.TaskToken{ItemID: item, Namespace: c.namespace, WorkerID: c.workerID, Attempt: attempt}, nil
		}
	}
	return e.FindToken(ctx, token)
}

// HoldsLease refuses a claim that is not the current one, or is another API key's.
func (e *Engine) HoldsLease(ctx context.Context, f pawl.Fence) error {
	f = idform.Call(f)
	if err := e.ours(ctx, f); err != nil {
		return err
	}
	it, now, err := e.k.Item(ctx, f.ItemID)
	if err == nil {
		err = rules.CheckFence(rules.Item(it), f, now, "heartbeat")
	}
	return err
}

// ours refuses a lease that belongs to another API key.
func (e *Engine) ours(ctx context.Context, f pawl.Fence) error {
	others, err := e.leasesOfOtherKeys(ctx, pawl.CallerOf(ctx), []pawl.Fence{f})
	return cmp.Or(err, others[f])
}

// tokenSecret returns the secret that signs this database's task tokens. It was created
// with the schema, and changes only when a copy is adopted.
func tokenSecret(ctx context.Context, tx store.Tx) (string, error) {
	found, err := store.Strings(ctx, tx, placeSQL["secret"], "task tokens")
	if err == nil && len(found) != 1 {
		err = errors.New("the database has no secret for task tokens")
	}
	if err != nil {
		return "", err
	}
	return found[0], nil
}
