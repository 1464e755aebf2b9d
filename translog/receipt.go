package translog

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/strictjson"
)

// ErrUnreadable says that a file is no receipt: it is not a JSON object.
var ErrUnreadable = errors.New("it is no receipt")

// VerifyReceipt checks a receipt with nothing but its bytes and the keys whose signatures its checkpoint needs. The error
// is ErrUnreadable if the file is not a JSON object; any other one says why the receipt does not hold.
func VerifyReceipt(file []byte, trust Trust) (pawl.EffectStatement, Checkpoint, error) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(file, &object); err != nil || object == nil {
		return pawl.EffectStatement{}, Checkpoint{}, fmt.Errorf("%w: the file is not a JSON object", ErrUnreadable)
	}
	var r pawl.EffectReceipt
	if err := strictjson.Read(file, &r); err != nil {
		return pawl.EffectStatement{}, Checkpoint{}, err
	}
	c, err := openAlone(r.Checkpoint, trust)
	switch {
	case r.Format != pawl.EffectReceiptFormat:
		err = fmt.Errorf("its format is %q, and not %s", r.Format, pawl.EffectReceiptFormat)
	case err == nil && len(r.Events) > pawl.MaxReceiptEvents:
		err = fmt.Errorf("it has %d events, more than %d", len(r.Events), pawl.MaxReceiptEvents)
	}
	leaves := make([]Leaf, len(r.Events))
	for i := range r.Events {
		if err == nil {
			leaves[i], err = proved(&r.Events[i], c)
		}
		if err == nil && i > 0 && !before(leaves[i-1], leaves[i]) {
			err = fmt.Errorf("event %s is behind %s", leaves[i].EventID, leaves[i-1].EventID)
		}
	}
	if err != nil {
		return pawl.EffectStatement{}, c, err
	}
	said, err := StateOf(leaves)
	if err == nil && !reflect.DeepEqual(said, r.Effect) {
		err = errors.New("the events say something else of the effect")
	}
	return said, c, err
}

// openAlone is Trust.Open for a checkpoint whose signatures have their one form each. Those of unknown witnesses may be
// beside those that count; no key of the log has signed twice.
func openAlone(text string, trust Trust) (Checkpoint, error) {
	c, err := trust.Open(text)
	if err != nil {
		return c, fmt.Errorf("the checkpoint is not signed with the given keys: %w", err)
	}
	_, signatures, _ := strings.Cut(text, "\n\n")
	seen := map[string]bool{}
	for line := range strings.Lines(signatures) {
		name, signature, _ := strings.Cut(strings.TrimPrefix(strings.TrimSuffix(line, "\n"), "— "), " ")
		b, err := exact(signature)
		if err != nil {
			return c, fmt.Errorf("the signature: %w", err)
		}
		if name += string(b[:min(4, len(b))]); seen[name] {
			return c, errors.New("the checkpoint has two signatures of one key")
		}
		seen[name] = true
	}
	return c, nil
}

// exact decodes base64 that has the one form which the encoder writes.
func exact(text string) ([]byte, error) {
	b, err := base64.StdEncoding.DecodeString(text)
	if err == nil && base64.StdEncoding.EncodeToString(b) != text {
		err = errors.New("it is not the base64 of its bytes")
	}
	return b, err
}

// proved reads an event whose leaf is under the root of a checkpoint.
func proved(e *pawl.ReceiptEvent, c Checkpoint) (Leaf, error) {
	b, err := exact(e.Leaf)
	if err != nil {
		return Leaf{}, fmt.Errorf("the leaf of %s: %w", e.EventID, err)
	}
	l, err := ReadLeaf(b)
	if err != nil || l.EventID != e.EventID {
		return l, fmt.Errorf("the leaf of %s is not that of this event", e.EventID)
	}
	var proof tlog.RecordProof
	for _, text := range e.Hashes {
		h, err := exact(text)
		if err != nil || len(h) != tlog.HashSize {
			return l, fmt.Errorf("the proof of %s has a hash that is none", e.EventID)
		}
		proof = append(proof, tlog.Hash(h))
	}
	if e.Index < 0 || e.Index >= c.Size {
		return l, fmt.Errorf("event %s is not under the checkpoint", e.EventID)
	}
	if err := tlog.CheckRecord(proof, c.Size, c.Root, e.Index, tlog.RecordHash(b)); err != nil {
		return l, fmt.Errorf("event %s is not in the log as the receipt has it", e.EventID)
	}
	return l, nil
}

