package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"github.com/pawl-work/pawl"
)

var effectSQL = Texts(sqlFiles, "effect.sql")

// The values of EffectRow.Approval.
const (
	EffectNeedsNone = iota
	EffectAsked
	EffectApproved
	EffectRejected
)

// EffectSender is a claim that opened an effect.
type EffectSender struct {
	ItemID   string `json:"item_id"`
	WorkerID string `json:"worker_id"`
	Attempt  int    `json:"attempt"`
	Key      string `json:"key,omitempty"`   // its API key
	Asked    bool   `json:"asked,omitempty"` // it sent nothing: the effect waited for an approval
}

// EffectRow is a row of effects.
type EffectRow struct {
	ID, Namespace, Key, Name, TaskID, ItemID, RequestHash string
	State                                                 pawl.EffectState
	Repeatable                                            int
	Sender, WorkerID                                      string
	Attempt                                               int
	KeyID                                                 Text
	SentUntil                                             *int64
	Sendings                                              int
	Senders                                               string
	Approval                                              int
	DecidedBy, Budget                                     Text
	Amount                                                *int64
	Reservation, Outcome, Comment                         Text
	Answer, AnswerHash, Error                             Text
	Late, Contradicts                                     int
	LateReport                                            Text
	Copied                                                int
	Source                                                Text
	Gone                                                  int
	OpenedAt, EndedAt                                     *int64
	CreatedAt                                             int64
}

func (f *EffectRow) targets() []any {
	return []any{&f.ID, &f.Namespace, &f.Key, &f.Name, (*TaskID)(&f.TaskID), (*ItemID)(&f.ItemID), &f.RequestHash, (*string)(&f.State),
		&f.Repeatable, &f.Sender, &f.WorkerID, &f.Attempt, &f.KeyID, &f.SentUntil, &f.Sendings, &f.Senders, &f.Approval, &f.DecidedBy,
		&f.Budget, &f.Amount, &f.Reservation, &f.Outcome, &f.Comment, &f.Answer, &f.AnswerHash, &f.Error, &f.Late, &f.Contradicts,
		&f.LateReport, &f.Copied, &f.Source, &f.Gone, &f.OpenedAt, &f.EndedAt, &f.CreatedAt}
}

// Unreported returns the fields of an effect that neither its report nor the fence of its sender says.
func (f *EffectRow) Unreported() []any {
	return []any{&f.Key, &f.Name, (*TaskID)(&f.TaskID), &f.RequestHash, &f.Repeatable, &f.Sender, &f.SentUntil, &f.Sendings, &f.Senders,
		&f.Approval, &f.DecidedBy, &f.Budget, &f.Amount, &f.Outcome, &f.Comment, &f.Late, &f.Contradicts, &f.LateReport, &f.Copied, &f.Source,
		&f.OpenedAt, &f.EndedAt, &f.CreatedAt}
}

// Effect returns the row as the interfaces show it.
func (f *EffectRow) Effect() pawl.EffectRecord {
	out := pawl.EffectRecord{ID: f.ID, Name: f.Name, Key: f.Key, TaskID: f.TaskID, ItemID: f.ItemID, RequestHash: f.RequestHash,
		State: f.State, Repeatable: f.Repeatable == 1, Sender: f.Sender, WorkerID: f.WorkerID, Attempt: f.Attempt, Sendings: f.Sendings,
		Approval:  []string{"", "asked", "given", "refused"}[f.Approval],
		DecidedBy: string(f.DecidedBy), Budget: string(f.Budget), Outcome: string(f.Outcome), Comment: string(f.Comment),
		Answer: Raw(f.Answer), AnswerHash: string(f.AnswerHash), Error: FailureOf(f.Error), Late: f.Late == 1, Contradicts: f.Contradicts == 1,
		Source: string(f.Source), OpenedAt: StampOf(f.OpenedAt), EndedAt: StampOf(f.EndedAt), CreatedAt: Stamp(f.CreatedAt)}
	if f.State == pawl.EffectOpen {
		out.SentUntil = StampOf(f.SentUntil)
	}
	if f.Amount != nil {
		out.Amount = *f.Amount
	}
	if f.LateReport != "" {
		out.LateReport = new(pawl.EffectReport)
		_ = json.Unmarshal([]byte(f.LateReport), out.LateReport) // written by us
	}
	return out
}

