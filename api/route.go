package api

import (
	"net/http"

	"github.com/pawl-work/pawl"
)

// Role is the role that an API key must have for a call.
type Role string

// These are the roles, named after the interfaces of package pawl. A call with Anyone needs no
// key.
const (
	Anyone    Role = ""
	Submitter Role = "submitter"
	Claimer   Role = "claimer"
	Approver  Role = "approver"
	Operator  Role = "operator"
	Reader    Role = "reader"
)

// Route is one row of Routes.
type Route struct {
	Name     string // name of the operation, the same in every interface
	Method   string
	Path     string // {id} is one path segment, percent-encoded; a verb follows the last colon
	Role     Role
	Or       Role   // another role that is enough; "" = none
	Success  int    // status of an answer that is not a problem
	Means    string // one sentence, for the API's description
	Traits   Trait
	Found    string      // what 200 means where Success is 201; "" = 200 is not answered
	Stream   string      // what its stream holds; "" = it answers with JSON
	Document string      // content type of an answer that is one whole document; "" = it is not one
	Refuses  []pawl.Code // codes besides those that every call of its kind may refuse with
	Tools    []Tool      // the MCP tools that make this call
	Body     string      // name of a single form's body, where it is not named after its call
	Without  []string    // members of the call that the body of its single form does not have
}

// Tool is an MCP tool that makes a call.
type Tool struct {
	Name, Title string
	Means       string // for the model that chooses a tool
	Hints       ToolHint
}

// ToolHint is what a client may assume about a tool. Hints are bits.
type ToolHint uint8

// These are the hints.
const (
	ToolReads    ToolHint = 1 << iota // changes nothing
	ToolRepeats                       // a repeated call with the same arguments changes nothing more
	ToolDestroys                      // its effect cannot be undone
)

const (
	get   = http.MethodGet
	post  = http.MethodPost
	put   = http.MethodPut
	patch = http.MethodPatch
	del   = http.MethodDelete
)