// before reports whether the number of an event is below that of another.
func before(a, b Leaf) bool {
	x, first := strconv.ParseInt(strings.TrimPrefix(a.EventID, "evt_"), 10, 64)
	y, second := strconv.ParseInt(strings.TrimPrefix(b.EventID, "evt_"), 10, 64)
	return first == nil && second == nil && x < y
}

// facts is what the data of an event about an effect says.
type facts struct {
	EffectID    string `json:"effect_id"`
	Name        string `json:"name"`
	Key         string `json:"key"`
	RequestHash string `json:"request_hash"`
	Sendings    int    `json:"sendings"`
	AnswerHash  string `json:"answer_hash"`
	Reason      string `json:"reason"`
	Outcome     string `json:"outcome"`
	Contradicts bool   `json:"contradicts"`
	Beside      bool   `json:"beside"`
	DecidedBy   string `json:"decided_by"`
}

// follows reports whether an event is the next one of an effect: its sendings are numbered, and who let it be sent is among
// those who decided. Before a decision about an effect of a fork, the original's sendings are not known.
func (f *facts) follows(s *pawl.EffectStatement, l *Leaf) bool {
	if l.Event != "effect_opened" || f.Reason == "approval" {
		return s.ID == "" && l.Event != "effect_opened" || f.Sendings == s.Sendings
	}
	return f.Sendings == s.Sendings+1 && (f.DecidedBy == "" || s.ApprovedBy != nil || s.DecidedBy != nil)
}

// StateOf says what the events of an effect, oldest first, say of it. All must be of one effect.
func StateOf(events []Leaf) (s pawl.EffectStatement, err error) {
	for i, l := range events {
		var f facts
		if err := json.Unmarshal([]byte(l.Data), &f); err != nil || f.EffectID == "" {
			return s, fmt.Errorf("event %s is not of an effect", l.EventID)
		}
		if i > 0 && (f.EffectID != s.ID || l.Namespace != s.Namespace || f.Key != s.Key || f.RequestHash != s.RequestHash) {
			return s, fmt.Errorf("event %s is of another effect", l.EventID)
		}
		if i == 0 && l.Event != "effect_opened" && l.Event != "effect_resolved" { // that of a fork is unknown at first
			return s, fmt.Errorf("the first event, %s, does not open the effect", l.EventID)
		}
		if !f.follows(&s, &l) {
			return s, fmt.Errorf("what came before event %s is missing", l.EventID)
		}
		s.ID, s.Namespace, s.Key, s.RequestHash = f.EffectID, l.Namespace, f.Key, f.RequestHash
		s.TaskID, s.ItemID, s.Name, s.Sendings = l.TaskID, l.ItemID, f.Name, f.Sendings
		if err := take(&s, &l, &f); err != nil {
			return s, err
		}
	}
	if s.Events = len(events); s.Events == 0 {
		err = errors.New("it has no events")
	}
	return s, err
}

// take carries on a statement by an event.
func take(s *pawl.EffectStatement, l *Leaf, f *facts) error {
	who := &pawl.EffectActor{Type: l.ActorType, ID: l.ActorID, KeyID: l.KeyID, Attempt: l.Attempt, At: l.At}
	end := func(state pawl.EffectState) {
		s.State, s.EndedAt, s.AnswerHash = state, &who.At, ""
		if state == pawl.EffectDone {
			s.AnswerHash = f.AnswerHash
		}
	}
	undecided := s.State == pawl.EffectOpen || s.State == pawl.EffectUnknown && s.Outcome == "" || f.Reason == "contradiction"
	switch l.Event {
	case "effect_opened":
		s.State, s.EndedAt, s.AnswerHash, s.Outcome = pawl.EffectWaiting, nil, "", ""
		if f.Reason != "approval" {
			s.State, s.SentBy = pawl.EffectOpen, who
		}
	case "effect_done", "effect_failed", "effect_unknown":
		if undecided && !f.Beside {
			s.Outcome = ""
			end(pawl.EffectState(strings.TrimPrefix(l.Event, "effect_")))
		}
		s.Contradicts = s.Contradicts || f.Contradicts
	case "effect_resolved":
		switch f.Outcome {
		case "approved":
			s.ApprovedBy = who
			return nil
		case pawl.Happened:
			end(pawl.EffectDone)
		case pawl.DidNotHappen, pawl.RejectedEffect:
			end(pawl.EffectFailed)
		}
		s.Outcome, s.DecidedBy = f.Outcome, who
		if s.State == "" { // given up in a fork
			s.State = pawl.EffectUnknown
		}
	default:
		return fmt.Errorf("event %s is not of an effect", l.EventID)
	}
	return nil
}
