package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
)

// commands lists the commands of a conversation. w is a worker, i an item, t a task, m a
// message, r a reader. Each takes by=NAME/VERSION/MODEL and once=KEY, the provenance of its
// calls, and as=TYPE, their actor.
var commands map[string]func(s *stage, c call) (string, error)

func init() {
	commands = map[string]func(s *stage, c call) (string, error){
		// Work: submitting, doing and ending it.
		"submit":     submit,                            // its options: see submit
		"add":        add,                               // t, lines: item …
		"claim":      claim,                             // w [limit=N] [types=T,T] [task=t] [item=i] [lease=S] [prefetch]
		"heartbeat":  heartbeat,                         // w i [lease=S] [attempt=N]
		"progress":   progress,                          // w i [progress=N] [stage=T]
		"checkpoint": checkpoint,                        // w i | t, type=T [name=N] [metadata=J] J
		"complete":   complete,                          // w i [J]
		"fail":       fail,                              // w i MESSAGE [retry=no|D]
		"release":    release,                           // w i [delay=D]
		"suspend":    suspend,                           // w i [until=+D] [signal=N] [key=K]
		"signal":     sendSignal,                        // N [J] [key=K]
		"cancel":     operate(pawl.Service.CancelTasks), // t [i …] [reason=T]
		"retry":      operate(pawl.Service.RetryTasks),  // t [i …]
		"bury":       operate(pawl.Service.BuryTasks),   // t [i …]
		"fork":       fork,                              // t N
		"delete":     remove,                            // t [force]
		"restore":    restore,                           // t
		// Messages: writing them under a claim, and following them.
		"begin-message": beginMessage,  // w i role=R [model=M] [max_steps=N] [content=J]
		"append":        appendChunks,  // w m [offset=N] TEXT-OR-CHUNK …
		"step":          step,          // w m [J]
		"end":           endMessage,    // w m [usage=J]
		"stop":          stopMessage,   // m [reason=T]
		"listen":        follow,        // r m [after=N]
		"heard":         readFrames,    // r
		"leave":         stopFollowing, // r
		"server":        toServer,      // N
		// Acceptance.
		"type":    putType, // J
		"part":    putPart, // w i key=K J [seq=N] [evidence=J] [notes=T] [draft]
		"deliver": deliver, // w i J [evidence=J] [notes=T]
		"approve": approve, // t [comment=T] [limit=N]
		"reject":  reject,  // t CODE MESSAGE [rework]
		// Keys.
		"begin":   begin,   // k hash=H [scope=S] [ttl=S] [task=t] [item=i]
		"finish":  finish,  // k J [scope=S]
		"give-up": giveUp,  // k J [scope=S]
		"key":     readKey, // k [scope=S]
		// Reading.
		"task":        readTask,        // t
		"item":        readItem,        // i
		"items":       readItems,       // t
		"list":        readTasks,       // [state=S,S] [status=S] [type=T]
		"events":      readEvents,      // t | i
		"provenance":  readProvenance,  // t | i
		"checkpoints": readCheckpoints, // t | i, [type=T,T] [last]
		"counts":      readCounts,      // t
		"message":     readMessage,     // m
		"messages":    readMessages,    // thread=T | task=t
		"resume":      readResume,      // i
		"result":      readResult,      // t
		"stats":       readStats,
		"show":        show, // t | i, [parts | EVENT]: every field
	}
	maps.Copy(commands, flowCommands)
}

func (s *stage) newItem(c call) pawl.NewItem {
	i := pawl.NewItem{
		Input:       c.raw("input"),
		Type:        c.named["type"],
		Key:         c.named["key"],
		After:       c.list("after"),
		MaxAttempts: c.number("max_attempts"),
		RunAt:       s.at(c.named["run_at"]),
	}
	if i.Input == nil {
		i.Input, _ = json.Marshal(i.Key)
	}
	if c.named["priority"] != "" {
		p := c.number("priority")
		i.Priority = &p
	}
	return i
}

// submit takes type=T [items=N] [payload=J] [title=T] [priority=N] [max_attempts=N]
// [run_at=+D] [hash=H] [dedupe] [thread=T] [user=TEXT] [requested=TYPE/ID] [metadata=J]
// [reply=MODEL [max_steps=N]] [deadline=+D] [with=J of the other members]; or lines: item key=K
// [after=K,K] …
func submit(s *stage, c call) (string, error) {
	t := pawl.NewTask{
		Type: c.named["type"], Title: c.named["title"], Payload: c.raw("payload"), Priority: c.number("priority"),
		MaxAttempts: c.number("max_attempts"),
		RunAt:       s.at(c.named["run_at"]), InputHash: c.named["hash"], Metadata: c.raw("metadata"),
		Deadline: s.at(c.named["deadline"]),
	}
	if with := c.raw("with"); with != nil {
		if err := json.Unmarshal(with, &t); err != nil {
			return "", err
		}
	}
	if kind, id, found := strings.Cut(c.named["requested"], "/"); found {
		t.RequestedBy = &pawl.Requester{Type: kind, ID: id}
	}
	t.Dedupe.All = c.word(0) == "dedupe"
	t.Thread = c.named["thread"]
	if text, said := c.named["user"]; said {
		content, _ := json.Marshal(text) // text always marshals
		t.Messages = []pawl.NewMessage{{Role: pawl.RoleUser, Content: content}}
	}
	if model, wanted := c.named["reply"]; wanted {
		t.Reply = &pawl.Reply{Model: model, MaxSteps: c.number("max_steps")}
	}
	for n := range c.number("items") {
		t.Items = append(t.Items, pawl.NewItem{Input: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n+1))})
	}
	for _, i := range c.items {
		t.Items = append(t.Items, s.newItem(i))
	}
	task, err := pawl.Create(s.ctx, s.svc, t)
	if err != nil {
		return "", err
	}
	return s.shortTask(task)
}

