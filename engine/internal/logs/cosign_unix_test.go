//go:build unix

package logs_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/translog"
)

// stubWitness is a witness that a test can make fail. The time of its cosignatures goes on.
type stubWitness struct {
	key, url string
	status   atomic.Int64 // that it answers with; 0 = it cosigns
	size     int64        // of what it has cosigned
}

func newStubWitness(t *testing.T, name string) *stubWitness {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key := append([]byte{4}, public...) // the type of cosignature/v1
	hash := sha256.Sum256(append([]byte(name+"\n"), key...))
	w := &stubWitness{key: fmt.Sprintf("%s+%x+%s", name, hash[:4], base64.StdEncoding.EncodeToString(key))}
	at := uint64(1_700_000_000)
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		head, note, _ := strings.Cut(string(body), "\n\n")
		text, _, _ := strings.Cut(note, "\n\n")
		var old, size int64
		_, bad := fmt.Sscanf(head, "old %d", &old)
		_, worse := fmt.Sscanf(strings.Split(text, "\n")[1], "%d", &size)
		switch status := int(w.status.Load()); {
		case bad != nil || worse != nil:
			rw.WriteHeader(http.StatusBadRequest)
			return
		case status != 0:
			rw.WriteHeader(status)
			return
		case old != w.size:
			rw.WriteHeader(http.StatusConflict)
			fmt.Fprintf(rw, "%d\n", w.size)
			return
		}
		w.size = size
		at++
		signature := binary.BigEndian.AppendUint64(hash[:4:4], at)
		signature = append(signature, ed25519.Sign(private, fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s\n", at, text))...)
		fmt.Fprintf(rw, "\u2014 %s %s\n", name, base64.StdEncoding.EncodeToString(signature))
	}))
	t.Cleanup(s.Close)
	w.url = s.URL
	return w
}

func (w *stubWitness) options(key string) engine.Options {
	return engine.Options{TransparencyLog: engine.LogOptions{Key: key, Witnesses: []engine.LogWitness{{Key: w.key, URL: w.url}}}}
}

func stubbed(t *testing.T, w *stubWitness, o engine.Options) *logged {
	o.TransparencyLog = w.options(withKey(t).TransparencyLog.Key).TransparencyLog
	return &logged{scene: &scene{T: t, Pawl: pawltest.OpenWith(t, pawltest.SQLite, o)}, key: o.TransparencyLog.Key}
}

// A witness signs the same checkpoint again, at another time, if its first cosignature was not stored. Two signatures
// of one key make the receipts of the checkpoint invalid.
func TestACosignatureThatWasNotStoredIsForgotten(t *testing.T) {
	w := newStubWitness(t, "w.example")
	var fail atomic.Pointer[context.CancelFunc]
	c := stubbed(t, w, engine.Options{Statement: func(query string) {
		if f := fail.Load(); f != nil && strings.Contains(query, "log_checkpoints") && strings.Contains(query, "INSERT") {
			(*f)()
		}
	}})
	effects := c.paid()
	c.sign()
	ctx, cancel := context.WithCancel(t.Context())
	fail.Store(&cancel)
	c.Engine.Cosign(ctx)
	fail.Store(nil)
	if ctx.Err() == nil {
		t.Fatal("nothing was to be stored")
	}
	c.Engine.Cosign(t.Context())
	trust := translog.Trust{Keys: strings.Fields(c.public()), Witnesses: []string{w.key}}
	for _, id := range effects {
		receipt, err := json.Marshal(need[pawl.EffectReceipt](t)(c.Engine.EffectReceipt(t.Context(), id)))
		c.ok(nil, err)
		if _, _, err := translog.VerifyReceipt(receipt, trust); err != nil {
			t.Errorf("the receipt of %s: %v", id, err)
		}
	}
}

// A database that was put back to where a witness has cosigned it is behind the checkpoint that is kept beside the key.
func TestAWitnessedLogThatWasPutBack(t *testing.T) {
	w := newStubWitness(t, "w.example")
	c := stubbed(t, w, engine.Options{})
	c.someEvents()
	var position, newest int64
	var detail string
	c.sign()
	c.Engine.Cosign(t.Context())
	c.read("SELECT position, detail FROM pawl.relay_cursors WHERE sink = 'feed'", &position, &detail)
	c.read("SELECT MAX(id) FROM pawl.task_events", &newest)
	c.ok(pawl.Complete(t.Context(), c.Service, c.Claim("a").Fence(), nil))
	c.sign()
	c.around("task_events", fmt.Sprintf("DELETE FROM pawl.task_events WHERE id > %d", newest),
		fmt.Sprintf("DELETE FROM pawl.log_runs WHERE first >= %d", position),
		fmt.Sprintf("DELETE FROM pawl.feed_pages WHERE page > %d", position),
		fmt.Sprintf("DELETE FROM pawl.log_checkpoints WHERE size > %d", position),
		fmt.Sprintf("UPDATE pawl.relay_cursors SET position = %d, detail = '%s' WHERE sink = 'feed'", position, detail))
	for name, trust := range map[string]*translog.Trust{"plain": nil, "witness": {Witnesses: []string{w.key}},
		"both": {Keys: strings.Fields(c.public()), Witnesses: []string{w.key}}} {
		v, err := c.Engine.VerifyLog(t.Context(), -1, trust)
		if c.ok(nil, err); v.Intact {
			t.Errorf("%s: the log is said to be intact", name)
		}
	}
}

// What one process has noted of a witness ends when the witness cosigns for another one. What it has refused stays
// refused while it does not answer.
func TestAWitnessThatCosignsIsInNoTrouble(t *testing.T) {
	w := newStubWitness(t, "w.example")
	c := stubbed(t, w, engine.Options{})
	c.someEvents()
	other := c.Another(w.options(c.key))
	c.sign()
	for _, status := range []int64{http.StatusUnprocessableEntity, http.StatusInternalServerError} {
		w.status.Store(status)
		c.Engine.Cosign(t.Context())
		if got := troubleOf(t, other); !strings.HasPrefix(got, "witness_refused") {
			t.Errorf("after %d: %q", status, got)
		}
	}
	w.status.Store(0)
	c.ok(c.Create(pawl.NewTask{Type: "c"}), nil)
	c.ok(nil, other.Log(t.Context()))
	c.ok(other.SignLog(t.Context()))
	other.Cosign(t.Context())
	if got := troubleOf(t, other); got != "" {
		t.Errorf("after its cosignature: %q", got)
	}
}
