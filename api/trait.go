package api

// Trait is a property that sets a call apart. Traits are bits.
type Trait uint16

// These are the traits.
const (
	Global        Trait = 1 << iota // concerns all namespaces
	PayloadOnly                     // its answer holds nothing but payloads
	ShowsPayloads                   // every caller sees its payloads: they belong to what it claims
	AnswersLate                     // may wait: its answer is written after the rest of the request has returned
	Streams                         // answers with server-sent events
	Steps                           // runs in several transactions, also under an idempotency key
	ReadOnly                        // changes nothing, although its method is not GET
	NoKey                           // takes no idempotency key: what it carries makes it idempotent, or the same call is made again and again
	Repeatable                      // a repeated call changes nothing more: a client repeats it without a key
	NoOwnKey                        // a client sends it without a key of its own making
	TakesVersion                    // reads If-Match: the version that the task must still have
	TakesBytes                      // its body is bytes of any type, read as they come
	SendsBytes                      // answers with bytes, whole or in ranges
	MayStream                       // answers with server-sent events if the caller accepts them
	TakesLong                       // reads or copies any number of rows: the answer may come after minutes
	NoGivenKey                      // a client sends it without the key of its caller's calls: its first answer is for one caller
)
