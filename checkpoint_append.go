package pawl

// CheckpointAppend appends checkpoints to a task, all or none, in one transaction and without a
// lease. They are the task's own: they belong to no item, and workers that hold items of the task
// save theirs meanwhile. Only the types of TaskCheckpointTypes are allowed. A task that has ended
// is a conflict.
type CheckpointAppend struct {
	TaskID string `json:"task_id,omitempty"`
	// in place of TaskID: the task is created first, in a transaction of its own. With Unique and
	// OnConflictReturn, an older task with the key gets the checkpoints
	Create *NewTask `json:"create,omitempty"`
	// Expected is the number of the newest checkpoint of the task, those of its items included;
	// 0 = it has none. If it is another, the call is a conflict with that number in
	// Error.Expected. nil = any
	Expected    *int64               `json:"expected,omitempty"`
	Checkpoints []AppendedCheckpoint `json:"checkpoints"` // 1 to MaxAppendCheckpoints
	// Prune is carried out after the append, in the same transaction.
	Prune []PruneRule `json:"prune,omitempty"`
}

// AppendedCheckpoint is one of the checkpoints of an append.
type AppendedCheckpoint struct {
	NewCheckpoint
	// what is done if the task itself has a checkpoint of the name: NameRefuse, NameReplace or
	// NameKeep, for which the name is given once in the call; "" = nothing
	OnConflict string `json:"on_conflict,omitempty"`
}

// CheckpointsAppended is the answer to an append.
type CheckpointsAppended struct {
	TaskID      string        `json:"task_id"`
	Checkpoints []AppendedRef `json:"checkpoints"`        // in the order of the call
	Newest      int64         `json:"newest"`             // the number of the task's newest checkpoint
	Replaced    int           `json:"replaced,omitempty"` // older checkpoints that NameReplace removed
	Pruned      int           `json:"pruned,omitempty"`   // checkpoints that the rules removed
}

// AppendedRef is the id and the number of a checkpoint of an append.
type AppendedRef struct {
	CheckpointRef
	Kept bool `json:"kept,omitempty"` // an older one that has the name: NameKeep
}

// PruneRule keeps the newest checkpoints of those of a task itself whose names begin with a
// prefix, and removes the others. Of an append, its own checkpoints count. The newest checkpoint
// of a task stays in any case.
type PruneRule struct {
	Prefix string `json:"prefix"` // "" = all that have a name
	Keep   int    `json:"keep"`   // 0 = none
}

// CheckpointPrune removes checkpoints of a task by rules. It changes nothing if there is nothing
// to remove, and can be repeated. A call removes at most MaxPrunedCheckpoints.
type CheckpointPrune struct {
	TaskID string      `json:"task_id"`
	Rules  []PruneRule `json:"rules"` // 1 to MaxPruneRules
}

// CheckpointsPruned is the answer to a prune.
type CheckpointsPruned struct {
	Pruned int  `json:"pruned"`
	More   bool `json:"more,omitempty"` // more than a call removes: call again
}
