package api

import (
	"encoding/json"

	"github.com/pawl-work/pawl"
)

// The bodies of a message's verbs: the call without what the path names.
type (
	// StartMessageBody begins a message of an item.
	StartMessageBody struct {
		Holder
		Role     string          `json:"role"`
		Thread   string          `json:"thread,omitempty"`
		Model    string          `json:"model,omitempty"`
		MaxSteps int             `json:"max_steps,omitempty"`
		Content  json.RawMessage `json:"content,omitempty"`
		Metadata json.RawMessage `json:"metadata,omitempty"`
	}
	// AppendBody adds chunks to a message.
	AppendBody struct {
		Holder
		Offset int64        `json:"offset"`
		Chunks []pawl.Chunk `json:"chunks"`
	}
	// StepBody ends a step of a message.
	StepBody struct {
		Holder
		Snapshot json.RawMessage `json:"snapshot,omitempty"`
	}
	// FinishBody ends a message.
	FinishBody struct {
		Holder
		Usage json.RawMessage `json:"usage,omitempty"`
	}
	// StopBody stops a message.
	StopBody struct {
		Reason string `json:"reason,omitempty"`
	}
)

// Message is the fence of a message's writer.
func (h Holder) Message(id string) pawl.MessageFence {
	return pawl.MessageFence{MessageID: id, WorkerID: h.WorkerID, Attempt: h.Attempt}
}

type (
	// MessageQuery is a pawl.MessageFilter but for its item.
	MessageQuery struct {
		Thread string              `query:"thread" doc:"Of this conversation."`
		Status []pawl.MessageState `query:"status" doc:"Of any of these statuses."`
		Paging
	}
	// MessagesQuery is a pawl.MessageFilter.
	MessagesQuery struct {
		OfTask
		OfItem
		MessageQuery
	}
	// FollowQuery says where a reader of a message goes on.
	FollowQuery struct {
		After int `query:"after" default:"-1" doc:"The number of the last chunk that is known; the first is 0. Last-Event-ID goes before it."`
	}
)

// Filter is the filter that the query asks for.
func (q MessagesQuery) Filter() (pawl.MessageFilter, error) {
	task, err := q.OfTask.Of()
	if err != nil {
		return pawl.MessageFilter{}, err
	}
	item, err := q.OfItem.Of()
	return pawl.MessageFilter{Thread: q.Thread, TaskID: task, ItemID: item, Statuses: q.Status, Page: q.Page()}, err
}

// MessagesQueryOf writes a filter as a query.
func MessagesQueryOf(f pawl.MessageFilter) MessagesQuery {
	return MessagesQuery{OfTask{Task: f.TaskID}, OfItem{Item: f.ItemID}, MessageQuery{Thread: f.Thread, Status: f.Statuses, Paging: PagingOf(f.Page)}}
}

// The names of the frames of a message's stream that are no chunks.
const (
	FrameAbandoned = "abandoned"
	FrameSnapshot  = "snapshot"
	FrameEnd       = "end"
)

// FrameRefused is the name of the last frame of any stream whose key has expired
// or been revoked; its data is the Problem.
const FrameRefused = "refused"

// ChunkFrame is the data of a frame of chunks; its id is the last one's number.
type ChunkFrame struct {
	Offset int64        `json:"offset"` // number of the first
	Chunks []pawl.Chunk `json:"chunks"`
}
