package main

import (
	"fmt"
	"time"

	"github.com/pawl-work/pawl"
)

// deadLetters leaves items that were given up.
func (f *filler) deadLetters() {
	f.workers("w-batch-9")
	for n := range 4 {
		t := f.create(pawl.NewTask{Type: "import-feed", Title: fmt.Sprintf("Import feed %d", n+1), MaxAttempts: 1})
		if l, ok := f.claim("w-batch-9", "import-feed", 60); ok {
			f.fail(l, false, "not_found", fmt.Sprintf("https://feeds.example/%d answered 410 Gone", 4000+n))
		}
		only[pawl.Task](f)(f.BuryTasks(f, []pawl.TaskCall{{TaskID: t.ID, Reason: "the feed was closed"}}))
	}
}

// failures leaves items that failed for two reasons.
func (f *filler) failures() {
	for n := range 12 {
		f.create(pawl.NewTask{Type: "render-invoice", Title: fmt.Sprintf("Invoice %d", 8100+n), MaxAttempts: 1,
			Payload: asJSON(`{"order":%d}`, 8100+n)})
		if l, ok := f.claim("w-tickets-1", "render-invoice", 60); ok {
			f.pass(10 * time.Second)
			if n%4 == 3 {
				f.fail(l, false, "bad_input", fmt.Sprintf("order %d has no address", 8100+n))
				continue
			}
			f.fail(l, true, "timeout", fmt.Sprintf("no answer from 10.0.0.%d:8443 after %d ms", 10+n, 30000+n*7))
		}
	}
}

// waiting leaves work that no worker does: without a worker, paused, and for later.
func (f *filler) waiting() {
	for n := range 60 {
		f.create(pawl.NewTask{Type: "translate-page", Title: fmt.Sprintf("Translate page %d", n+1)})
	}
	for n := range 8 {
		f.create(pawl.NewTask{Type: "send-mail", Title: fmt.Sprintf("Mail to customer %d", n+1)})
	}
	_, err := f.PauseQueue(f, "send-mail")
	f.check(err)
	later := f.clock.now().Add(9 * time.Hour)
	f.create(pawl.NewTask{Type: "send-mail", Title: "Reminder", RunAt: &later})
}

// approvals leaves changes that a person decides about.
func (f *filler) approvals() {
	for n, title := range []string{"Correct the opening hours", "Shorten the introduction", "Name the new address"} {
		t := f.create(pawl.NewTask{Type: "edit-page", Title: title, Payload: asJSON(`{"page":"/about/%d"}`, n+1)})
		l, ok := f.claim("w-pages-1", "edit-page", 300)
		if !ok {
			return
		}
		f.pass(40 * time.Second)
		only[pawl.Moved](f)(f.Submit(f, []pawl.SubmitCall{{
			Fence: l.Fence(),
			Result: asJSON(`{"before":{"title":"About us","text":"We are open from 9 to 5.\nCall us.\nWe answer."},` +
				`"after":{"title":"About us","text":"We are open from 8 to 6.\nCall us.\nWe answer within a day."},` +
				`"operations":[{"op":"replace","path":"/text","value":"We are open from 8 to 6.\nCall us.\nWe answer within a day."}]}`),
			Evidence:   asJSON(`{"source":"https://intranet.example/hours","read_at":"2026-01-29"}`),
			Notes:      "The shop's own page has the new hours since Monday.",
			Provenance: &pawl.Provenance{Model: "large-2", AgentName: "scribe", AgentVersion: "3"},
		}}))
		f.shown["approval"] = t.ID
	}
}

