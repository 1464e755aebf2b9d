package api

import "github.com/pawl-work/pawl"

// messageRoutes are the calls about messages.
var messageRoutes = []Route{
	{Name: "start_message", Method: post, Path: "/v1/items/{id}/messages", Role: Claimer, Success: 201,
		Means: "Begin a message of an item; one with content is whole at once."},
	{Name: "start_messages", Method: post, Path: "/v1/messages:batch", Role: Claimer, Success: 200,
		Means: "Begin messages, each answered on its own."},
	{Name: "open_message", Method: post, Path: "/v1/tasks/{id}/messages", Role: Claimer, Success: 201,
		Means: "Open a message that a task has itself: it is written with the answer's writer token, without a lease."},
	{Name: "open_messages", Method: post, Path: "/v1/messages:open", Role: Claimer, Success: 200,
		Means: "Open messages that tasks have themselves, each answered on its own."},
	{Name: "append", Method: post, Path: "/v1/messages/{id}:append", Role: Claimer, Success: 200,
		Means: "Add chunks to an open message, at the offset it has."},
	{Name: "append_messages", Method: post, Path: "/v1/messages:append", Role: Claimer, Success: 200,
		Means: "Add chunks to messages, each call answered on its own.", Traits: Repeatable},
	{Name: "step_message", Method: post, Path: "/v1/messages/{id}:step", Role: Claimer, Success: 201,
		Means: "End a step of an open message, with a checkpoint."},
	{Name: "step_messages", Method: post, Path: "/v1/messages:step", Role: Claimer, Success: 200,
		Means: "End steps of messages, each answered on its own."},
	{Name: "finish_message", Method: post, Path: "/v1/messages/{id}:finish", Role: Claimer, Success: 200,
		Means: "End an open message; its item goes on."},
	{Name: "finish_messages", Method: post, Path: "/v1/messages:finish", Role: Claimer, Success: 200,
		Means: "Finish messages, each answered on its own."},
	{Name: "stop_message", Method: post, Path: "/v1/messages/{id}:stop", Role: Submitter, Success: 200,
		Means: "Stop an open message: what was said stays, and its worker learns of it."},
	{Name: "stop_messages", Method: post, Path: "/v1/messages:stop", Role: Submitter, Success: 200,
		Means: "Stop messages, each answered on its own."},
	{Name: "list_messages", Method: get, Path: "/v1/messages", Role: Reader, Success: 200,
		Means: "List a conversation in order, open messages too."},
	{Name: "get_message", Method: get, Path: "/v1/messages/{id}", Role: Reader, Success: 200,
		Means: "Read a message, whole at any moment."},
	{Name: "follow_message", Method: get, Path: "/v1/messages/{id}/stream", Role: Reader, Success: 200,
		Means: "Follow a message as server-sent events, from any chunk on.", Traits: PayloadOnly | Streams,
		Stream: "Frames of chunks with the last one's number as id; abandoned, snapshot, end and refused without.",
	},
	{Name: "item_messages", Method: get, Path: "/v1/items/{id}/messages", Role: Reader, Success: 200,
		Means: "List an item's messages in order."},
}

// streamRoutes are the calls of the Durable Streams protocol.
var streamRoutes = []Route{
	{Name: "create_stream", Method: put, Path: "/v1/streams/{id}", Role: Submitter, Success: 201,
		Means: "Make a stream, or a fork of one, by the Durable Streams protocol.", Traits: NoKey | TakesBytes,
		Found: "The stream is there already, with the same configuration."},
	{Name: "append_stream", Method: post, Path: "/v1/streams/{id}", Role: Claimer, Success: 204,
		Means: "Append to a stream that a client made, or close it.", Traits: NoKey | TakesBytes,
		Refuses: []pawl.Code{pawl.CodeMethod}},
	{Name: "read_stream", Method: get, Path: "/v1/streams/{id}", Role: Reader, Success: 200,
		Means:  "Read a stream, or a message by its id, from an offset; live=long-poll and live=sse wait for more.",
		Traits: PayloadOnly | Streams,
		Stream: "With live=sse, events data and control in turn; otherwise what the stream has from the offset on, in its own content type."},
	{Name: "delete_stream", Method: del, Path: "/v1/streams/{id}", Role: Operator, Success: 204,
		Means: "Delete a stream that a client made.", Traits: NoKey, Refuses: []pawl.Code{pawl.CodeMethod}},
}