// OpenedBy adds a claim to those that opened the effect.
func (f *EffectRow) OpenedBy(s EffectSender) {
	f.remember(f.openers(true), append(f.senders(), s))
}

// AskedBy adds a claim to those that opened the effect while it waited for an approval.
func (f *EffectRow) AskedBy(s EffectSender) {
	if s.Asked = true; slices.Contains(f.openers(true), s) {
		return
	}
	f.remember(append(f.openers(true), s), f.senders())
}

func (f *EffectRow) remember(lists ...[]EffectSender) {
	all := []EffectSender{}
	for _, list := range lists {
		all = append(all, list[max(0, len(list)-pawl.MaxEffectSenders):]...)
	}
	b, _ := json.Marshal(all)
	f.Senders = string(b)
}

func (f *EffectRow) senders() []EffectSender { return f.openers(false) }

// openers returns the claims that opened the effect to send it, or those that were told to wait.
func (f *EffectRow) openers(asked bool) (out []EffectSender) {
	if f.Senders == "" { // it is new
		return nil
	}
	_ = json.Unmarshal([]byte(f.Senders), &out) // written by us
	return slices.DeleteFunc(out, func(s EffectSender) bool { return s.Asked != asked })
}

// Opened reports whether a worker, or a caller with the API key of one, has opened the effect, whatever came of it.
func (f *EffectRow) Opened(worker, key string) bool {
	is := func(s EffectSender) bool { return s.WorkerID == worker || key != "" && s.Key == key }
	return is(EffectSender{WorkerID: f.WorkerID, Key: string(f.KeyID)}) || slices.ContainsFunc(f.openers(true), is) ||
		slices.ContainsFunc(f.senders(), is)
}

// Sent reports whether a claim opened the effect, whatever became of its lease since.
func (f *EffectRow) Sent(s EffectSender) bool { return slices.Contains(f.senders(), s) }

// AnswerDigest is the SHA-256 of an answer's bytes.
func AnswerDigest(answer []byte) string {
	sum := sha256.Sum256(answer)
	return hex.EncodeToString(sum[:])
}

func readEffects(ctx context.Context, tx Tx, query string, args ...any) (out []EffectRow, err error) {
	err = EachRow(ctx, tx, func(rows Rows) error {
		var f EffectRow
		err := rows.Scan(f.targets()...)
		out = append(out, f)
		return err
	}, query, args...)
	return out, err
}

func oneEffect(ctx context.Context, tx Tx, where string, args ...any) (f EffectRow, found bool, err error) {
	list, err := readEffects(ctx, tx, effectSQL["effects"]+"\nWHERE "+where, args...)
	if err != nil || len(list) == 0 {
		return EffectRow{}, false, err
	}
	return list[0], true, nil
}

// GetEffect reads an effect. That of a task that is gone is not_found.
func GetEffect(ctx context.Context, tx Tx, namespace, id string) (EffectRow, error) {
	f, found, err := oneEffect(ctx, tx, "f.id = $1 AND f.namespace = $2 AND f.gone = 0", id, namespace)
	if err == nil && !found {
		err = pawl.NotFound("effect", id)
	}
	return f, err
}

