package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/pawl-work/pawl"
)

var messageSQL = Texts(sqlFiles, "message.sql")

// MessageRow is a message as it is kept: its content, once it has ended; until
// then its chunks are.
type MessageRow struct {
	pawl.Message
	StepOffset int64 // where the step that is under way began
	Cuts       []pawl.Cut
	Kept       Text // the content
	cuts       Text
}

// CutOff adds a stretch of chunks that an attempt said in a step it did not end.
func CutOff(cuts Text, from, to, attempt int64) Text {
	if from >= to {
		return cuts
	}
	return Text(strings.TrimSpace(fmt.Sprintf("%s %d-%d-%d", cuts, from, to, attempt)))
}

// CutsOf reads what CutOff wrote.
func CutsOf(text Text) []pawl.Cut {
	var out []pawl.Cut
	for word := range strings.FieldsSeq(string(text)) {
		var c pawl.Cut
		if _, err := fmt.Sscanf(word, "%d-%d-%d", &c.From, &c.To, &c.Attempt); err == nil {
			out = append(out, c)
		}
	}
	return out
}

func scanMessages(ctx context.Context, tx Tx, query string, args ...any) ([]MessageRow, error) {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []MessageRow
	for rows.Next() {
		var m MessageRow
		var thread, task, item, model, usage, metadata Text
		var attempt *int
		var created int64
		var ended *int64
		if err := rows.Scan(&m.ID, &m.Namespace, &thread, &task, &item, &attempt, &m.Role, &m.Kept, &m.Status, &model, &m.StepNumber, &m.MaxSteps, &m.Offset,
			&m.StepOffset, &m.cuts, &usage, &metadata, &created, &ended); err != nil {
			return nil, err
		}
		m.Thread, m.TaskID, m.ItemID, m.Model, m.Usage, m.Metadata = string(thread), string(task), string(item), string(model), raw(usage), raw(metadata)
		m.Cuts, m.CreatedAt, m.EndedAt = CutsOf(m.cuts), Stamp(created), stampOf(ended)
		if attempt != nil {
			m.Attempt = *attempt
		}
		out = append(out, m)
	}
	return out, rows.Err()
}

// GetMessage reads a message; not_found outside the namespace.
func GetMessage(ctx context.Context, tx Tx, namespace, id string) (MessageRow, error) {
	return oneMessage(ctx, tx, messageSQL["message"]+"\nWHERE m.id = $1 AND m.namespace = $2", namespace, id)
}

// HoldMessage is GetMessage with the row locked. Leases are locked before.
func HoldMessage(ctx context.Context, tx Tx, namespace, id string) (MessageRow, error) {
	return oneMessage(ctx, tx, messageSQL["message"]+"\nWHERE m.id = $1 AND m.namespace = $2\n@lock", namespace, id)
}

func oneMessage(ctx context.Context, tx Tx, query, namespace, id string) (MessageRow, error) {
	rows, err := scanMessages(ctx, tx, query, id, namespace)
	if err != nil {
		return MessageRow{}, err
	}
	if len(rows) == 0 {
		return MessageRow{}, pawl.NotFound("message", id)
	}
	return rows[0], nil
}

// ListMessages lists a namespace's messages, oldest first.
func ListMessages(ctx context.Context, tx Tx, namespace string, q pawl.MessageFilter) ([]MessageRow, error) {
	var w where
	w.and("m.namespace = ?", namespace)
	for cond, value := range map[string]string{"m.thread = ?": q.Thread, "m.task_id = ?": q.TaskID, "m.item_id = ?": q.ItemID} {
		if value != "" {
			w.and(cond, value)
		}
	}
	if q.ItemID != "" { // through the task: item_id alone has no index
		w.and("m.task_id = (SELECT x.task_id FROM pawl.work_items x WHERE x.id = ?)", q.ItemID)
	}
	if len(q.Statuses) > 0 {
		w.and("m.state IN @list(?)", List(texts(q.Statuses)))
	}
	if err := w.after("m.id >", "msg_", q.Cursor); err != nil {
		return nil, err
	}
	return scanMessages(ctx, tx, w.text(messageSQL["message"], "m.id", q.Limit+1), w.args...)
}

// ChunkRow is the chunks of one append.
type ChunkRow struct {
	Seq     int64
	Count   int
	Attempt int
	Body    string
}

// Place is where somebody is in a message: at the chunk that comes next.
type Place struct {
	MessageID string
	From      int64
}

