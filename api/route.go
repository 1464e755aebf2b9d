package api

import (
	"net/http"
)

// Role names what a call needs; it is also a scope of an API key.
type Role string

// The roles, after the interfaces of package pawl. Anyone needs none.
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
	Name    string // of the operation, in every door
	Method  string
	Path    string // {id} is one path segment, percent-encoded; a verb follows its last colon
	Role    Role
	Success int    // status of an answer that is no problem
	Means   string // one sentence, for the API's description
}

const (
	get   = http.MethodGet
	post  = http.MethodPost
	put   = http.MethodPut
	patch = http.MethodPatch
	del   = http.MethodDelete
)

// Routes is the closed list of HTTP calls. A verb of a collection
// (/v1/items:complete) is the batch form of the verb of its member
// (/v1/items/{id}:complete): {items: […]} in, {results: […]} out, each call
// answered on its own.
var Routes = []Route{
	{"create_task", post, "/v1/tasks", Submitter, 201, "Create a task; 200 with deduplicated set when its dedupe found an older one."},
	{"create_tasks", post, "/v1/tasks:batch", Submitter, 200, "Create tasks, each answered on its own."},
	{"list_tasks", get, "/v1/tasks", Reader, 200, "List tasks, newest first."},
	{"get_task", get, "/v1/tasks/{id}", Reader, 200, "Read a task."},
	{"update_task", patch, "/v1/tasks/{id}", Submitter, 200, "Change a task's title, priority or metadata; with If-Match, only the version it names."},
	{"update_tasks", post, "/v1/tasks:update", Submitter, 200, "Change tasks, each answered on its own."},
	{"clone_task", post, "/v1/tasks/{id}:clone", Submitter, 201, "Create a task that is like this one, in whatever state it is."},
	{"clone_tasks", post, "/v1/tasks:clone", Submitter, 200, "Clone tasks, each answered on its own."},
	{"delete_task", del, "/v1/tasks/{id}", Operator, 204, "Delete a task that has ended, or with force any, and all that hangs on it."},
	{"delete_tasks", post, "/v1/tasks:delete", Operator, 200, "Delete tasks, each answered on its own."},
	{"add_items", post, "/v1/tasks/{id}:add_items", Submitter, 200, "Add items to a task whose work is still open."},
	{"add_items_batch", post, "/v1/tasks:add_items", Submitter, 200, "Add items to tasks, each answered on its own."},
	{"cancel_task", post, "/v1/tasks/{id}:cancel", Submitter, 200, "Cancel a task, or some of its items."},
	{"cancel_tasks", post, "/v1/tasks:cancel", Submitter, 200, "Cancel tasks, each answered on its own."},
	{"retry_task", post, "/v1/tasks/{id}:retry", Operator, 200, "Queue a task's failed items again and reopen it."},
	{"retry_tasks", post, "/v1/tasks:retry", Operator, 200, "Retry tasks, each answered on its own."},
	{"bury_task", post, "/v1/tasks/{id}:bury", Operator, 200, "Set a task's failed items aside as dead letters."},
	{"bury_tasks", post, "/v1/tasks:bury", Operator, 200, "Bury tasks, each answered on its own."},
	{"checkpoint_task", post, "/v1/tasks/{id}:checkpoint", Submitter, 201, "Save a checkpoint of the task itself, without a lease."},
	{"checkpoint_tasks", post, "/v1/tasks:checkpoint", Submitter, 200, "Save checkpoints of tasks, each answered on its own."},
	{"task_result", get, "/v1/tasks/{id}/result", Reader, 200, "Read what a completed task came to."},
	{"task_items", get, "/v1/tasks/{id}/items", Reader, 200, "List a task's items, oldest first."},
	{"task_events", get, "/v1/tasks/{id}/events", Reader, 200, "List a task's events, newest first."},
	{"task_provenance", get, "/v1/tasks/{id}/provenance", Reader, 200, "List who did what to a task and with what, oldest first."},
	{"task_checkpoints", get, "/v1/tasks/{id}/checkpoints", Reader, 200, "List a task's checkpoints in order of their number."},
	{"count_checkpoints", get, "/v1/tasks/{id}/checkpoints/counts", Reader, 200, "Count a task's checkpoints by type."},

	{"send_signal", post, "/v1/signals", Submitter, 200, "Send a signal: items that wait for it are queued, and those that will go on at once."},
	{"send_signals", post, "/v1/signals:batch", Submitter, 200, "Send signals, each answered on its own."},

	{"claim", post, "/v1/claims", Claimer, 200, "Take items to work on, each under a lease; wait up to 60 s for some. The item that brings the inputs to 8 MiB is the last: claim again for more."},
	{"heartbeat", post, "/v1/items/{id}:heartbeat", Claimer, 200, "Extend a lease, and learn whether the item was cancelled."},
	{"heartbeat_items", post, "/v1/items:heartbeat", Claimer, 200, "Extend leases, each answered on its own."},
	{"progress", post, "/v1/items/{id}:progress", Claimer, 200, "Report how far an item is."},
	{"progress_items", post, "/v1/items:progress", Claimer, 200, "Report progress of items, each answered on its own."},
	{"checkpoint", post, "/v1/items/{id}:checkpoint", Claimer, 201, "Save a checkpoint under a lease."},
	{"checkpoint_items", post, "/v1/items:checkpoint", Claimer, 200, "Save checkpoints under leases, each answered on its own."},
	{"complete", post, "/v1/items/{id}:complete", Claimer, 200, "Hand in an item's result and end it."},
	{"complete_items", post, "/v1/items:complete", Claimer, 200, "Complete items, each answered on its own."},
	{"fail", post, "/v1/items/{id}:fail", Claimer, 200, "Say that an attempt failed; it is retried by policy."},
	{"fail_items", post, "/v1/items:fail", Claimer, 200, "Fail attempts, each answered on its own."},
	{"release", post, "/v1/items/{id}:release", Claimer, 200, "Give an item back, uncounted."},
	{"release_items", post, "/v1/items:release", Claimer, 200, "Release items, each answered on its own."},
	{"suspend", post, "/v1/items/{id}:suspend", Claimer, 200, "Give the lease up until a time or a signal."},
	{"revoke_lease", post, "/v1/items/{id}:revoke_lease", Operator, 200, "End the lease of an item, whoever holds it: the item is queued again, uncounted."},
	{"revoke_leases", post, "/v1/items:revoke_lease", Operator, 200, "Revoke leases, each answered on its own."},
	{"suspend_items", post, "/v1/items:suspend", Claimer, 200, "Suspend items, each answered on its own."},

	{"submit", post, "/v1/items/{id}:submit", Claimer, 200, "Hand in an item's result, to be accepted with its task."},
	{"submit_items", post, "/v1/items:submit", Claimer, 200, "Submit results, each answered on its own."},
	{"submit_part", post, "/v1/items/{id}/parts", Claimer, 201, "Hand in a piece of an item's result."},
	{"submit_parts", post, "/v1/parts:batch", Claimer, 200, "Hand in pieces of results, each answered on its own."},
	{"finalize", post, "/v1/items/{id}:finalize", Claimer, 200, "Put an item's parts together and submit what comes of it."},
	{"finalize_items", post, "/v1/items:finalize", Claimer, 200, "Finalize items, each answered on its own."},
	{"approve_task", post, "/v1/tasks/{id}:approve", Approver, 200, "Approve a submitted task; it is applied where that needs no worker."},
	{"approve_tasks", post, "/v1/tasks:approve", Approver, 200, "Approve tasks, each answered on its own."},
	{"reject_task", post, "/v1/tasks/{id}:reject", Approver, 200, "Reject a submitted task for good, or send items back for rework."},
	{"reject_tasks", post, "/v1/tasks:reject", Approver, 200, "Reject tasks, each answered on its own."},

	{"start_message", post, "/v1/items/{id}/messages", Claimer, 201, "Begin a message of an item; one with content is whole at once."},
	{"start_messages", post, "/v1/messages:batch", Claimer, 200, "Begin messages, each answered on its own."},
	{"append", post, "/v1/messages/{id}:append", Claimer, 200, "Add chunks to an open message, at the offset it has."},
	{"append_messages", post, "/v1/messages:append", Claimer, 200, "Add chunks to messages, each call answered on its own."},
	{"step_message", post, "/v1/messages/{id}:step", Claimer, 201, "End a step of an open message, with a checkpoint."},
	{"step_messages", post, "/v1/messages:step", Claimer, 200, "End steps of messages, each answered on its own."},
	{"finish_message", post, "/v1/messages/{id}:finish", Claimer, 200, "End an open message; its item goes on."},
	{"finish_messages", post, "/v1/messages:finish", Claimer, 200, "Finish messages, each answered on its own."},
	{"stop_message", post, "/v1/messages/{id}:stop", Submitter, 200, "Stop an open message: what was said stays, and its worker learns of it."},
	{"stop_messages", post, "/v1/messages:stop", Submitter, 200, "Stop messages, each answered on its own."},
	{"list_messages", get, "/v1/messages", Reader, 200, "List a conversation in order, open messages too."},
	{"get_message", get, "/v1/messages/{id}", Reader, 200, "Read a message, whole at any moment."},
	{"follow_message", get, "/v1/messages/{id}/stream", Reader, 200, "Follow a message as server-sent events, from any chunk on."},
	{"item_messages", get, "/v1/items/{id}/messages", Reader, 200, "List an item's messages in order."},

	{"chat", post, "/v1/chat/{type}", Submitter, 200, "Say something in a chat of the AI SDK, and stream the reply; the same message again is the same reply."},
	{"resume_chat", get, "/v1/chat/{type}/{chat}/stream", Reader, 200, "Stream the reply that is being made in a chat, from its first word; 204 when none is."},

	{"list_items", get, "/v1/items", Reader, 200, "List items, oldest first."},
	{"get_item", get, "/v1/items/{id}", Reader, 200, "Read an item."},
	{"resume_item", get, "/v1/items/{id}/resume", Claimer, 200, "Read all that the next attempt needs to go on."},
	{"item_parts", get, "/v1/items/{id}/parts", Reader, 200, "List the pieces of an item's result, oldest first."},
	{"item_events", get, "/v1/items/{id}/events", Reader, 200, "List an item's events, newest first."},
	{"item_provenance", get, "/v1/items/{id}/provenance", Reader, 200, "List who did what to an item and with what, oldest first."},

	{"list_events", get, "/v1/events", Reader, 200, "List events, newest first, or with after in feed order; as text/event-stream, follow the feed."},
	{"list_checkpoints", get, "/v1/checkpoints", Reader, 200, "List checkpoints in order of their number."},

	{"list_workers", get, "/v1/workers", Reader, 200, "List workers, last seen first."},
	{"register_worker", post, "/v1/workers", Claimer, 204, "Enter a worker into the registry, or renew its entry."},
	{"stats", get, "/v1/stats", Reader, 200, "Count what there is, now."},
	{"list_sweeps", get, "/v1/sweeps", Reader, 200, "List sweeps with what each did, newest first."},
	{"sweep", post, "/v1/sweeps", Operator, 200, "Run one pass over what time moves."},
	{"list_archives", get, "/v1/archives", Operator, 200, "List archived tasks, newest first."},
	{"restore_archive", post, "/v1/archives/{id}:restore", Operator, 200, "Bring an archived task back."},

	{"list_relays", get, "/v1/relays", Operator, 200, "Say where the relays stand, which send events to other systems."},
	{"resume_relay", post, "/v1/relays/{id}:resume", Operator, 200, "Have a disabled relay tried again."},
	{"forget_relay", del, "/v1/relays/{id}", Operator, 204, "Remove what is known of a relay that nobody runs any more."},

	{"list_types", get, "/v1/types", Reader, 200, "List registered types by name."},
	{"get_type", get, "/v1/types/{id}", Reader, 200, "Read a type: the version that holds, or the one asked for."},
	{"put_type", put, "/v1/types/{id}", Operator, 201, "Register a type; 200 with unchanged set when the definition was there already."},
	{"put_types", post, "/v1/types:put", Operator, 200, "Register types, each answered on its own."},
	{"remove_type", del, "/v1/types/{id}", Operator, 204, "Take a type off the registry; its tasks go on with the version they have."},
	{"remove_types", post, "/v1/types:remove", Operator, 200, "Take types off the registry, each answered on its own."},

	{"check_token", get, "/v1/task-token", Reader, 200, "Say what a task token stands for, while its lease runs."},

	{"list_keys", get, "/v1/idempotency-keys", Reader, 200, "List idempotency keys, newest first."},
	{"get_key", get, "/v1/idempotency-keys/{id}", Submitter, 200, "Read an idempotency key."},
	{"get_keys", post, "/v1/idempotency-keys:get", Submitter, 200, "Read idempotency keys, each answered on its own."},
	{"begin_key", post, "/v1/idempotency-keys/{id}:begin", Submitter, 200, "Open a key: run means that the caller is to run, else the first answer stands."},
	{"begin_keys", post, "/v1/idempotency-keys:begin", Submitter, 200, "Open keys, each answered on its own."},
	{"renew_key", post, "/v1/idempotency-keys/{id}:renew", Submitter, 200, "Keep a key for a run that goes on."},
	{"renew_keys", post, "/v1/idempotency-keys:renew", Submitter, 200, "Keep keys for runs that go on, each answered on its own."},
	{"complete_key", post, "/v1/idempotency-keys/{id}:complete", Submitter, 200, "Keep the answer of a run."},
	{"complete_keys", post, "/v1/idempotency-keys:complete", Submitter, 200, "Keep the answers of runs, each answered on its own."},
	{"fail_key", post, "/v1/idempotency-keys/{id}:fail", Submitter, 200, "Keep the error of a run; the next begin runs again."},
	{"fail_keys", post, "/v1/idempotency-keys:fail", Submitter, 200, "Keep the errors of runs, each answered on its own."},

	{"plain_create_task", post, "/tasks", Submitter, 201, "Create a task; takes and answers the older shape; 200 when its dedupe found an older one."},
	{"plain_task", get, "/tasks/{id}", Reader, 200, "Read a task in the older shape: status in capitals, state as text."},
	{"plain_task_events", get, "/tasks/{id}/events", Reader, 200, "List a task's newest 100 events in the older shape."},
	{"plain_task_cancel", post, "/tasks/{id}:cancel", Submitter, 200, "Cancel a task; answers in the older shape."},
	{"plain_task_retry", post, "/tasks/{id}:retry", Operator, 200, "Retry a task; answers in the older shape."},

	{"health", get, "/healthz", Anyone, 200, "Say that the process runs."},
	{"ready", get, "/readyz", Anyone, 200, "Say that the server takes calls: 503 while it stops or its database does not answer."},
	{"metrics", get, "/metrics", Reader, 200, "Tell how requests went and what is queued, for Prometheus."},
	{"reference", get, "/docs", Anyone, 200, "Describe the API as a page, which needs nothing from elsewhere."},
	{"description", get, "/openapi.json", Anyone, 200, "Describe the API as OpenAPI 3.1."},
}

// Mutates says that the call changes something, so that it takes an
// idempotency key; what is said in a chat is known by its own id.
func (r Route) Mutates() bool {
	return r.Method != http.MethodGet && r.Name != "get_keys" && r.Name != "chat"
}

// RouteOf is the row of a name. A name that is in no row is a programmer's
// error and panics.
func RouteOf(name string) Route {
	for _, r := range Routes {
		if r.Name == name {
			return r
		}
	}
	panic("api: no route " + name)
}

// NamespaceHeader names the namespace of a call and ActorHeader who makes it
// (type/id, or a type alone); both are percent-encoded. A server without API
// keys takes both at their word.
const (
	NamespaceHeader = "Pawl-Namespace"
	ActorHeader     = "Pawl-Actor"
)

// TaskTokenHeader carries the task token that is asked about.
const TaskTokenHeader = "Pawl-Task-Token"

// The headers of idempotency keys. A mutating call with KeyHeader (or the same
// with X- before it) is carried out once, and its answer given again with
// ReplayedHeader; KeySecondsHeader says for how long, 24 hours without it.
const (
	KeyHeader        = "Idempotency-Key"
	KeySecondsHeader = "Idempotency-Seconds"
	ReplayedHeader   = "Idempotency-Replayed"
)
