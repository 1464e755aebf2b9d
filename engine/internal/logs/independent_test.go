package logs_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/pawl-work/pawl"
)

// independent is a state of the log as a verifier reads it that has none of Pawl's code.
type independent struct {
	origin string
	tree   tlog.Tree
}

// opened checks the signature of a checkpoint and reads its three lines.
func opened(t *testing.T, text, publicKeys string) independent {
	t.Helper()
	var known []note.Verifier
	for _, line := range strings.Fields(publicKeys) {
		v, err := note.NewVerifier(line)
		if err != nil {
			t.Fatal(err)
		}
		known = append(known, v)
	}
	n, err := note.Open([]byte(text), note.VerifierList(known...))
	if err != nil {
		t.Fatalf("the signature: %v\n%s", err, text)
	}
	lines := strings.Split(n.Text, "\n")
	if len(lines) != 4 || lines[3] != "" || n.Sigs[0].Name != lines[0] {
		t.Fatalf("the checkpoint is %q, signed by %v", n.Text, n.Sigs)
	}
	out := independent{origin: lines[0]}
	if out.tree.N, err = strconv.ParseInt(lines[1], 10, 64); err != nil {
		t.Fatal(err)
	}
	root, err := base64.StdEncoding.DecodeString(lines[2])
	if err != nil || len(root) != tlog.HashSize {
		t.Fatal(lines[2], err)
	}
	copy(out.tree.Hash[:], root)
	return out
}

// public returns the signer's public keys.
func (c *logged) public() string {
	c.Helper()
	text, err := os.ReadFile(c.key + ".pub")
	c.ok(nil, err)
	return string(text)
}

func proofOf(p pawl.LogProof) (out tlog.RecordProof, err error) {
	for _, text := range p.Hashes {
		h, err := tlog.ParseHash(text)
		if err != nil {
			return nil, err
		}
		out = append(out, h)
	}
	return out, nil
}

// proves checks a proof with the leaf that it names.
func (v independent) proves(p pawl.LogProof) error {
	proof, err := proofOf(p)
	if err != nil {
		return err
	}
	leaf, err := tlog.ParseHash(p.Leaf)
	if err != nil {
		return err
	}
	return tlog.CheckRecord(proof, v.tree.N, v.tree.Hash, p.Index, leaf)
}

// leafOf hashes an event as docs/provenance.md says.
func leafOf(e pawl.Event, input, result string, stated []pawl.ProvenanceRecord) tlog.Hash {
	b := []byte{0, 1} // a leaf of RFC 6962; version 1 of the canonical form
	field := func(text string) {
		b = binary.BigEndian.AppendUint32(b, uint32(len(text)))
		b = append(b, text...)
	}
	attempt := ""
	if e.Attempt > 0 {
		attempt = strconv.Itoa(e.Attempt)
	}
	for _, text := range []string{"event", e.ID, "default", e.TaskID, e.ItemID, attempt, e.Event, e.FromState, e.ToState, e.TaskFrom, e.TaskTo,
		e.ActorType, e.ActorID, "", "", string(e.Data), string(e.Diff), "", strconv.FormatInt(e.CreatedAt.UnixMicro(), 10)} {
		field(text)
	}
	for _, value := range []string{input, result} {
		if value != "" {
			sum := sha256.Sum256([]byte(value))
			value = string(sum[:])
		}
		field(value)
	}
	for _, p := range stated {
		if p.EventID != e.ID {
			continue
		}
		for _, text := range []string{p.ID, p.ItemID, attempt, p.Verb, p.Scope, p.IdempotencyKey, p.AgentID, p.AgentName, p.AgentVersion, p.Model,
			p.RequestFingerprint, string(p.Extra)} {
			field(text)
		}
	}
	return sha256.Sum256(b)
}

// The log's checkpoints, proofs and leaves are what their standards say: a verifier with
// nothing but golang.org/x/mod/sumdb and docs/provenance.md accepts them.
func TestAnIndependentVerifierAcceptsTheLog(t *testing.T) {
	t.Parallel()
	eachSigned(t, func(t *testing.T, c *logged) {
		c.task = c.Create(pawl.NewTask{Type: "a", Items: make([]pawl.NewItem, 400)}) // more than a tile
		before := c.sign()
		one, err := pawl.Create(t.Context(), c.Service, pawl.NewTask{Type: "b", Payload: []byte(`{"n":1}`)})
		c.ok(one, err)
		ctx := pawl.WithProvenance(t.Context(), pawl.Provenance{AgentID: "a", AgentName: "n", AgentVersion: "1", Model: "m", IdempotencyKey: "k",
			RequestFingerprint: "f", Extra: []byte(`{"x":1}`)})
		c.ok(pawl.Complete(ctx, c.Service, c.Claim("b").Fence(), []byte(`1`)))
		after := c.sign()
		old, now := opened(t, before, c.public()), opened(t, after, c.public())
		if old.origin != now.origin || old.tree.N >= now.tree.N {
			t.Fatalf("%+v, then %+v", old, now)
		}
		list, err := c.Service.ListEvents(t.Context(), pawl.EventFilter{TaskID: one.ID, Asc: true})
		c.ok(nil, err)
		stated := need[pawl.List[pawl.ProvenanceRecord]](t)(c.Service.ListProvenance(t.Context(), pawl.ProvenanceFilter{TaskID: one.ID})).Items
		if len(stated) != 1 {
			t.Fatalf("provenance of %d calls", len(stated))
		}
		task, err := c.Engine.ProveTask(t.Context(), one.ID, pawl.Page{})
		c.ok(nil, err)
		if len(task.Proofs) != 3 || len(list.Items) != 3 || task.Checkpoint.Note != after {
			t.Fatalf("%d proofs of %d events", len(task.Proofs), len(list.Items))
		}
		values := [][2]string{{`{"n":1}`, ""}, {}, {"", `1`}}
		for i, p := range task.Proofs {
			proof, err := proofOf(p)
			c.ok(nil, err)
			leaf := leafOf(list.Items[i], values[i][0], values[i][1], stated)
			if err := tlog.CheckRecord(proof, now.tree.N, now.tree.Hash, p.Index, leaf); err != nil {
				t.Errorf("event %d, %+v: %v", i, list.Items[i], err)
			}
			other := list.Items[i]
			other.ActorID += "x"
			if err := tlog.CheckRecord(proof, now.tree.N, now.tree.Hash, p.Index, leafOf(other, values[i][0], values[i][1], stated)); err == nil {
				t.Error("another event is proved too")
			}
			if err := tlog.CheckRecord(proof, now.tree.N, now.tree.Hash, p.Index, leafOf(list.Items[i], "x", "y", stated)); err == nil {
				t.Error("another value is proved too")
			}
		}
		consistency, err := c.Engine.ProveLog(t.Context(), old.tree.N, now.tree.N)
		c.ok(nil, err)
		var proof tlog.TreeProof
		for _, text := range consistency.Hashes {
			h, err := tlog.ParseHash(text)
			c.ok(nil, err)
			proof = append(proof, h)
		}
		if err := tlog.CheckTree(proof, now.tree.N, now.tree.Hash, old.tree.N, old.tree.Hash); err != nil {
			t.Error(err)
		}
	})
}
