package logs_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/translog"
)

// paid makes an effect of each end, and returns their ids by what became of them.
func (c *logged) paid() map[string]string {
	c.Helper()
	out := map[string]string{}
	ann := pawl.As(c.Context(), pawl.Caller{ActorType: pawl.ActorUser, ActorID: "ann"})
	c.Create(pawl.NewTask{Type: "pays"})
	l := c.Claim("pays")
	open := func(name string, approve bool) pawl.OpenedEffect {
		out, err := c.Service.OpenEffect(c.Context(), pawl.OpenEffectCall{ItemID: l.ID, WorkerID: l.WorkerID, Attempt: l.Attempt, Name: name,
			RequestHash: "sha256:" + name, Approve: approve})
		c.ok(nil, err)
		return out
	}
	report := func(_ pawl.EffectRecord, err error) { c.Helper(); c.ok(nil, err) }
	done := pawl.EffectDoneCall{ItemID: l.ID, WorkerID: l.WorkerID, Attempt: l.Attempt, Answer: []byte(`{"secret":"s3cr3t"}`)}
	unknown := pawl.EffectUnknownCall{ItemID: l.ID, WorkerID: l.WorkerID, Attempt: l.Attempt}

	out["done"] = open("approved", true).ID
	report(c.Service.ApproveEffect(ann, out["done"], pawl.EffectDecision{}))
	open("approved", true)
	ctx := pawl.WithProvenance(c.Context(), pawl.Provenance{AgentName: "research-bot", Model: "m-1"})
	report(c.Service.EffectDone(ctx, out["done"], done))

	out["failed"] = open("failed", false).ID
	report(c.Service.EffectFailed(c.Context(), out["failed"], pawl.EffectFailedCall{ItemID: l.ID, WorkerID: l.WorkerID, Attempt: l.Attempt,
		Error: pawl.Failure{Message: "no"}}))
	report(c.Service.EffectDone(c.Context(), out["failed"], done)) // it contradicts

	out["unknown"] = open("unknown", false).ID
	report(c.Service.EffectUnknown(c.Context(), out["unknown"], unknown))
	out["happened"] = open("happened", false).ID
	report(c.Service.EffectUnknown(c.Context(), out["happened"], unknown))
	report(c.Service.ResolveEffect(ann, out["happened"], pawl.ResolveEffectCall{Outcome: pawl.Happened, Answer: []byte(`1`)}))
	out["rejected"] = open("rejected", true).ID
	report(c.Service.RejectEffect(ann, out["rejected"], pawl.EffectDecision{}))
	out["open"] = open("open", false).ID
	return out
}

// A receipt says what became of an effect, and holds without the database.
func TestAReceiptHolds(t *testing.T) {
	t.Parallel()
	eachSigned(t, func(t *testing.T, c *logged) {
		ids := c.paid()
		if _, err := c.Service.EffectReceipt(t.Context(), ids["done"]); !errors.Is(err, pawl.ErrNotFound) {
			t.Errorf("before anything is signed: %v", err)
		}
		c.sign()
		keys := strings.Fields(c.public())
		for end, id := range ids {
			f := need[pawl.EffectRecord](t)(c.Service.GetEffect(t.Context(), id))
			r := need[pawl.EffectReceipt](t)(c.Service.EffectReceipt(t.Context(), id))
			file := need[[]byte](t)(json.Marshal(r))
			said, _, err := translog.VerifyReceipt(file, translog.Trust{Keys: keys})
			if err != nil {
				t.Fatalf("%s: %v\n%s", end, err, file)
			}
			if said.ID != id || said.State != f.State || said.RequestHash != f.RequestHash || said.AnswerHash != f.AnswerHash ||
				said.Sendings != f.Sendings || said.Contradicts != f.Contradicts || said.TaskID != f.TaskID || said.ItemID != f.ItemID {
				t.Errorf("%s: the receipt says %+v of %+v", end, said, f)
			}
			if (said.ApprovedBy != nil) != (end == "done") || (said.DecidedBy != nil) != (end == "happened" || end == "rejected") {
				t.Errorf("%s: approved by %+v, decided by %+v", end, said.ApprovedBy, said.DecidedBy)
			}
			if who := said.ApprovedBy; who != nil && who.ID != "ann" {
				t.Errorf("approved by %+v", who)
			}
			for _, e := range r.Events {
				leaf := need[[]byte](t)(base64.StdEncoding.DecodeString(e.Leaf))
				if bytes.Contains(append(leaf, file...), []byte("s3cr3t")) {
					t.Errorf("%s: the answer is in the receipt: %s, %s", end, file, leaf)
				}
			}
			if _, _, err := translog.VerifyReceipt(file, translog.Trust{Keys: otherKey(t)}); err == nil || errors.Is(err, translog.ErrUnreadable) {
				t.Errorf("with another key: %v", err)
			}
		}
		need[pawl.SweepStats](t)(c.Engine.Sweep(t.Context()))
		c.Advance(time.Hour)
		need[pawl.SweepStats](t)(c.Engine.Sweep(t.Context()))
		if f := need[pawl.EffectRecord](t)(c.Service.GetEffect(t.Context(), ids["open"])); f.State != pawl.EffectUnknown {
			t.Fatalf("the effect is %s", f.State)
		}
		r, err := c.Service.EffectReceipt(t.Context(), ids["open"])
		if err == nil && r.Effect.State != pawl.EffectUnknown || err != nil && !errors.Is(err, pawl.ErrNotFound) {
			t.Errorf("a receipt of what is not signed: %+v, %v", r.Effect, err)
		}
	})
}

