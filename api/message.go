package api

import (
	"github.com/pawl-work/pawl"
)

type (
	// MessageQuery is a pawl.MessageFilter without its task and item.
	MessageQuery struct {
		Thread  string              `query:"thread" doc:"Of this conversation."`
		Status  []pawl.MessageState `query:"status" doc:"Of any of these statuses."`
		Stalled bool                `query:"stalled" doc:"Open, without a chunk for 60 s and without a live lease."`
		Order   string              `query:"order" enum:"asc,desc" doc:"desc: newest first; oldest first without it."`
		Paging
	}
	// MessagesQuery is a pawl.MessageFilter as a query.
	MessagesQuery struct {
		OfTask
		OfItem
		MessageQuery
	}
	// FollowQuery says where a reader of a message continues.
	FollowQuery struct {
		After int `query:"after" default:"-1" minimum:"-1" doc:"The number of the last chunk that is known; the first is 0. Last-Event-ID goes before it."`
		Epoch int `query:"epoch" minimum:"0" doc:"The epoch of after, as the frame's id had it."`
		Last  int `query:"last" minimum:"1" doc:"Begin with this many of the chunks that were written so far, in place of after. Last-Event-ID goes before it."`
	}
)

// Filter returns the filter that the query asks for.
func (q MessagesQuery) Filter() (pawl.MessageFilter, error) {
	task, err := q.OfTask.Of()
	if err != nil {
		return pawl.MessageFilter{}, err
	}
	item, err := q.OfItem.Of()
	f := q.MessageQuery.Filter()
	f.TaskID, f.ItemID = task, item
	return f, err
}

// Filter returns the filter that the query asks for, of any task and item.
func (q MessageQuery) Filter() pawl.MessageFilter {
	return pawl.MessageFilter{Thread: q.Thread, Statuses: q.Status, Stalled: q.Stalled, Desc: q.Order == "desc", Page: q.Page()}
}

// MessagesQueryOf returns a filter as a query.
func MessagesQueryOf(f pawl.MessageFilter) MessagesQuery {
	q := MessagesQuery{OfTask{Task: f.TaskID}, OfItem{Item: f.ItemID},
		MessageQuery{Thread: f.Thread, Status: f.Statuses, Stalled: f.Stalled, Paging: PagingOf(f.Page)}}
	if f.Desc {
		q.Order = "desc"
	}
	return q
}

// These are the names of the frames of a message's stream that are not chunks.
const (
	FrameAbandoned = "abandoned"
	FrameSnapshot  = "snapshot"
	FrameEnd       = "end"
)

// FrameRefused is the name of the last frame of a stream whose key expired or was revoked; its
// data is the Problem.
const FrameRefused = "refused"

// ChunkFrame is the data of a frame of chunks. The frame's id is the number of the last chunk.
type ChunkFrame struct {
	Offset int64        `json:"offset"` // number of the first chunk
	Chunks []pawl.Chunk `json:"chunks"`
}

// StreamType is the type of the tasks that hold the streams of clients of Durable Streams.
const StreamType = "stream"
