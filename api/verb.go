package api

import (
	"context"
	"strings"

	"github.com/pawl-work/pawl"
)

// Verb is a call that has a batch form, in which each call is answered on its own, and a
// single form. The single form is a batch of one without the member that its path names. C is
// the type of a call, V that of its answer.
type Verb[C, V any] struct {
	Batch, Single string // names in Routes
	Do            func(pawl.Service, context.Context, []C) ([]pawl.Result[V], error)
}

// These are the verbs; each names the routes of its batch form and of its single form.
var (
	CreateTasks     = Verb[pawl.NewTask, pawl.Task]{"create_tasks", "create_task", pawl.Service.CreateTasks}
	UpdateTasks     = Verb[pawl.TaskUpdate, pawl.Task]{"update_tasks", "update_task", pawl.Service.UpdateTasks}
	CloneTasks      = Verb[pawl.TaskClone, pawl.Task]{"clone_tasks", "clone_task", pawl.Service.CloneTasks}
	ForkTasks       = Verb[pawl.TaskFork, pawl.Task]{"fork_tasks", "fork_task", pawl.Service.ForkTasks}
	DeleteTasks     = Verb[pawl.TaskCall, string]{"delete_tasks", "delete_task", pawl.Service.DeleteTasks}
	AddItems        = Verb[pawl.AddItems, pawl.Task]{"add_items_batch", "add_items", pawl.Service.AddItems}
	CancelTasks     = Verb[pawl.TaskCall, pawl.Task]{"cancel_tasks", "cancel_task", pawl.Service.CancelTasks}
	RetryTasks      = Verb[pawl.TaskCall, pawl.Task]{"retry_tasks", "retry_task", pawl.Service.RetryTasks}
	BuryTasks       = Verb[pawl.TaskCall, pawl.Task]{"bury_tasks", "bury_task", pawl.Service.BuryTasks}
	CheckpointTasks = Verb[pawl.TaskCheckpoint, pawl.CheckpointRef]{"checkpoint_tasks", "checkpoint_task", pawl.Service.CheckpointTasks}
	AppendTasks     = Verb[pawl.CheckpointAppend, pawl.CheckpointsAppended]{"append_tasks", "append_task", pawl.Service.AppendCheckpoints}
	PruneTasks      = Verb[pawl.CheckpointPrune, pawl.CheckpointsPruned]{"prune_tasks", "prune_task", pawl.Service.PruneCheckpoints}
	ApproveTasks    = Verb[pawl.ApproveCall, pawl.Task]{"approve_tasks", "approve_task", pawl.Service.ApproveTasks}
	RejectTasks     = Verb[pawl.RejectCall, pawl.Task]{"reject_tasks", "reject_task", pawl.Service.RejectTasks}
	SendSignals     = Verb[pawl.SignalCall, pawl.Signalled]{"send_signals", "send_signal", pawl.Service.SendSignals}

	Heartbeat    = Verb[pawl.HeartbeatCall, pawl.Beat]{"heartbeat_items", "heartbeat", pawl.Service.Heartbeat}
	Progress     = Verb[pawl.ProgressCall, pawl.Moved]{"progress_items", "progress", pawl.Service.Progress}
	Checkpoint   = Verb[pawl.CheckpointCall, pawl.CheckpointRef]{"checkpoint_items", "checkpoint", pawl.Service.Checkpoint}
	Complete     = Verb[pawl.CompleteCall, pawl.Moved]{"complete_items", "complete", pawl.Service.Complete}
	Fail         = Verb[pawl.FailCall, pawl.Moved]{"fail_items", "fail", pawl.Service.Fail}
	Release      = Verb[pawl.ReleaseCall, pawl.Moved]{"release_items", "release", pawl.Service.Release}
	Suspend      = Verb[pawl.SuspendCall, pawl.Moved]{"suspend_items", "suspend", pawl.Service.Suspend}
	Spawn        = Verb[pawl.SpawnCall, pawl.Task]{"spawn_children", "spawn_child", pawl.Service.Spawn}
	RevokeLeases = Verb[pawl.RevokeCall, pawl.Moved]{"revoke_leases", "revoke_lease", pawl.Service.RevokeLeases}
	Submit       = Verb[pawl.SubmitCall, pawl.Moved]{"submit_items", "submit", pawl.Service.Submit}
	Finalize     = Verb[pawl.FinalizeCall, pawl.Moved]{"finalize_items", "finalize", pawl.Service.Finalize}
	SubmitParts  = Verb[pawl.PartCall, pawl.ItemPart]{"submit_parts", "submit_part", pawl.Service.SubmitParts}

	StartMessages  = Verb[pawl.StartCall, pawl.Message]{"start_messages", "start_message", pawl.Service.StartMessages}
	OpenMessages   = Verb[pawl.OpenCall, pawl.OpenedMessage]{"open_messages", "open_message", pawl.Service.OpenMessages}
	Append         = Verb[pawl.AppendCall, pawl.Appended]{"append_messages", "append", pawl.Service.Append}
	StepMessages   = Verb[pawl.StepCall, pawl.CheckpointRef]{"step_messages", "step_message", pawl.Service.StepMessages}
	FinishMessages = Verb[pawl.FinishCall, pawl.Message]{"finish_messages", "finish_message", pawl.Service.FinishMessages}
	StopMessages   = Verb[pawl.StopCall, pawl.Message]{"stop_messages", "stop_message", pawl.Service.StopMessages}

	PutTypes    = Verb[pawl.Type, pawl.TypeRef]{"put_types", "put_type", pawl.Service.PutTypes}
	RemoveTypes = Verb[string, string]{"remove_types", "remove_type", pawl.Service.RemoveTypes}

	GetKeys      = Verb[pawl.KeyName, pawl.Key]{"get_keys", "get_key", pawl.Service.GetKeys}
	BeginKeys    = Verb[pawl.KeyBegin, pawl.KeyBegun]{"begin_keys", "begin_key", pawl.Service.BeginKeys}
	RenewKeys    = Verb[pawl.KeyRenew, pawl.Key]{"renew_keys", "renew_key", pawl.Service.RenewKeys}
	CompleteKeys = Verb[pawl.KeyDone, pawl.Key]{"complete_keys", "complete_key", pawl.Service.CompleteKeys}
	FailKeys     = Verb[pawl.KeyDone, pawl.Key]{"fail_keys", "fail_key", pawl.Service.FailKeys}
)

// Noun says of what noun the {id} of a route's path is: "task", "item", or "" for another.
func (r Route) Noun() string {
	for _, path := range []string{"/v1/tasks/", "/tasks/", "/v1/log/tasks/", "/v1/archives/"} {
		if strings.HasPrefix(r.Path, path+"{id}") {
			return "task"
		}
	}
	if strings.HasPrefix(r.Path, "/v1/items/{id}") {
		return "item"
	}
	return ""
}

// Subject returns the member of a call that the path of its single form names; "" = none.
func (r Route) Subject() string {
	switch {
	case !strings.Contains(r.Path, "{id}"):
		return ""
	case strings.HasPrefix(r.Path, "/v1/tasks/"):
		return "task_id"
	case strings.HasPrefix(r.Path, "/v1/idempotency-keys/"):
		return "key"
	}
	return "id"
}