// Routes lists all HTTP calls. A verb of a collection (/v1/items:complete) is the batch form
// of the verb of its member (/v1/items/{id}:complete). It takes {items: […]} and answers
// {results: […]}, each call on its own.
var Routes = []Route{
	{Name: "create_task", Method: post, Path: "/v1/tasks", Role: Submitter, Success: 201,
		Means: "Create a task; 200 with deduplicated set when its dedupe found an older one.",
		Found: "The task that an earlier create has made: dedupe or input_hash found it.",
		Tools: []Tool{
			{Name: "work_propose", Title: "Propose a task",
				Means: "Ask for work: creates a task of a type with a payload. Without items it has one item whose input is the payload."},
		},
	},
	{Name: "create_tasks", Method: post, Path: "/v1/tasks:batch", Role: Submitter, Success: 200,
		Means: "Create tasks, each answered on its own."},
	{Name: "list_tasks", Method: get, Path: "/v1/tasks", Role: Reader, Success: 200,
		Means: "List tasks, newest first.",
		Tools: []Tool{
			{Name: "work_list", Title: "List tasks", Hints: ToolReads,
				Means: "List tasks, newest first, by type, state or status. State submitted waits for a decision; available: " +
					"true has items to check out."},
		},
	},
	{Name: "get_task", Method: get, Path: "/v1/tasks/{id}", Role: Reader, Success: 200,
		Means: "Read a task.",
		Tools: []Tool{
			{Name: "work_get", Title: "Read a task", Hints: ToolReads,
				Means: "Read a task with its items, what is said about it so far, the rules of its type (what a good result is) " +
					"and, once it has completed, its result; or one item."},
			{Name: "work_wait", Title: "Wait for a task", Hints: ToolReads,
				Means: "Wait until a task awaits a decision, failed or ended, or the time is up. With after_version, until " +
					"something was decided since."},
		},
	},
	{Name: "update_task", Method: patch, Path: "/v1/tasks/{id}", Role: Submitter, Success: 200,
		Means: "Change a task's title, priority or metadata; with If-Match, only the version it names.",
		Body:  "TaskPatch", Without: []string{"version"}, Traits: TakesVersion},
	{Name: "update_tasks", Method: post, Path: "/v1/tasks:update", Role: Submitter, Success: 200,
		Means: "Change tasks, each answered on its own."},
	{Name: "clone_task", Method: post, Path: "/v1/tasks/{id}:clone", Role: Submitter, Success: 201,
		Means: "Create a task that is like this one, in whatever state it is."},
	{Name: "clone_tasks", Method: post, Path: "/v1/tasks:clone", Role: Submitter, Success: 200,
		Means: "Clone tasks, each answered on its own."},
	{Name: "delete_task", Method: del, Path: "/v1/tasks/{id}", Role: Operator, Success: 204,
		Means: "Delete a task that has ended, or with force any, and all that hangs on it.", Traits: Steps},
	{Name: "delete_tasks", Method: post, Path: "/v1/tasks:delete", Role: Operator, Success: 200,
		Means: "Delete tasks, each answered on its own.", Traits: Steps},
	{Name: "add_items", Method: post, Path: "/v1/tasks/{id}:add_items", Role: Submitter, Success: 200,
		Means: "Add items to a task whose work is still open."},
	{Name: "add_items_batch", Method: post, Path: "/v1/tasks:add_items", Role: Submitter, Success: 200,
		Means: "Add items to tasks, each answered on its own."},
	{Name: "cancel_task", Method: post, Path: "/v1/tasks/{id}:cancel", Role: Submitter, Success: 200,
		Means: "Cancel a task, or some of its items.", Body: "TaskVerb", Without: []string{"force"},
		Tools: []Tool{
			{Name: "work_cancel", Title: "Cancel a task", Hints: ToolRepeats | ToolDestroys,
				Means: "Cancel a task, or some of its items, for good. Their workers learn of it by the next heartbeat."},
		},
	},
	{Name: "cancel_tasks", Method: post, Path: "/v1/tasks:cancel", Role: Submitter, Success: 200,
		Means: "Cancel tasks, each answered on its own."},
	{Name: "retry_task", Method: post, Path: "/v1/tasks/{id}:retry", Role: Operator, Success: 200,
		Means: "Queue a task's failed items again and reopen it.", Body: "TaskVerb", Without: []string{"force"}},
	{Name: "retry_tasks", Method: post, Path: "/v1/tasks:retry", Role: Operator, Success: 200,
		Means: "Retry tasks, each answered on its own."},
	{Name: "bury_task", Method: post, Path: "/v1/tasks/{id}:bury", Role: Operator, Success: 200,
		Means: "Dead-letter a task's failed items.", Body: "TaskVerb", Without: []string{"force"}},
	{Name: "bury_tasks", Method: post, Path: "/v1/tasks:bury", Role: Operator, Success: 200,
		Means: "Bury tasks, each answered on its own."},
	{Name: "checkpoint_task", Method: post, Path: "/v1/tasks/{id}:checkpoint", Role: Submitter, Success: 201,
		Means: "Save a checkpoint of the task itself, without a lease."},
	{Name: "checkpoint_tasks", Method: post, Path: "/v1/tasks:checkpoint", Role: Submitter, Success: 200,
		Means: "Save checkpoints of tasks, each answered on its own."},
	{Name: "task_result", Method: get, Path: "/v1/tasks/{id}/result", Role: Reader, Success: 200,
		Means: "Read what a completed task came to.", Traits: PayloadOnly, Refuses: []pawl.Code{pawl.CodeConflict, pawl.CodeTooLarge}},
	{Name: "task_items", Method: get, Path: "/v1/tasks/{id}/items", Role: Reader, Success: 200,
		Means: "List a task's items, oldest first."},
	{Name: "task_events", Method: get, Path: "/v1/tasks/{id}/events", Role: Reader, Success: 200,
		Means: "List a task's events, newest first."},
	{Name: "task_provenance", Method: get, Path: "/v1/tasks/{id}/provenance", Role: Reader, Success: 200,
		Means: "List who did what to a task and with what, oldest first."},
	{Name: "task_checkpoints", Method: get, Path: "/v1/tasks/{id}/checkpoints", Role: Reader, Success: 200,
		Means: "List a task's checkpoints in order of their number."},
	{Name: "count_checkpoints", Method: get, Path: "/v1/tasks/{id}/checkpoints/counts", Role: Reader, Success: 200,
		Means: "Count a task's checkpoints by type."},

	{Name: "send_signal", Method: post, Path: "/v1/signals", Role: Submitter, Success: 200,
		Means: "Send a signal: items that wait for it are queued; it is kept for items that wait for it later."},
	{Name: "send_signals", Method: post, Path: "/v1/signals:batch", Role: Submitter, Success: 200,
		Means: "Send signals, each answered on its own."},

	{Name: "claim", Method: post, Path: "/v1/claims", Role: Claimer, Success: 200,
		Means: "Take items to work on, each under a lease; wait up to 60 s for some. The item that brings the inputs to 8 " +
			"MiB is the last: claim again for more.", Traits: ShowsPayloads | AnswersLate | NoOwnKey,
		Tools: []Tool{
			{Name: "work_checkout", Title: "Check out work",
				Means: "Take items to work on under a lease: of a task, of certain types, or anywhere. No items means that there " +
					"is nothing to do now."},
		},
	},
	{Name: "heartbeat", Method: post, Path: "/v1/items/{id}:heartbeat", Role: Claimer, Success: 200,
		Means: "Extend a lease, and learn whether the item was cancelled.", Traits: Repeatable,
		Tools: []Tool{
			{Name: "work_heartbeat", Title: "Keep a lease", Hints: ToolRepeats,
				Means: "Extend your lease on an item. cancelled: true means stop: the item was cancelled."},
		},
	},
	{Name: "heartbeat_items", Method: post, Path: "/v1/items:heartbeat", Role: Claimer, Success: 200,
		Means: "Extend leases, each answered on its own.", Traits: Repeatable},
	{Name: "progress", Method: post, Path: "/v1/items/{id}:progress", Role: Claimer, Success: 200,
		Means: "Report how far an item is.", Traits: Repeatable,
		Tools: []Tool{
			{Name: "work_progress", Title: "Report progress", Hints: ToolRepeats,
				Means: "Say how far you are: progress in percent, stage in a few words."},
		},
	},
	{Name: "progress_items", Method: post, Path: "/v1/items:progress", Role: Claimer, Success: 200,
		Means: "Report progress of items, each answered on its own.", Traits: Repeatable},
	{Name: "checkpoint", Method: post, Path: "/v1/items/{id}:checkpoint", Role: Claimer, Success: 201,
		Means: "Save a checkpoint under a lease.",
		Tools: []Tool{
			{Name: "work_checkpoint", Title: "Save a checkpoint",
				Means: "Save where you are, so that another attempt can go on from there; what has a name is found by it in work_resume."},
		},
	},
	{Name: "checkpoint_items", Method: post, Path: "/v1/items:checkpoint", Role: Claimer, Success: 200,
		Means: "Save checkpoints under leases, each answered on its own."},
	{Name: "complete", Method: post, Path: "/v1/items/{id}:complete", Role: Claimer, Success: 200,
		Means: "Hand in an item's result and end it.",
		Tools: []Tool{
			{Name: "work_complete", Title: "Complete an item", Hints: ToolRepeats,
				Means: "Hand in the result of an item whose type asks for no acceptance, and end it."},
		},
	},
	{Name: "complete_items", Method: post, Path: "/v1/items:complete", Role: Claimer, Success: 200,
		Means: "Complete items, each answered on its own."},
	{Name: "fail", Method: post, Path: "/v1/items/{id}:fail", Role: Claimer, Success: 200,
		Means: "Say that an attempt failed; it is retried by policy.",
		Tools: []Tool{
			{Name: "work_fail", Title: "Fail an attempt", Hints: ToolRepeats,
				Means: "Say that you could not do it and why. It is tried again by policy, unless retryable is false."},
		},
	},
	{Name: "fail_items", Method: post, Path: "/v1/items:fail", Role: Claimer, Success: 200,
		Means: "Fail attempts, each answered on its own."},
	{Name: "release", Method: post, Path: "/v1/items/{id}:release", Role: Claimer, Success: 200,
		Means: "Give an item back; no failure is counted.",
		Tools: []Tool{
			{Name: "work_release", Title: "Give an item back", Hints: ToolRepeats,
				Means: "Give an item back; it is not counted as a failure."},
		},
	},
	{Name: "release_items", Method: post, Path: "/v1/items:release", Role: Claimer, Success: 200,
		Means: "Release items, each answered on its own."},
	{Name: "suspend", Method: post, Path: "/v1/items/{id}:suspend", Role: Claimer, Success: 200,
		Means: "Give the lease up until a time or a signal."},
	{Name: "revoke_lease", Method: post, Path: "/v1/items/{id}:revoke_lease", Role: Operator, Success: 200,
		Means: "End the lease of an item, whichever worker holds it: the item is queued again, and no failure is counted."},
	{Name: "revoke_leases", Method: post, Path: "/v1/items:revoke_lease", Role: Operator, Success: 200,
		Means: "Revoke leases, each answered on its own."},
	{Name: "suspend_items", Method: post, Path: "/v1/items:suspend", Role: Claimer, Success: 200,
		Means: "Suspend items, each answered on its own."},

	{Name: "submit", Method: post, Path: "/v1/items/{id}:submit", Role: Claimer, Success: 200,
		Means: "Hand in an item's result, to be accepted with its task.",
		Tools: []Tool{
			{Name: "work_submit", Title: "Submit a result", Hints: ToolRepeats,
				Means: "Hand in an item's whole result, to be accepted with its task. What does not fit the type's schema is " +
					"refused with JSON Pointers; the lease stays yours."},
		},
	},
	{Name: "submit_items", Method: post, Path: "/v1/items:submit", Role: Claimer, Success: 200,
		Means: "Submit results, each answered on its own."},
	{Name: "submit_part", Method: post, Path: "/v1/items/{id}/parts", Role: Claimer, Success: 201,
		Means: "Hand in a piece of an item's result.",
		Tools: []Tool{
			{Name: "work_submit_part", Title: "Submit a part", Hints: ToolRepeats,
				Means: "Hand in a piece of an item's result, checked against the schema of its key. A later part of the same key " +
					"and seq takes its place."},
		},
	},
	{Name: "submit_parts", Method: post, Path: "/v1/parts:batch", Role: Claimer, Success: 200,
		Means: "Hand in pieces of results, each answered on its own."},
	{Name: "finalize", Method: post, Path: "/v1/items/{id}:finalize", Role: Claimer, Success: 200,
		Means: "Put an item's parts together and submit what comes of it.",
		Tools: []Tool{
			{Name: "work_finalize", Title: "Finalize parts", Hints: ToolRepeats,
				Means: "Put an item's parts together and submit what comes of it."},
		},
	},
	{Name: "finalize_items", Method: post, Path: "/v1/items:finalize", Role: Claimer, Success: 200,
		Means: "Finalize items, each answered on its own."},
	{Name: "approve_task", Method: post, Path: "/v1/tasks/{id}:approve", Role: Approver, Success: 200,
		Means: "Approve a submitted task; it is applied where that needs no worker.", Traits: TakesVersion,
		Tools: []Tool{
			{Name: "work_approve", Title: "Approve a task", Hints: ToolRepeats | ToolDestroys,
				Means: "Approve a submitted task: its effect is applied, once."},
		},
	},
	{Name: "approve_tasks", Method: post, Path: "/v1/tasks:approve", Role: Approver, Success: 200,
		Means: "Approve tasks, each answered on its own."},
	{Name: "reject_task", Method: post, Path: "/v1/tasks/{id}:reject", Role: Approver, Success: 200,
		Means: "Reject a submitted task for good, or send items back for rework.", Traits: TakesVersion,
		Tools: []Tool{
			{Name: "work_reject", Title: "Reject a task", Hints: ToolRepeats | ToolDestroys,
				Means: "Reject a submitted task with reasons: for good, or with allow_rework, so that its items are worked on " +
					"again and the next worker gets the reasons."},
		},
	},
	{Name: "reject_tasks", Method: post, Path: "/v1/tasks:reject", Role: Approver, Success: 200,
		Means: "Reject tasks, each answered on its own."},

	{Name: "start_message", Method: post, Path: "/v1/items/{id}/messages", Role: Claimer, Success: 201,
		Means: "Begin a message of an item; one with content is whole at once."},
	{Name: "start_messages", Method: post, Path: "/v1/messages:batch", Role: Claimer, Success: 200,
		Means: "Begin messages, each answered on its own."},
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

	{Name: "chat", Method: post, Path: "/v1/chat/{type}", Role: Submitter, Success: 200,
		Means: "Say something in a chat of the AI SDK, and stream the reply; the same message again is the same reply.", Traits: Streams | NoKey,
		Stream: "The reply as the AI SDK's UI message stream, from its first word to its end.",
	},
	{Name: "resume_chat", Method: get, Path: "/v1/chat/{type}/{chat}/stream", Role: Reader, Success: 200,
		Means: "Stream the reply that is being made in a chat, from its first word; 204 when none is.", Traits: PayloadOnly | Streams,
		Stream: "The reply that is being made, as the AI SDK's UI message stream, from its first word.",
	},

	{Name: "put_blob", Method: post, Path: "/v1/blobs", Role: Submitter, Or: Claimer, Success: 201,
		Means: "Store the bytes of the body, of any media type, and return their address; they are kept for a day after the last upload.",
		Found: "The namespace had these bytes already.", Traits: TakesBytes | NoKey | Repeatable},
	{Name: "get_blob", Method: get, Path: "/v1/blobs/{id}", Role: Reader, Or: Claimer, Success: 200,
		Means:  "Read the bytes of a blob, whole or in ranges.",
		Traits: SendsBytes | AnswersLate | ShowsPayloads, Document: "application/octet-stream"},

	{Name: "list_items", Method: get, Path: "/v1/items", Role: Reader, Success: 200,
		Means: "List items, oldest first."},
	{Name: "get_item", Method: get, Path: "/v1/items/{id}", Role: Reader, Success: 200,
		Means: "Read an item."},
	{Name: "resume_item", Method: get, Path: "/v1/items/{id}/resume", Role: Claimer, Success: 200,
		Means: "Read all that the next attempt needs to go on.",
		Tools: []Tool{
			{Name: "work_resume", Title: "Read where to go on", Hints: ToolReads,
				Means: "Read what earlier attempts at an item left: newest checkpoints, named steps, parts, the last error or " +
					"the reasons of a rejection. An answer with next has more: call again with it as cursor."},
		},
	},
	{Name: "item_parts", Method: get, Path: "/v1/items/{id}/parts", Role: Reader, Success: 200,
		Means: "List the pieces of an item's result, oldest first.",
		Tools: []Tool{
			{Name: "work_list_parts", Title: "List parts", Hints: ToolReads,
				Means: "List the pieces of an item's result that were handed in, with their status and what was wrong with them."},
		},
	},
	{Name: "item_events", Method: get, Path: "/v1/items/{id}/events", Role: Reader, Success: 200,
		Means: "List an item's events, newest first."},
	{Name: "item_provenance", Method: get, Path: "/v1/items/{id}/provenance", Role: Reader, Success: 200,
		Means: "List who did what to an item and with what, oldest first."},

	{Name: "list_events", Method: get, Path: "/v1/events", Role: Reader, Success: 200,
		Means:  "List events, newest first, or with after in feed order; as text/event-stream, follow the feed.",
		Traits: AnswersLate, Refuses: []pawl.Code{pawl.CodeConflict},
		Tools: []Tool{
			{Name: "work_logs", Title: "Read the record", Hints: ToolReads,
				Means: "Read the record of a task or item: who did what, when and why, newest first."},
		},
	},
	{Name: "list_checkpoints", Method: get, Path: "/v1/checkpoints", Role: Reader, Success: 200,
		Means: "List checkpoints in order of their number."},

	{Name: "list_workers", Method: get, Path: "/v1/workers", Role: Reader, Success: 200,
		Means: "List workers, last seen first."},
	{Name: "register_worker", Method: post, Path: "/v1/workers", Role: Claimer, Success: 204,
		Means: "Enter a worker into the registry, or renew its entry.", Traits: Repeatable},
	{Name: "stats", Method: get, Path: "/v1/stats", Role: Reader, Success: 200,
		Means: "Count what there is, now."},
	{Name: "log_checkpoint", Method: get, Path: "/v1/log/checkpoint", Role: Reader, Success: 200,
		Means: "Return the newest signed checkpoint of the transparency log.", Refuses: []pawl.Code{pawl.CodeNotFound}},
	{Name: "log_task", Method: get, Path: "/v1/log/tasks/{id}", Role: Reader, Success: 200, Means: "Prove that a task's events are logged."},
	{Name: "log_consistency", Method: get, Path: "/v1/log/consistency", Role: Reader, Success: 200,
		Means: "Prove that the transparency log has only grown.", Refuses: []pawl.Code{pawl.CodeNotFound}},
	{Name: "list_sweeps", Method: get, Path: "/v1/sweeps", Role: Reader, Success: 200,
		Means: "List sweeps with what each did, newest first.", Traits: Global},
	{Name: "sweep", Method: post, Path: "/v1/sweeps", Role: Operator, Success: 200,
		Means: "Run one sweep.", Traits: Global | Steps | NoOwnKey},
	{Name: "prunable", Method: get, Path: "/v1/sweeps/prunable", Role: Operator, Success: 200,
		Means: "Count what a pass would archive and remove now, and change nothing.", Traits: Global},
	{Name: "list_archives", Method: get, Path: "/v1/archives", Role: Operator, Success: 200,
		Means: "List archived tasks, newest first."},
	{Name: "restore_archive", Method: post, Path: "/v1/archives/{id}:restore", Role: Operator, Success: 200,
		Means: "Bring an archived task back.", Traits: Steps},

	{Name: "list_relays", Method: get, Path: "/v1/relays", Role: Operator, Success: 200,
		Means: "Say where the relays stand, which send events to other systems.", Traits: Global},
	{Name: "resume_relay", Method: post, Path: "/v1/relays/{id}:resume", Role: Operator, Success: 200,
		Means: "Have a disabled relay tried again.", Traits: Global},
	{Name: "forget_relay", Method: del, Path: "/v1/relays/{id}", Role: Operator, Success: 204,
		Means: "Remove the state of a relay that no server runs any more.", Traits: Global},

	{Name: "list_types", Method: get, Path: "/v1/types", Role: Reader, Success: 200,
		Means: "List registered types by name."},
	{Name: "get_type", Method: get, Path: "/v1/types/{id}", Role: Reader, Success: 200,
		Means: "Read a type: the current version, or the one asked for."},
	{Name: "put_type", Method: put, Path: "/v1/types/{id}", Role: Operator, Success: 201,
		Means: "Register a type; 200 with unchanged set when the definition was there already.",
		Found: "The version that was there already; nothing has changed.",
	},
	{Name: "put_types", Method: post, Path: "/v1/types:put", Role: Operator, Success: 200,
		Means: "Register types, each answered on its own."},
	{Name: "remove_type", Method: del, Path: "/v1/types/{id}", Role: Operator, Success: 204,
		Means: "Take a type off the registry; its tasks go on with the version they have."},
	{Name: "remove_types", Method: post, Path: "/v1/types:remove", Role: Operator, Success: 200,
		Means: "Take types off the registry, each answered on its own."},

	{Name: "check_token", Method: get, Path: "/v1/task-token", Role: Reader, Success: 200,
		Means: "Say what a task token stands for, while its lease runs.", Refuses: []pawl.Code{pawl.CodeConflict}},

	{Name: "list_keys", Method: get, Path: "/v1/idempotency-keys", Role: Reader, Success: 200,
		Means: "List idempotency keys, newest first."},
	{Name: "get_key", Method: get, Path: "/v1/idempotency-keys/{id}", Role: Submitter, Success: 200,
		Means: "Read an idempotency key."},
	{Name: "get_keys", Method: post, Path: "/v1/idempotency-keys:get", Role: Submitter, Success: 200,
		Means: "Read idempotency keys, each answered on its own.", Traits: ReadOnly},
	{Name: "begin_key", Method: post, Path: "/v1/idempotency-keys/{id}:begin", Role: Submitter, Success: 200,
		Means: "Open a key: run means that the caller is to run, else the first answer stands."},
	{Name: "begin_keys", Method: post, Path: "/v1/idempotency-keys:begin", Role: Submitter, Success: 200,
		Means: "Open keys, each answered on its own.", Traits: NoOwnKey},
	{Name: "renew_key", Method: post, Path: "/v1/idempotency-keys/{id}:renew", Role: Submitter, Success: 200,
		Means: "Keep a key for a run that goes on."},
	{Name: "renew_keys", Method: post, Path: "/v1/idempotency-keys:renew", Role: Submitter, Success: 200,
		Means: "Keep keys for runs that go on, each answered on its own.", Traits: Repeatable},
	{Name: "complete_key", Method: post, Path: "/v1/idempotency-keys/{id}:complete", Role: Submitter, Success: 200,
		Means: "Keep the answer of a run."},
	{Name: "complete_keys", Method: post, Path: "/v1/idempotency-keys:complete", Role: Submitter, Success: 200,
		Means: "Keep the answers of runs, each answered on its own.", Traits: NoOwnKey},
	{Name: "fail_key", Method: post, Path: "/v1/idempotency-keys/{id}:fail", Role: Submitter, Success: 200,
		Means: "Keep the error of a run; the next begin runs again."},
	{Name: "fail_keys", Method: post, Path: "/v1/idempotency-keys:fail", Role: Submitter, Success: 200,
		Means: "Keep the errors of runs, each answered on its own.", Traits: NoOwnKey},

	{Name: "plain_create_task", Method: post, Path: "/tasks", Role: Submitter, Success: 201,
		Means: "Create a task; takes and answers the older shape; 200 when its dedupe found an older one.",
		Found: "The task that an earlier create has made: its dedupe found it.",
	},
	{Name: "plain_task", Method: get, Path: "/tasks/{id}", Role: Reader, Success: 200,
		Means: "Read a task in the older shape: status in capitals, state as text."},
	{Name: "plain_task_events", Method: get, Path: "/tasks/{id}/events", Role: Reader, Success: 200,
		Means: "List a task's newest 100 events in the older shape."},
	{Name: "plain_task_cancel", Method: post, Path: "/tasks/{id}:cancel", Role: Submitter, Success: 200,
		Means: "Cancel a task; answers in the older shape."},
	{Name: "plain_task_retry", Method: post, Path: "/tasks/{id}:retry", Role: Operator, Success: 200,
		Means: "Retry a task; answers in the older shape."},

	{Name: "health", Method: get, Path: "/healthz", Role: Anyone, Success: 200,
		Means: "Say that the process runs."},
	{Name: "ready", Method: get, Path: "/readyz", Role: Anyone, Success: 200,
		Means:   "Say that the server takes calls: 503 while it stops or its database does not answer.",
		Refuses: []pawl.Code{pawl.CodeUnavailable}},
	{Name: "metrics", Method: get, Path: "/metrics", Role: Reader, Success: 200,
		Means: "Tell how requests went and what is queued, for Prometheus.", Traits: Global, Document: "text/plain"},
	{Name: "reference", Method: get, Path: "/docs", Role: Anyone, Success: 200,
		Means: "Describe the API as a page, which needs nothing from elsewhere.", Document: "text/html"},
	{Name: "description", Method: get, Path: "/openapi.json", Role: Anyone, Success: 200,
		Means: "Describe the API as OpenAPI 3.1.", Document: "application/json"},
}