// research leaves a task of several items in all stages: one whose worker died, one that was
// retried, one that sleeps, one that waits for another, and a child.
func (f *filler) research() {
	t := f.create(pawl.NewTask{Type: "summarise-report", Title: "Research: heat pumps in old buildings", Priority: 10,
		RequestedBy: &pawl.Requester{Type: "user", ID: "ann"}, Metadata: asJSON(`{"customer":"acme","ticket":"R-118"}`),
		Payload: asJSON(`{"question":"Which heat pumps suit buildings from before 1950?","languages":["en","de"]}`),
		Items: []pawl.NewItem{
			{Key: "search", Input: asJSON(`{"query":"heat pump old building"}`)},
			{Key: "read-1", Input: asJSON(`{"url":"https://energy.example/1"}`)},
			{Key: "read-2", Input: asJSON(`{"url":"https://energy.example/2"}`)},
			{Key: "read-3", Input: asJSON(`{"url":"https://energy.example/3"}`)},
			{Key: "write", Input: asJSON(`{"style":"short"}`), After: []string{"read-1", "read-2", "read-3"}},
		}})
	f.shown["task"] = t.ID
	first, _ := f.claim("w-batch-9", "summarise-report", 45) // its worker dies
	f.checkpoint(first, "query", `{"results":14,"best":["energy.example/1","energy.example/2"]}`)
	second, _ := f.claim("w-report-1", "summarise-report", 120)
	f.pass(50 * time.Second)
	f.fail(second, true, "model_overloaded", "the model did not answer within 30 s")
	_, err := f.Sweep(f)
	f.check(err)
	f.pass(40 * time.Second)
	again, _ := f.claim("w-report-2", "summarise-report", 120)
	f.shown["item"] = again.ID
	f.checkpoint(again, "query", `{"results":14,"best":["energy.example/1","energy.example/3"]}`)
	f.checkpoint(again, "rank", `{"order":[1,3,2],"because":"newest measurements first"}`)
	f.create(pawl.NewTask{Type: "summarise-report", Title: "Prices of heat pumps", ParentID: t.ID})
	f.pass(70 * time.Second)
	f.complete(again, asJSON(`{"summary":"14 sources, 3 of them with measurements.","sources":[1,3,2]}`))
	held, _ := f.claim("w-report-1", "summarise-report", 3600)
	progress, stage := 40, "reading"
	only[pawl.Moved](f)(f.Progress(f, []pawl.ProgressCall{{Fence: held.Fence(), Progress: &progress, Stage: &stage}}))
	f.effects(held)
	slept, _ := f.claim("w-report-2", "summarise-report", 3600)
	until := f.clock.now().Add(2 * time.Hour)
	only[pawl.Moved](f)(f.Suspend(f, []pawl.SuspendCall{{Fence: slept.Fence(), Until: &until}}))
}

// effects leaves one effect of each state.
func (f *filler) effects(l pawl.Lease) {
	open := func(name string, approve bool) string {
		out, err := f.OpenEffect(f, pawl.OpenEffectCall{ItemID: l.ID, WorkerID: l.WorkerID, Attempt: l.Attempt, Name: name, Approve: approve,
			RequestHash: "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"})
		f.check(err)
		return out.ID
	}
	_, err := f.EffectDone(f, open("buy-report", false), pawl.EffectDoneCall{ItemID: l.ID, WorkerID: l.WorkerID, Attempt: l.Attempt,
		Answer: asJSON(`{"invoice":"R-2204","eur":40}`)})
	f.check(err)
	_, err = f.EffectFailed(f, open("mail-author", false), pawl.EffectFailedCall{ItemID: l.ID, WorkerID: l.WorkerID, Attempt: l.Attempt,
		Error: pawl.Failure{Code: "refused", Message: "the mailbox does not exist"}})
	f.check(err)
	f.shown["effect"] = open("order-measurement", false)
	_, err = f.EffectUnknown(f, f.shown["effect"], pawl.EffectUnknownCall{ItemID: l.ID, WorkerID: l.WorkerID, Attempt: l.Attempt,
		Error: &pawl.Failure{Message: "the connection was closed without an answer"}})
	f.check(err)
	open("publish", true)
	open("upload", false)
}

func (f *filler) checkpoint(l pawl.Lease, name, snapshot string) {
	if f.err == nil {
		only[pawl.CheckpointRef](f)(f.Checkpoint(f, []pawl.CheckpointCall{{Fence: l.Fence(),
			NewCheckpoint: pawl.NewCheckpoint{Type: pawl.ToolExecuted, Name: name, Snapshot: asJSON("%s", snapshot)}}}))
	}
}

// conversation leaves a message that is being written, and work that was just created.
func (f *filler) conversation() {
	f.create(pawl.NewTask{Type: "answer", Title: "Which pump suits a house of 1930?", Thread: "acme/118",
		Reply: &pawl.Reply{Model: "large-2"}})
	l, ok := f.claim("w-pages-1", "answer", 3600)
	if !ok || l.OpenMessage == nil {
		return
	}
	f.shown["message"] = l.OpenMessage.ID
	at := pawl.MessageFence{MessageID: l.OpenMessage.ID, WorkerID: l.WorkerID, Attempt: l.Attempt}
	only[pawl.Appended](f)(f.Append(f, []pawl.AppendCall{{MessageFence: at, Chunks: []pawl.Chunk{
		{Type: "reasoning", Text: "The house has thick walls and old radiators. I need measurements."},
		{Type: "tool_call", ToolCallID: "c1", ToolName: "search", Input: asJSON(`{"query":"heat pump 1930 radiators"}`)},
		{Type: "tool_result", ToolCallID: "c1", ToolName: "search", Output: asJSON(`{"results":3}`)},
		{Type: "text", Text: "For a house of 1930, an air-to-water pump with a flow temperature of 55 °C is enough in most cases. "},
		{Type: "text", Text: "Three measurements in similar houses say"},
	}}}))
	for n := range 3 {
		f.create(pawl.NewTask{Type: "classify-ticket", Title: fmt.Sprintf("Ticket %d", 31000+n), Payload: asJSON(`{"customer":"acme"}`)})
	}
}
