package api

import "github.com/pawl-work/pawl"

// effectRoutes are the calls about effects.
var effectRoutes = []Route{
	{Name: "list_effects", Method: get, Path: "/v1/effects", Role: Reader, Success: 200,
		Means: "List effects, newest first, by state, task, item, name or key. Unknown ones wait for a person.",
		Tools: []Tool{
			{Name: "work_effects", Title: "List effects", Hints: ToolReads,
				Means: "List calls to the outside, newest first: whether each happened. Those in state unknown or waiting wait for a person."},
		},
	},
	{Name: "get_effect", Method: get, Path: "/v1/effects/{id}", Role: Reader, Success: 200,
		Means: "Read an effect: a call to the outside, whether it happened, and who says so."},
	{Name: "effect_receipt", Method: get, Path: "/v1/effects/{id}/receipt", Role: Reader, Success: 200,
		Means: "Prove what became of an effect, without the database: its events in the signed log."},
	{Name: "open_effect", Method: post, Path: "/v1/effects:open", Role: Claimer, Success: 200,
		Means:   "Ask for the right to send an effect, once. With send: true send it, then report what came of it.",
		Refuses: []pawl.Code{pawl.CodeLeaseLost, pawl.CodeEffectUnknown, pawl.CodeConflict, pawl.CodeKeyReused, pawl.CodeBudgetExhausted},
		Tools: []Tool{
			{Name: "work_effect_open", Title: "Begin an effect",
				Means: "Before a call to the outside that must not happen twice: record it. Make the call only if send is true, then report; " +
					"otherwise answer has what came of it, or ask again later."},
		},
		Traits: ShowsPayloads | AnswersLate},
	{Name: "report_effect_done", Method: post, Path: "/v1/effects/{id}:done", Role: Claimer, Success: 200,
		Means: "Report that an effect happened, with its answer. A late report is kept, never refused.",
		Tools: []Tool{
			{Name: "work_effect_report", Title: "Report an effect", Hints: ToolRepeats,
				Means: "Say what came of a call to the outside: done, failed, or unknown if you cannot tell."},
		},
		Refuses: []pawl.Code{pawl.CodeLeaseLost}, Traits: Repeatable},
	{Name: "report_effect_failed", Method: post, Path: "/v1/effects/{id}:failed", Role: Claimer, Success: 200,
		Means:   "Report that an effect is known not to have happened.",
		Refuses: []pawl.Code{pawl.CodeLeaseLost}}, // without its sending, a late repetition would be about a later one
	{Name: "report_effect_unknown", Method: post, Path: "/v1/effects/{id}:unknown", Role: Claimer, Success: 200,
		Means:   "Report that it is not known whether an effect happened.",
		Refuses: []pawl.Code{pawl.CodeLeaseLost}, Traits: Repeatable},
	{Name: "keep_effect", Method: post, Path: "/v1/effects/{id}:keep", Role: Claimer, Success: 200,
		Means:   "Extend the lease of a gate on an effect that it sends: one that was opened with lease_seconds.",
		Refuses: []pawl.Code{pawl.CodeLeaseLost}, Traits: NoKey | Repeatable},
	{Name: "approve_effect", Method: post, Path: "/v1/effects/{id}:approve", Role: Approver, Success: 200,
		Means: "Let an effect be sent that waits for it.", Refuses: []pawl.Code{pawl.CodeConflict}},
	{Name: "reject_effect", Method: post, Path: "/v1/effects/{id}:reject", Role: Approver, Success: 200,
		Means: "Refuse an effect that waits to be sent, for good.", Refuses: []pawl.Code{pawl.CodeConflict}},
	{Name: "resolve_effect", Method: post, Path: "/v1/effects/{id}:resolve", Role: Approver, Success: 200,
		Means: "Decide about an unknown effect: it happened, it did not happen, or give up.", Refuses: []pawl.Code{pawl.CodeConflict},
		Tools: []Tool{
			{Name: "work_effect_resolve", Title: "Decide about an effect",
				Means: "Approve or reject a call to the outside that waits, or say of an unknown one whether it happened."},
		},
	},
}