// Chunks reads up to limit rows of a message's chunks: the one with the chunk
// from, and those behind it.
func Chunks(ctx context.Context, tx Tx, id string, from int64, limit int) ([]ChunkRow, error) {
	rows, err := tx.Query(ctx, messageSQL["chunks"], id, from, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []ChunkRow
	for rows.Next() {
		var c ChunkRow
		if err := rows.Scan(&c.Seq, &c.Count, &c.Attempt, &c.Body); err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, rows.Err()
}

// Head is how far a message is.
type Head struct {
	ID     string
	State  string
	Chunks int64
	Step   int
	Cuts   []pawl.Cut
}

// Heads reads how far messages are.
func Heads(ctx context.Context, tx Tx, ids []string) ([]Head, error) {
	rows, err := tx.Query(ctx, messageSQL["heads"], List(ids))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Head
	for rows.Next() {
		var h Head
		var cuts Text
		if err := rows.Scan(&h.ID, &h.State, &h.Chunks, &h.Step, &cuts); err != nil {
			return nil, err
		}
		h.Cuts = CutsOf(cuts)
		out = append(out, h)
	}
	return out, rows.Err()
}

// Home is where a message belongs: an item for ever, none for one that was
// never open.
type Home struct{ ID, ItemID, State string }

// Homes reads where messages belong; those the namespace does not have are left out.
func Homes(ctx context.Context, tx Tx, namespace string, ids []string) ([]Home, error) {
	rows, err := tx.Query(ctx, messageSQL["homes"], namespace, List(ids))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Home
	for rows.Next() {
		var h Home
		if err := rows.Scan(&h.ID, &h.ItemID, &h.State); err != nil {
			return nil, err
		}
		out = append(out, h)
	}
	return out, rows.Err()
}

// NewMessage is a message to insert: open when it has no content.
type NewMessage struct {
	ID, Namespace, TaskID string
	Thread, ItemID        Text
	Attempt               *int
	Role                  string
	Content               Text
	Model                 Text
	MaxSteps              int
	Metadata              Text
	Actor                 Actor
}

// PutMessages inserts messages, each with its event.
func PutMessages(ctx context.Context, tx Tx, now int64, all []NewMessage) error {
	rows := make([][]any, len(all))
	events := make([]Event, len(all))
	for i, m := range all {
		state, ended := string(pawl.MessageStreaming), (*int64)(nil)
		if m.Content != "" {
			state, ended = string(pawl.MessageComplete), &now
		}
		rows[i] = []any{m.ID, m.Namespace, m.Thread, m.TaskID, m.ItemID, m.Attempt, m.Role, m.Content, state, m.Model, m.MaxSteps, m.Metadata, now, ended}
		events[i] = messageEvent("message_started", m.Namespace, m.TaskID, m.ItemID, m.Actor, map[string]any{"message_id": m.ID, "role": m.Role, "status": state})
		if m.Attempt != nil {
			events[i].Attempt = *m.Attempt
		}
	}
	if err := tx.ExecEach(ctx, messageSQL["start message"], rows); err != nil {
		return err
	}
	return Record(ctx, tx, now, events)
}

func messageEvent(name, namespace, taskID string, itemID Text, by Actor, data map[string]any) Event {
	text, _ := json.Marshal(data) // plain values
	return Event{Namespace: namespace, TaskID: taskID, ItemID: itemID, Event: name, Actor: by, Data: Text(text)}
}

// SetThread says which conversation a task belongs to.
func SetThread(ctx context.Context, tx Tx, taskID, thread string) error {
	_, err := tx.Exec(ctx, messageSQL["set thread"], taskID, thread)
	return err
}

// ThreadOf is a task's conversation.
func ThreadOf(ctx context.Context, tx Tx, taskID string) (string, error) {
	var thread string
	_, err := Row(ctx, tx, []any{&thread}, messageSQL["thread of task"], taskID)
	return thread, err
}

// OpenMessageOf is the id of an item's open message, "" when there is none.
func OpenMessageOf(ctx context.Context, tx Tx, itemID string) (string, error) {
	var id string
	_, err := Row(ctx, tx, []any{&id}, messageSQL["open message"], itemID)
	return id, err
}

// SaidByItem lists the messages of an item that were said piece by piece, oldest
// first.
func SaidByItem(ctx context.Context, tx Tx, taskID, itemID string) ([]pawl.MessageRef, error) {
	rows, err := tx.Query(ctx, messageSQL["said by item"], taskID, itemID)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := []pawl.MessageRef{}
	for rows.Next() {
		var m pawl.MessageRef
		if err := rows.Scan(&m.ID, &m.Status, &m.Offset, &m.StepNumber, &m.Model, &m.MaxSteps); err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, rows.Err()
}

// Start leaves the first sign of life.
func (g *Grip) Start(ctx context.Context, tx Tx) error { return g.start(ctx, tx) }

// TakeOver makes the gripped attempt the message's writer: what another one said
// in a step it did not end is marked as cut off.
func (g *Grip) TakeOver(ctx context.Context, tx Tx, m *MessageRow) error {
	if m.Attempt == g.Attempt {
		return nil
	}
	if m.Attempt > 0 {
		m.cuts = CutOff(m.cuts, m.StepOffset, m.Offset, int64(m.Attempt))
	}
	m.Cuts, m.StepOffset, m.Attempt = CutsOf(m.cuts), m.Offset, g.Attempt
	_, err := tx.Exec(ctx, messageSQL["take over"], m.ID, m.Attempt, m.StepOffset, m.cuts)
	return err
}

// Step saves the checkpoint that ends a step of a message and returns its number.
func (g *Grip) Step(ctx context.Context, tx Tx, m *MessageRow, checkpointID, snapshot string) (seq int64, err error) {
	m.StepNumber++
	if _, err := tx.Exec(ctx, messageSQL["step"], m.ID, m.StepNumber, checkpointID); err != nil {
		return 0, err
	}
	if _, err := Row(ctx, tx, []any{&seq}, growSQL["next number"], g.TaskID, g.Namespace, g.Now); err != nil {
		return 0, err
	}
	metadata, _ := json.Marshal(map[string]any{"message_id": m.ID, "step_number": m.StepNumber, "offset": m.Offset}) // plain values
	_, err = tx.Exec(ctx, messageSQL["save step"], checkpointID, g.Namespace, g.TaskID, g.ItemID, g.Attempt, seq, fmt.Sprintf("step:%d", m.StepNumber), m.ID,
		snapshot, string(metadata), g.Now)
	return seq, err
}

// EndMessage ends a held message, with its content and its event. Of one that may
// still be resumed the chunks are kept until then.
func EndMessage(ctx context.Context, tx Tx, now int64, m *MessageRow, to pawl.MessageState, content string, by Actor, reason string) error {
	replayable := 0
	if to.Ended() && m.Offset > 0 {
		replayable = 1
	}
	if _, err := tx.Exec(ctx, messageSQL["end message"], m.ID, string(to), content, Text(m.Usage), now, replayable); err != nil {
		return err
	}
	at := Stamp(now)
	m.Status, m.Content, m.EndedAt = to, json.RawMessage(content), &at
	data := map[string]any{"message_id": m.ID, "status": to, "chunks": m.Offset, "steps": m.StepNumber}
	e := messageEvent("message_ended", m.Namespace, m.TaskID, Text(m.ItemID), by, data)
	e.Attempt, e.Message = m.Attempt, Text(reason)
	return Record(ctx, tx, now, []Event{e})
}

// HoldItem locks the lease of an item, if there is one, before its message is.
func HoldItem(ctx context.Context, tx Tx, itemID string) (stopped string, leased bool, err error) {
	leased, err = Row(ctx, tx, []any{&stopped}, messageSQL["hold lease of item"], itemID)
	return stopped, leased, err
}

// TellLease has the holder of a lease learn by the next heartbeat which messages
// were stopped.
func TellLease(ctx context.Context, tx Tx, itemID, stopped string) error {
	_, err := tx.Exec(ctx, messageSQL["tell lease"], itemID, stopped)
	return err
}

// ResumeMessages opens the messages again that ended with an error, of items of a
// task that are queued again.
func ResumeMessages(ctx context.Context, tx Tx, now int64, taskID string, items []DueItem, by Actor) error {
	ids := make([]string, len(items))
	for i := range items {
		ids[i] = items[i].ItemID
	}
	if held, err := Strings(ctx, tx, messageSQL["hold messages"], taskID, List(ids)); err != nil || len(held) == 0 {
		return err
	}
	rows, err := tx.Query(ctx, messageSQL["resume messages"], taskID, List(ids))
	if err != nil {
		return err
	}
	defer rows.Close()
	var events []Event
	for rows.Next() {
		var id, item, namespace string
		if err := rows.Scan(&id, &item, &namespace); err != nil {
			return err
		}
		events = append(events, messageEvent("message_started", namespace, taskID, Text(item), by, map[string]any{"message_id": id, "status": pawl.MessageStreaming}))
	}
	if err := rows.Err(); err != nil {
		return err
	}
	rows.Close()
	return Record(ctx, tx, now, events)
}

// Stray is an open message whose item is out of work.
type Stray struct{ ID, Namespace, ItemState string }

// Strays lists up to limit open messages whose items are out of work: of some
// items, of a task, or of all.
func Strays(ctx context.Context, tx Tx, items []string, taskID string, limit int) ([]Stray, error) {
	var w where
	w.and("m.state = 'streaming' AND m.item_id IS NOT NULL AND (r.item_id IS NOT NULL OR e.item_id IS NOT NULL)")
	if items != nil {
		w.and("m.item_id IN @list(?)", List(items))
	}
	if taskID != "" {
		w.and("m.task_id = ?", taskID)
	}
	rows, err := tx.Query(ctx, w.text(messageSQL["strays"], "m.id", limit), w.args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Stray
	for rows.Next() {
		var s Stray
		if err := rows.Scan(&s.ID, &s.Namespace, &s.ItemState); err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, rows.Err()
}

// RemoveChunks removes the chunks of up to limit messages that ended by a time.
func RemoveChunks(ctx context.Context, tx Tx, endedBy int64, limit int) (int64, error) {
	ids, err := Strings(ctx, tx, messageSQL["retired messages"], endedBy, limit)
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	if _, err := tx.Exec(ctx, messageSQL["remove chunks"], List(ids)); err != nil {
		return 0, err
	}
	_, err = tx.Exec(ctx, messageSQL["not replayable"], List(ids))
	return int64(len(ids)), err
}