func fork(s *stage, c call) (string, error) {
	at, err := strconv.ParseInt(c.word(1), 10, 64)
	if err != nil {
		return "", err
	}
	task, err := first(s.svc.ForkTasks(s.ctx, []pawl.TaskFork{{TaskID: s.id(c.word(0)), Checkpoint: at}}))
	if err != nil {
		return "", err
	}
	short, err := s.shortTask(task)
	return fmt.Sprintf("%s, fork of %s at %d", short, s.name("task", task.ForkedFrom), *task.ForkedAt), err
}

func add(s *stage, c call) (string, error) {
	call := pawl.AddItems{TaskID: s.id(c.word(0))}
	for _, i := range c.items {
		call.Items = append(call.Items, s.newItem(i))
	}
	task, err := first(s.svc.AddItems(s.ctx, []pawl.AddItems{call}))
	if err != nil {
		return "", err
	}
	return s.shortTask(task)
}

// shortTask names a task and its items.
func (s *stage) shortTask(t pawl.Task) (string, error) {
	out := fmt.Sprintf("%s %s:", s.name("task", t.ID), t.State)
	if t.Deduplicated {
		out = fmt.Sprintf("%s %s, deduplicated:", s.name("task", t.ID), t.State)
	}
	items, err := s.nameItems(t.ID)
	for _, i := range items {
		out += " " + s.name("item", i.ID)
	}
	messages, readErr := s.nameMessages(pawl.MessageFilter{TaskID: t.ID})
	for _, m := range messages {
		out += " " + s.name("message", m.ID)
	}
	return out, errors.Join(err, readErr)
}

