package pawl

// The names that Pawl keeps for itself.
const (
	// ReservedPrefix begins the names of types that Pawl itself makes tasks of. Callers cannot
	// create tasks of these types, register them or set limits of their queues.
	ReservedPrefix = "pawl."

	// TypeBulk is the type of the tasks that stand for bulk calls. Engines carry them out; no
	// worker can claim them.
	TypeBulk = ReservedPrefix + "bulk"

	// TypeBudget is the type of the tasks by which items ask for more of a budget, all that wait for
	// one by the same task. Their result is a BudgetQuestion, and they wait for an approval. No worker
	// claims them.
	TypeBudget = ReservedPrefix + "budget"

	// TypeRelayDisabled is the type of the task that reports a disabled relay: a failed task
	// of namespace default, created in the same transaction. Its payload is the Relay.
	TypeRelayDisabled = "pawl.relay_disabled"

	// Suffixes of the types of plan and apply items. Tasks and other items must not have
	// such a type: a worker that claims one relies on it coming from Pawl.
	PlanSuffix  = ".plan"
	ApplySuffix = ".apply"

	// BudgetSignal is the name of the signal that wakes the items that wait for a budget.
	BudgetSignal = "pawl.budget"

	// EffectSignal is the name of the signal that is sent when an effect is approved, rejected or
	// resolved. Its key is the effect's id.
	EffectSignal = "pawl.effect"

	// BlobMember is the name of the member of an object that refers to an uploaded blob, in a
	// payload, input, result, part or snapshot: {"$blob": "sha256:…"}. The name is to be spelled
	// without escapes. The blob must have been uploaded to the namespace before. It then stays as
	// long as the task or its archive exists. Readers get the object as it was written, and read
	// the bytes by the address; see BlobReader.
	BlobMember = "$blob"

	// EffectReceiptFormat is the member format of receipts.
	EffectReceiptFormat = "pawl-effect-receipt-v1"
)