// Has reports whether the call has a trait.
func (r Route) Has(t Trait) bool { return r.Traits&t != 0 }

// Mutates reports whether the call changes something, so that it takes an idempotency key.
func (r Route) Mutates() bool {
	return r.Method != http.MethodGet && !r.Has(ReadOnly|NoKey)
}

// RouteOf returns the row of a name. It panics if there is none: that is a programmer's error.
func RouteOf(name string) Route {
	for _, r := range Routes {
		if r.Name == name {
			return r
		}
	}
	panic("api: no route " + name)
}

// NamespaceHeader names the namespace of a call. ActorHeader names who makes it: type/id, or a
// type alone. Both are percent-encoded. A server without API keys trusts both.
const (
	NamespaceHeader = "Pawl-Namespace"
	ActorHeader     = "Pawl-Actor"
)

// TaskTokenHeader carries the task token to check.
const TaskTokenHeader = "Pawl-Task-Token"

// These are the headers of idempotency keys. A mutating call with KeyHeader (or the same name
// after X-) is carried out once. Later calls with the key get the first answer again, with
// ReplayedHeader. KeySecondsHeader says for how long; without it, 24 hours.
const (
	KeyHeader        = "Idempotency-Key"
	KeySecondsHeader = "Idempotency-Seconds"
	ReplayedHeader   = "Idempotency-Replayed"
)