// A receipt of which one member was changed does not hold, and text that is no JSON is unreadable.
func TestAChangedReceiptDoesNotHold(t *testing.T) {
	t.Parallel()
	eachSigned(t, func(t *testing.T, c *logged) {
		id := c.paid()["done"]
		c.sign()
		keys := strings.Fields(c.public())
		file := need[[]byte](t)(json.Marshal(need[pawl.EffectReceipt](t)(c.Service.EffectReceipt(t.Context(), id))))
		var whole any
		if err := json.Unmarshal(file, &whole); err != nil {
			t.Fatal(err)
		}
		changed := 0
		eachChange(whole, func(where string) {
			text := need[[]byte](t)(json.Marshal(whole))
			if _, _, err := translog.VerifyReceipt(text, translog.Trust{Keys: keys}); err == nil || errors.Is(err, translog.ErrUnreadable) {
				t.Errorf("with another %s: %v\n%s", where, err, text)
			}
			changed++
		})
		if changed < 100 {
			t.Errorf("only %d changes", changed)
		}
		for n := range file {
			if _, _, err := translog.VerifyReceipt(file[:n], translog.Trust{Keys: keys}); !errors.Is(err, translog.ErrUnreadable) {
				t.Fatalf("the first %d bytes: %v", n, err)
			}
		}
		twice := bytes.Replace(file, []byte(`{"format"`), []byte(`{"format":"x","format"`), 1)
		if _, _, err := translog.VerifyReceipt(twice, translog.Trust{Keys: keys}); err == nil {
			t.Error("a receipt with a member twice holds")
		}
	})
}

// eachChange changes every value in v once: it calls fn with the change in place, and takes it back.
func eachChange(v any, fn func(where string)) {
	switch v := v.(type) {
	case map[string]any:
		for name, was := range v {
			for _, other := range others(was) {
				v[name] = other
				fn(name)
			}
			delete(v, name)
			fn("no " + name)
			v[name] = was
			eachChange(was, fn)
		}
		v["more"] = "x"
		fn("more")
		delete(v, "more")
	case []any:
		for i, was := range v {
			for _, other := range others(was) {
				v[i] = other
				fn("entry of a list")
			}
			v[i] = was
			eachChange(was, fn)
		}
	}
}

// others are values that differ from one: of its kind and of another.
func others(was any) []any {
	switch was := was.(type) {
	case string:
		out := []any{was + "x", "", 7, nil, " " + was}
		if n := len(was); n > 0 {
			last := []byte(was)
			last[n-1] ^= 1
			first := []byte(was)
			first[0] ^= 1
			out = append(out, string(last), string(first), was[:n-1])
		}
		if at := strings.LastIndex(was, "="); at > 1 { // bits that the decoder of base64 ignores
			other := []byte(was)
			other[at-1]++
			out = append(out, string(other), was+"\n")
		}
		return out
	case bool:
		return []any{!was, nil}
	case float64:
		return []any{was + 1, -was - 1, "7", nil}
	case []any:
		return []any{append(was[:len(was):len(was)], was...), was[:len(was)-1], was[1:], "x", nil}
	}
	return []any{7, "x", nil}
}

func otherKey(t *testing.T) []string {
	t.Helper()
	path := t.TempDir() + "/key"
	if _, err := translog.OpenKey(path, "pawl/other", true); err != nil {
		t.Fatal(err)
	}
	return need[[]string](t)(translog.Public(path))
}

// A receipt outlives the archive of its task, and can be made again after the restoration.
func TestAReceiptOutlivesTheArchive(t *testing.T) {
	t.Parallel()
	eachSigned(t, func(t *testing.T, c *logged) {
		c.task = c.Create(pawl.NewTask{Type: "pays"})
		l := c.Claim("pays")
		open := pawl.OpenEffectCall{ItemID: l.ID, WorkerID: l.WorkerID, Attempt: l.Attempt, Name: "charge", Key: "order-7", RequestHash: "h"}
		opened := need[pawl.OpenedEffect](t)(c.Service.OpenEffect(t.Context(), open))
		need[pawl.EffectRecord](t)(c.Service.EffectDone(t.Context(), opened.ID, pawl.EffectDoneCall{ItemID: l.ID, WorkerID: l.WorkerID,
			Attempt: l.Attempt, Answer: []byte(`1`)}))
		c.ok(pawl.Complete(t.Context(), c.Service, l.Fence(), []byte(`1`)))
		c.sign()
		keys := strings.Fields(c.public())
		before := need[[]byte](t)(json.Marshal(need[pawl.EffectReceipt](t)(c.Service.EffectReceipt(t.Context(), opened.ID))))
		c.archiveOf()
		if _, err := c.Service.EffectReceipt(t.Context(), opened.ID); !errors.Is(err, pawl.ErrNotFound) {
			t.Errorf("the receipt of an archived task: %v", err)
		}
		if _, _, err := translog.VerifyReceipt(before, translog.Trust{Keys: keys}); err != nil {
			t.Errorf("the receipt that was kept: %v", err)
		}
		c.ok(c.Service.RestoreArchive(t.Context(), c.task.ID))
		c.sign()
		r := need[pawl.EffectReceipt](t)(c.Service.EffectReceipt(t.Context(), opened.ID))
		file := need[[]byte](t)(json.Marshal(r))
		if _, _, err := translog.VerifyReceipt(file, translog.Trust{Keys: keys}); err != nil || r.Effect.State != pawl.EffectDone {
			t.Errorf("after the restoration: %+v, %v", r.Effect, err)
		}
	})
}
