package mcp_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/pawltest"
)

// say appends words to an item's open message.
func say(t *testing.T, p *pawltest.Pawl, l pawl.Lease, offset int64, words string) {
	t.Helper()
	rs, err := p.Service.Append(t.Context(), []pawl.AppendCall{{MessageFence: pawl.MessageFence{MessageID: l.OpenMessage.ID,
		WorkerID: l.WorkerID, Attempt: l.Attempt},
		Offset: offset, Chunks: []pawl.Chunk{{Type: pawl.ChunkText, Text: pawl.Words(words)}}}})
	if err != nil || rs[0].Err != nil {
		t.Fatal(err, rs)
	}
}

// conversation is a task whose item answers what a user said.
func conversation(t *testing.T, p *pawltest.Pawl) pawl.Lease {
	t.Helper()
	if _, err := pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "chat",
		Messages: []pawl.NewMessage{{Role: pawl.RoleUser, Content: json.RawMessage(`"What is a pawl?"`)}}, Reply: &pawl.Reply{}}); err != nil {
		t.Fatal(err)
	}
	ls, err := p.Service.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "w"})
	if err != nil || len(ls) != 1 || ls[0].OpenMessage == nil {
		t.Fatalf("%+v, %v", ls, err)
	}
	return ls[0]
}

// What is being said about a task is read with it, as far as it is.
func TestTheMessageSoFar(t *testing.T) {
	each(t, pawl.Hooks{}, func(a agent) {
		l := conversation(a.T, a.p)
		for n, want := range []string{"A pawl ", "A pawl keeps a ratchet "} {
			say(a.T, a.p, l, int64(n), []string{"A pawl ", "keeps a ratchet "}[n])
			for _, about := range []args{{"task_id": l.TaskID}, {"item_id": l.ID}} {
				said := a.ok("work_get", about).Messages
				if len(said) != 2 || said[0].Text() != "What is a pawl?" || said[1].Text() != want || said[1].Status != pawl.MessageStreaming {
					a.Fatalf("%v: %+v", about, said)
				}
			}
		}
		rs, err := a.p.Service.FinishMessages(a.Context(), []pawl.FinishCall{{MessageFence: pawl.MessageFence{MessageID: l.OpenMessage.ID,
			WorkerID: "w", Attempt: 1}}})
		if err != nil || rs[0].Err != nil {
			a.Fatal(err, rs)
		}
		if said := a.ok("work_get", args{"task_id": l.TaskID}).Messages; said[1].Status != pawl.MessageComplete {
			a.Errorf("ended, it is %s", said[1].Status)
		}
	})
}

// Words are payloads.
func TestWordsAreHiddenFromKeys(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		g := guard(t, p, access.Options{})
		l := conversation(t, p)
		say(t, p, l, 0, "secret")
		for c, secret := range map[rpc]bool{g.holds("reader"): false, g.holds("reader", "approver"): true} {
			if r := c.must("work_get", args{"task_id": l.TaskID}); strings.Contains(r.Result.Content[0].Text, "secret") != secret ||
				!strings.Contains(r.Result.Content[0].Text, `"streaming"`) {
				t.Errorf("payloads %v: %s", secret, r.Result.Content[0].Text)
			}
		}
	})
}