// LockEffect locks an effect, after the lease of its item.
func LockEffect(ctx context.Context, tx Tx, namespace, id string) (EffectRow, error) {
	f, err := GetEffect(ctx, tx, namespace, id)
	if err != nil {
		return f, err
	}
	var attempt int
	if _, err := Row(ctx, tx, []any{&attempt}, effectSQL["lock lease"], ItemID(f.ItemID)); err != nil {
		return f, err
	}
	f, found, err := oneEffect(ctx, tx, "f.id = $1 AND f.gone = 0\n@lock", id)
	if err == nil && !found {
		err = pawl.NotFound("effect", id)
	}
	return f, err
}

// LockEffectOfKey locks the effect that a call of an item means: the one that stands in a fork or clone
// for an effect of the original, or else the one that has the key in the namespace.
func LockEffectOfKey(ctx context.Context, tx Tx, namespace, itemID, key string) (f EffectRow, found bool, err error) {
	f, found, err = oneEffect(ctx, tx, "f.item_id = $1 AND f.key = $2 AND f.copied = 1\n@lock", ItemID(itemID), key)
	if err != nil || found {
		return f, found, err
	}
	return oneEffect(ctx, tx, "f.namespace = $1 AND f.key = $2 AND f.copied = 0\n@lock", namespace, key)
}

// InsertEffect inserts a new effect. It returns false if another one has its key.
func InsertEffect(ctx context.Context, tx Tx, f *EffectRow) (bool, error) {
	n, err := tx.Exec(ctx, effectSQL["insert"], f.ID, f.Namespace, f.Key, f.Name, TaskID(f.TaskID), ItemID(f.ItemID), f.RequestHash,
		string(f.State), f.Repeatable, f.Sender, f.WorkerID, f.Attempt, f.KeyID, f.Sendings, f.Senders, f.Approval, f.Budget, f.Amount, f.Copied,
		f.Source, f.Answer, f.AnswerHash, f.OpenedAt, f.EndedAt, f.CreatedAt)
	return n == 1, err
}

// Forget removes an effect that the transaction has inserted.
func (f *EffectRow) Forget(ctx context.Context, tx Tx) error {
	_, err := tx.Exec(ctx, effectSQL["forget"], f.ID)
	return err
}

// Write writes a locked effect, and counts it on the lease of its attempt.
func (f *EffectRow) Write(ctx context.Context, tx Tx) error {
	_, err := tx.Exec(ctx, effectSQL["write"], f.ID, string(f.State), f.Repeatable, f.Sender, f.WorkerID, f.Attempt, f.KeyID, f.SentUntil,
		f.Sendings, f.Senders, f.Approval, f.DecidedBy, f.Budget, f.Amount, f.Reservation, f.Outcome, f.Comment, f.Answer, f.AnswerHash,
		f.Error, f.Late, f.Contradicts, f.LateReport, f.OpenedAt, f.EndedAt, TaskID(f.TaskID), ItemID(f.ItemID), f.Name)
	if err == nil {
		_, err = tx.Exec(ctx, effectSQL["count on lease"], ItemID(f.ItemID), f.Attempt)
	}
	return err
}

// EffectFacts is what the events of effects say. Payloads are in it as digests only.
type EffectFacts struct {
	EffectID    string `json:"effect_id"`
	Name        string `json:"name"`
	Key         string `json:"key"`
	RequestHash string `json:"request_hash"`
	Sendings    int    `json:"sendings"`
	AnswerHash  string `json:"answer_hash,omitempty"`
	Reason      string `json:"reason,omitempty"`
	Outcome     string `json:"outcome,omitempty"`
	Late        bool   `json:"late,omitempty"`
	Contradicts bool   `json:"contradicts,omitempty"`
	Beside      bool   `json:"beside,omitempty"` // a report that decides nothing
	DecidedBy   string `json:"decided_by,omitempty"`
}

// Facts returns what an event about the effect says.
func (f *EffectRow) Facts() EffectFacts {
	return EffectFacts{EffectID: f.ID, Name: f.Name, Key: f.Key, RequestHash: f.RequestHash, Sendings: f.Sendings,
		AnswerHash: string(f.AnswerHash)}
}