func claim(s *stage, c call) (string, error) {
	var next time.Time
	leases, err := s.svc.Claim(pawl.WithNextAt(s.ctx, &next), pawl.ClaimRequest{
		WorkerID: c.word(0), Types: c.list("types"), TaskID: s.id(c.named["task"]), ItemID: s.id(c.named["item"]),
		Limit: c.number("limit"), LeaseSeconds: c.number("lease"), Prefetch: c.word(1) == "prefetch",
	})
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for _, l := range leases {
		s.claims[[2]string{l.WorkerID, l.ID}] = l.Attempt
		fmt.Fprintf(&out, "%s of %s: attempt %d, failures %d, until %s, input %s",
			s.name("item", l.ID), s.name("task", l.TaskID), l.Attempt, l.Failures, s.when(l.LeaseExpiresAt), l.Input)
		if o := l.OpenMessage; o != nil {
			fmt.Fprintf(&out, ", %s open at %d after step %d", s.name("message", o.ID), o.Offset, o.StepNumber)
		}
		for _, id := range l.Stopped {
			fmt.Fprintf(&out, ", %s stopped", s.name("message", id))
		}
		fmt.Fprintln(&out)
	}
	if len(leases) == 0 {
		fmt.Fprintln(&out, "nothing")
	}
	if !next.IsZero() {
		fmt.Fprintln(&out, "more at "+s.when(next))
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

func heartbeat(s *stage, c call) (string, error) {
	b, err := first(s.svc.Heartbeat(s.ctx, []pawl.HeartbeatCall{{Fence: s.fence(c), LeaseSeconds: c.number("lease")}}))
	if err != nil {
		return "", err
	}
	if b.Cancelled {
		return "cancelled", nil
	}
	out := "until " + s.when(b.LeaseExpiresAt)
	for _, id := range b.Stopped {
		out += ", stopped " + s.name("message", id)
	}
	return out, nil
}

func progress(s *stage, c call) (string, error) {
	call := pawl.ProgressCall{Fence: s.fence(c)}
	if c.named["progress"] != "" {
		n := c.number("progress")
		call.Progress = &n
	}
	if stage, found := c.named["stage"]; found {
		call.Stage = &stage
	}
	return s.moved(first(s.svc.Progress(s.ctx, []pawl.ProgressCall{call})))
}

// moved writes the state of an item after a move.
func (s *stage) moved(m pawl.Moved, err error) (string, error) {
	if err != nil {
		return "", err
	}
	out := fmt.Sprintf("%s %s", s.name("item", m.ID), m.State)
	if m.Failures > 0 {
		out += fmt.Sprintf(", failures %d", m.Failures)
	}
	if m.RunAt != nil {
		out += ", goes on at " + s.when(*m.RunAt)
	}
	return out, nil
}

func checkpoint(s *stage, c call) (string, error) {
	snapshot := c.word(len(c.words) - 1)
	n := pawl.NewCheckpoint{Type: c.named["type"], Name: c.named["name"], Snapshot: json.RawMessage(snapshot), Metadata: c.raw("metadata")}
	var ref pawl.CheckpointRef
	var err error
	if len(c.words) == 2 {
		ref, err = first(s.svc.CheckpointTasks(s.ctx, []pawl.TaskCheckpoint{{TaskID: s.id(c.word(0)), NewCheckpoint: n}}))
	} else {
		ref, err = pawl.SaveCheckpoint(s.ctx, s.svc, s.fence(c), n)
	}
	return fmt.Sprintf("number %d", ref.Sequence), err
}

func complete(s *stage, c call) (string, error) {
	var result json.RawMessage
	if c.word(2) != "" {
		result = json.RawMessage(c.word(2))
	}
	return s.moved(pawl.Complete(s.ctx, s.svc, s.fence(c), result))
}

func fail(s *stage, c call) (string, error) {
	call := pawl.FailCall{Fence: s.fence(c), Error: pawl.Failure{Message: c.word(2)}}
	switch retry := c.named["retry"]; retry {
	case "":
	case "no":
		call.Retryable = new(bool)
	default:
		d, err := time.ParseDuration(retry)
		if err != nil {
			return "", err
		}
		ms := d.Milliseconds()
		call.RetryAfterMS = &ms
	}
	return s.moved(first(s.svc.Fail(s.ctx, []pawl.FailCall{call})))
}

func release(s *stage, c call) (string, error) {
	call := pawl.ReleaseCall{Fence: s.fence(c), DelaySeconds: seconds(c.named["delay"])}
	return s.moved(first(s.svc.Release(s.ctx, []pawl.ReleaseCall{call})))
}

func suspend(s *stage, c call) (string, error) {
	return s.moved(
		first(
			s.svc.Suspend(
				s.ctx,
				[]pawl.SuspendCall{{Fence: s.fence(c), Until: s.at(c.named["until"]), Signal: c.named["signal"], Key: s.id(c.named["key"])}},
			),
		),
	)
}

func sendSignal(s *stage, c call) (string, error) {
	var payload json.RawMessage
	if c.word(1) != "" {
		payload = json.RawMessage(c.word(1))
	}
	sent, err := pawl.Signal(s.ctx, s.svc, c.word(0), c.named["key"], payload)
	if err != nil {
		return "", err
	}
	out := fmt.Sprintf("sent at %s, woken %d", s.when(sent.SentAt), sent.Woken)
	if sent.Replaced {
		out += ", replaced"
	}
	return out, nil
}

// operate is a verb about a task or some of its items.
func operate(
	verb func(pawl.Service, context.Context, []pawl.TaskCall) ([]pawl.Result[pawl.Task], error),
) func(*stage, call) (string, error) {
	return func(s *stage, c call) (string, error) {
		call := pawl.TaskCall{TaskID: s.id(c.word(0)), Reason: c.named["reason"]}
		for _, name := range c.words[1:] {
			call.ItemIDs = append(call.ItemIDs, s.id(name))
		}
		t, err := first(verb(s.svc, s.ctx, []pawl.TaskCall{call}))
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%s %s, version %d", s.name("task", t.ID), t.State, t.Version), nil
	}
}

func remove(s *stage, c call) (string, error) {
	_, err := first(s.svc.DeleteTasks(s.ctx, []pawl.TaskCall{{TaskID: s.id(c.word(0)), Force: c.word(1) == "force"}}))
	return "", err
}

func restore(s *stage, c call) (string, error) {
	t, err := s.svc.RestoreArchive(s.ctx, s.id(c.word(0)))
	if err != nil {
		return "", err
	}
	return s.shortTask(t)
}

func advance(s *stage, c call) (string, error) {
	d, err := time.ParseDuration(c.word(0))
	if err != nil {
		return "", err
	}
	s.clock.Advance(d)
	return s.when(s.clock.Now()), nil
}

func sweep(s *stage, _ call) (string, error) {
	n, err := s.svc.Sweep(s.ctx)
	if err != nil {
		return "", err
	}
	out := fmt.Sprintf(
		"expired_found %d, recovered %d, failed %d, checkpoints_created %d, errors %d",
		n.ExpiredFound,
		n.Recovered,
		n.Failed,
		n.CheckpointsCreated,
		n.Errors,
	)
	for _, also := range []struct {
		name string
		n    int64
	}{{"due", n.Due}, {"given_up", n.GivenUp}, {"buried", n.Buried}, {"stale", n.Stale}, {"tasks_pruned", n.TasksPruned},
		{"pruned", n.Checkpoints}, {"signals_pruned", n.SignalsPruned}} { // not keys: the client has keys of its own
		if also.n > 0 {
			out += fmt.Sprintf(", %s %d", also.name, also.n)
		}
	}
	return out, nil
}
