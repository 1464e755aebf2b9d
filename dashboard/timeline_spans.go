package dashboard

import (
	"cmp"
	"encoding/json"

	"github.com/pawl-work/pawl"
)

// spansOf derives what an item did from its events, oldest first.
func spansOf(it pawl.Item, events []pawl.Event) (spans []span, marks []mark) {
	if first := events[0]; first.FromState != "" { // what came before was not read, or has no event
		s := span{Kind: first.FromState, From: it.CreatedAt}
		if pawl.ItemState(s.Kind).Leased() {
			s.Kind, s.Attempt = "attempt", first.Attempt
		}
		spans = append(spans, s)
	}
	for _, e := range events {
		switch {
		case e.Event == "part_submitted":
			marks = append(marks, mark{Kind: "part", Label: partIn(e.Data), At: e.CreatedAt})
		case e.ToState == "": // no change of the item
		case e.Event == "in_progress": // the attempt goes on
		default:
			if n := len(spans); n > 0 && spans[n-1].To == nil {
				spans[n-1].To = &e.CreatedAt
				if spans[n-1].IsAttempt() {
					spans[n-1].How, spans[n-1].Why, spans[n-1].Error = e.Event, e.Message, errorIn(e.Data)
				}
			}
			switch state := pawl.ItemState(e.ToState); {
			case state == pawl.ItemLeased:
				spans = append(spans, span{Kind: "attempt", Attempt: e.Attempt, Worker: e.ActorID, From: e.CreatedAt})
			case !rests(state):
				s := span{Kind: string(state), From: e.CreatedAt}
				if e.Event == "suspended" {
					s.For = waitIn(e.Data)
				}
				spans = append(spans, s)
			}
		}
	}
	if n := len(spans); n > 0 && spans[n-1].To == nil && spans[n-1].IsAttempt() && it.HeartbeatAt != nil {
		spans[n-1].HeartbeatAt = it.HeartbeatAt
		marks = append(marks, mark{Kind: "heartbeat", Label: "last heartbeat", At: *it.HeartbeatAt})
	}
	return spans, marks
}

// rests reports whether nothing more happens in a state unless a caller acts.
func rests(state pawl.ItemState) bool {
	return state.Ended() || state == pawl.ItemFailed || state == pawl.ItemDeadLettered
}

// roughSpans are what an item's own fields say about it, for an item whose events were not read.
func roughSpans(it pawl.Item) []span {
	end := it.CompletedAt
	if end == nil && rests(it.State) {
		end = &it.UpdatedAt
	}
	if it.StartedAt == nil {
		return []span{{Kind: string(it.State), From: it.CreatedAt, To: end}}
	}
	how := ""
	if end != nil {
		how = string(it.State)
	}
	return []span{
		{Kind: "queued", From: it.CreatedAt, To: it.StartedAt},
		{Kind: "attempt", Attempt: it.Attempt, Worker: cmp.Or(it.WorkerID, it.LastWorkerID), From: *it.StartedAt, To: end, How: how,
			Error: it.Error},
	}
}

// errorIn is the failure in an event's data.
func errorIn(data json.RawMessage) *pawl.Failure {
	var d struct{ Error *pawl.Failure }
	_ = json.Unmarshal(data, &d) // most have none
	return d.Error
}

// partIn is the key of the part in an event's data.
func partIn(data json.RawMessage) string {
	var d struct{ Key string }
	_ = json.Unmarshal(data, &d) // without a key the mark has no name
	return d.Key
}