// Record records an event about the effect.
func (f *EffectRow) Record(ctx context.Context, tx Tx, now int64, event string, by Actor, facts EffectFacts) error {
	data, err := json.Marshal(facts)
	if err != nil {
		return err
	}
	return Record(ctx, tx, now, []Event{{Namespace: f.Namespace, TaskID: f.TaskID, ItemID: Text(f.ItemID), Solo: unknownSolo,
		Attempt: f.Attempt, Event: event, Actor: by, Data: Text(data)}})
}

// EndEffects makes unknown what an attempt has sent and not reported, as its lease is gone.
func EndEffects(ctx context.Context, tx Tx, now int64, itemID string, attempt int) error {
	ids, err := Strings(ctx, tx, effectSQL["end of attempt"], ItemID(itemID), attempt, now)
	if err != nil {
		return err
	}
	slices.Sort(ids)
	for _, id := range ids {
		f, found, err := oneEffect(ctx, tx, "f.id = $1", id)
		if err == nil && found {
			facts := f.Facts()
			facts.Reason = "lease"
			err = f.Record(ctx, tx, now, "effect_unknown", Actor{Type: pawl.ActorSystem}, facts)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func endEffectsNow(ctx context.Context, tx Tx, itemID string, attempt int) error {
	now, err := tx.Now(ctx)
	if err == nil {
		err = EndEffects(ctx, tx, now, itemID, attempt)
	}
	return err
}

// reported refuses to end the locked lease with a result while an effect of its attempt is open.
func (g *LockedItem) reported(op string) error {
	if g.effects > 0 {
		return EffectOpen(op, "")
	}
	return nil
}

// EffectOpen is the refusal of a result while an effect of the attempt is open.
func EffectOpen(op, id string) error {
	message := "an effect of this attempt is open: report whether it is done, failed or unknown first"
	if id != "" {
		message = "effect " + id + " of this attempt is open: report whether it is done, failed or unknown first"
	}
	return &pawl.Error{Code: pawl.CodeConflict, Op: op, Reason: pawl.ReasonEffectOpen, EffectID: id, Message: message}
}

// AbandonEffect makes an open effect unknown if its sender is gone.
func AbandonEffect(ctx context.Context, tx Tx, id string) error {
	f, found, err := oneEffect(ctx, tx, "f.id = $1", id)
	if err != nil || !found {
		return err
	}
	var attempt int
	leased, err := Row(ctx, tx, []any{&attempt}, effectSQL["lock lease"], ItemID(f.ItemID))
	if err != nil {
		return err
	}
	if f, found, err = oneEffect(ctx, tx, "f.id = $1\n@lock", id); err != nil || !found || f.State != pawl.EffectOpen {
		return err
	}
	now, err := NowAgain(ctx, tx)
	if err != nil {
		return err
	}
	facts := f.Facts()
	facts.Reason = "lease"
	if f.Sender == pawl.SentByGate {
		if facts.Reason = "gate"; f.SentUntil == nil || *f.SentUntil > now {
			return nil
		}
	} else if leased && attempt == f.Attempt {
		return nil
	}
	f.State, f.EndedAt = pawl.EffectUnknown, &now
	if err := f.Write(ctx, tx); err != nil {
		return err
	}
	return f.Record(ctx, tx, now, "effect_unknown", Actor{Type: pawl.ActorSystem}, facts)
}

// UndecidedEffects returns the effects of tasks that are being sent, or unknown and not resolved, by task.
func UndecidedEffects(ctx context.Context, tx Tx, taskIDs []string) (map[string][]string, error) {
	out := map[string][]string{}
	return out, EachRow(ctx, tx, func(rows Rows) error {
		var task, id string
		err := rows.Scan((*TaskID)(&task), &id)
		out[task] = append(out[task], id)
		return err
	}, effectSQL["undecided of tasks"], TaskList(taskIDs))
}

// EffectsOf reads the effects of a task: at most pawl.MaxCopyRows.
func EffectsOf(ctx context.Context, tx Tx, taskID string) ([]EffectRow, error) {
	return readEffects(ctx, tx, effectSQL["effects"]+"\nWHERE f.task_id = $1 AND f.gone = 0\nORDER BY f.id\nLIMIT $2",
		TaskID(taskID), pawl.MaxCopyRows)
}

// Reference makes an effect of another task one that stands for it in a fork or clone: what is done has its
// answer, and everything else is unknown, whatever it was. key is that of the copy. Fork.Save inserts it.
func (f *EffectRow) Reference(id, taskID, itemID, key string) EffectRow {
	out := EffectRow{ID: id, Namespace: f.Namespace, Key: key, Name: f.Name, TaskID: taskID, ItemID: itemID, RequestHash: f.RequestHash,
		State: pawl.EffectUnknown, Repeatable: f.Repeatable, Sender: pawl.SentByAttempt, WorkerID: f.WorkerID, Senders: "[]", Copied: 1,
		Source: Text(f.ID)}
	if f.State == pawl.EffectDone {
		out.State, out.Answer, out.AnswerHash = f.State, f.Answer, f.AnswerHash
	}
	return out
}

// ListEffects lists effects, newest first.
func ListEffects(ctx context.Context, tx Tx, namespace string, q pawl.EffectFilter) (pawl.List[pawl.EffectRecord], error) {
	return Pages(q.Page, func(f *pawl.EffectRecord) int { return len(f.Answer) }, func(f pawl.EffectRecord) string { return f.ID },
		func(p pawl.Page) (pawl.List[pawl.EffectRecord], error) {
			q.Page = p
			return listEffects(ctx, tx, namespace, q)
		})
}

func listEffects(ctx context.Context, tx Tx, namespace string, q pawl.EffectFilter) (pawl.List[pawl.EffectRecord], error) {
	var w Where
	w.And("f.namespace = ?", namespace)
	w.And("f.gone = 0")
	if err := w.ExceptCopies(ctx, tx, "f.task_id"); err != nil {
		return pawl.List[pawl.EffectRecord]{}, err
	}
	if len(q.States) > 0 {
		states := make([]string, len(q.States))
		for i, s := range q.States {
			states[i] = string(s)
		}
		w.And("f.state @among(?)", List(states))
	}
	if q.TaskID != "" {
		w.And("f.task_id = ?", TaskID(q.TaskID))
	}
	if q.ItemID != "" {
		w.And("f.item_id = ?", ItemID(q.ItemID))
	}
	if q.Name != "" {
		w.And("f.name = ?", q.Name)
	}
	if q.Key != "" {
		w.And("f.key = ?", q.Key)
		if q.TaskID == "" && q.ItemID == "" {
			w.And("f.copied = 0") // as its index says
		}
	}
	if q.Cursor != "" {
		w.And("f.id < ?", q.Cursor)
	}
	rows, err := readEffects(ctx, tx, w.Text(effectSQL["effects"], "f.id DESC", q.Limit+1), w.Args...)
	if err != nil {
		return pawl.List[pawl.EffectRecord]{}, err
	}
	out := make([]pawl.EffectRecord, len(rows))
	for i := range rows {
		out[i] = rows[i].Effect()
	}
	return Paged(out, q.Limit, func(f pawl.EffectRecord) string { return f.ID }), nil
}

// GateUntil is the end of a lease of a gate.
func GateUntil(now int64, seconds int) *int64 {
	until := now + int64(seconds)*time.Second.Microseconds()
	return &until
}

// Done sets the answer of the effect. It happened, so there is no error.
func (f *EffectRow) Done(answer string) {
	f.Answer, f.AnswerHash, f.Error = Text(answer), Text(AnswerDigest([]byte(answer))), ""
}
