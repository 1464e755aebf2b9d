package pawl

import (
	"strconv"
	"strings"
	"time"
)

// Budget is a named allowance of any unit: tokens, requests, or the smallest unit of a
// currency. Items reserve an amount from it before they spend, and settle the real amount
// afterwards. Limit is Spent + Reserved + Remaining.
type Budget struct {
	Name string `json:"name"`
	NewBudget
	Spent     int64 `json:"spent"`     // settled, and charged for reservations that were lost, in this period
	Reserved  int64 `json:"reserved"`  // reserved in this period and not settled yet
	Remaining int64 `json:"remaining"` // negative after a settle above its reservation, or when the limit was lowered
	// The period that the numbers are about, in UTC. PeriodEnd is nil for a budget without
	// periods.
	PeriodStart time.Time  `json:"period_start"`
	PeriodEnd   *time.Time `json:"period_end"`
	CreatedAt   time.Time  `json:"created_at"`
	UpdatedAt   time.Time  `json:"updated_at"`        // of the last PutBudget
	Created     bool       `json:"created,omitempty"` // in the answer of the PutBudget that made it
}

// NewBudget is what an operator says about a budget.
type NewBudget struct {
	Unit  string `json:"unit"`  // a name of at most MaxUnitLen characters; it cannot be changed once there is a reservation
	Limit int64  `json:"limit"` // 1…MaxBudgetAmount units in each period
	// AppliesTo says which items may reserve; nil = all of the namespace.
	AppliesTo   *BudgetScope `json:"applies_to,omitempty"`
	Period      string       `json:"period,omitempty"`       // one of BudgetPeriods; "" = none
	OnExhausted string       `json:"on_exhausted,omitempty"` // one of BudgetPolicies; "" = fail
	OnLost      string       `json:"on_lost,omitempty"`      // one of BudgetLosses; "" = charge
}

// BudgetScope says which items may reserve from a budget: those that match all its members.
type BudgetScope struct {
	Type   string `json:"type,omitempty"`              // the type of the item, which names its queue
	Key    string `json:"key,omitempty"`               // the item's value at the pointer of its queue's per_key
	TaskID string `json:"task_id,omitempty" id:"task"` // the item belongs to this task or to one of its descendants
}

// The words of budgets.
const (
	// The periods of budgets. They begin at midnight UTC; months on their first day.
	PeriodDay   = "day"
	PeriodMonth = "month"
	PeriodNone  = "none" // one period for ever

	// What becomes of an item when a budget is exhausted. The server says it, and opens the approval
	// of ExhaustedAsk; the worker fails or suspends the item: see Reserve.
	ExhaustedFail    = "fail"    // the item fails and is not retried
	ExhaustedSuspend = "suspend" // the item is suspended until the next period, or until the budget is changed
	ExhaustedAsk     = "ask"     // the item is suspended until a person has approved or rejected a task of TypeBudget

	// What becomes of a reservation whose attempt ended without settling it.
	LostCharge = "charge" // its whole amount counts as spent
	LostReturn = "return" // it counts no more

	// MaxBudgetQuestions is how many tasks that ask for more of one budget have items that wait, of
	// which all but one were cancelled. With more, an item that asks waits until the budget is changed,
	// and for BudgetRetry at most.
	MaxBudgetQuestions = 100
)

// The lists of these words, and of what spending is grouped by.
var (
	// The values of NewBudget.Period, OnExhausted and OnLost. The first is the default.
	BudgetPeriods  = []string{PeriodNone, PeriodDay, PeriodMonth}
	BudgetPolicies = []string{ExhaustedFail, ExhaustedSuspend, ExhaustedAsk}
	BudgetLosses   = []string{LostCharge, LostReturn}

	// SpendingGroups lists what spending is grouped by. Agent and model are those of the
	// reservation, or else of the provenance of the claim. The type is that of the task, the key that of the reservation, and the
	// day that on which it was settled, in UTC; they are not known of reservations that are no longer kept.
	SpendingGroups = []string{"task", "model", "agent", "type", "key", "day"}
)

// ReserveCall reserves an amount for an attempt, which holds the lease of its item.
type ReserveCall struct {
	ItemID   string `json:"item_id"`
	WorkerID string `json:"worker_id"`
	Attempt  int    `json:"attempt"`
	Amount   int64  `json:"amount"` // 1…MaxBudgetAmount
	// Key names the reservation within the item, for retries (≤ MaxKeyLen). The same key again
	// is the same reservation, also for a later attempt of the same period, which adopts it.
	Key     string `json:"key"`
	Unit    string `json:"unit,omitempty"`     // "" = the budget's; another one is refused
	AgentID string `json:"agent_id,omitempty"` // ≤ MaxIDLen; "" = that of the claim's provenance, or else the worker
	Model   string `json:"model,omitempty"`    // ≤ MaxIDLen; "" = that of the claim's provenance
}

// Fence returns the claim that the call belongs to.
func (c ReserveCall) Fence() Fence { return Fence{c.ItemID, c.WorkerID, c.Attempt} }

// Reserved answers a ReserveCall.
type Reserved struct {
	Reservation string `json:"reservation"` // its id
	Amount      int64  `json:"amount"`      // of the first call with the key, or what a later attempt raised it to
	Remaining   int64  `json:"remaining"`   // of the budget
	// Settled is the amount that the reservation was settled with before; nil = it is not
	// settled. To spend again, reserve with another key.
	Settled *int64 `json:"settled,omitempty"`
}

// SettleCall says what was really spent of a reservation.
type SettleCall struct {
	Reservation string `json:"reservation"`
	Amount      int64  `json:"amount"` // 0…MaxBudgetAmount; it may exceed the reservation
	ItemID      string `json:"item_id"`
	WorkerID    string `json:"worker_id"`
	Attempt     int    `json:"attempt"`
}

// Fence returns the claim that the call belongs to.
func (c SettleCall) Fence() Fence { return Fence{c.ItemID, c.WorkerID, c.Attempt} }

// Settled answers a SettleCall, with the budget's numbers of the current period.
type Settled struct {
	Remaining int64 `json:"remaining"`
	Spent     int64 `json:"spent"`
}

// Exhausted is what a refusal with budget_exhausted says about the budget.
type Exhausted struct {
	Budget      string
	OnExhausted string
	Limit       int64
	Remaining   int64
	// Reserved is by attempts that have not settled yet, or charged for lost ones, so that some of it may come back.
	Reserved  int64
	PeriodEnd *time.Time // nil = the budget has no periods
	// SignalKey is the key of the signal BudgetSignal that is sent when the budget is changed
	// or deleted after the refusal, and when the item's question is answered.
	SignalKey string
	// TaskID is the task of TypeBudget by which the item asks a person; "" = it does not ask.
	TaskID string
}

// BudgetQuestion is what an approver reads: the reservation that was refused first, the budget's
// numbers at that time, and what all items need that ask now, or asked when it was decided.
type BudgetQuestion struct {
	Budget    string `json:"budget"`
	Unit      string `json:"unit"`
	ItemID    string `json:"item_id"`
	TaskID    string `json:"task_id"`
	WorkerID  string `json:"worker_id"`
	Amount    int64  `json:"amount"` // that was asked for
	Limit     int64  `json:"limit"`
	Remaining int64  `json:"remaining"`
	Waiting   int    `json:"waiting"` // how many items ask
	Needed    int64  `json:"needed"`  // the sum of their amounts
}

// BudgetSignalKey returns the key of the signal that is sent when a budget changes that was
// changed last at a time. task is the one by which the waiting item asks a person, or "".
func BudgetSignalKey(name string, changed time.Time, task string) string {
	key := name + "@" + strconv.FormatInt(changed.UnixMicro(), 10)
	if task != "" {
		key += "/" + task
	}
	return key
}

// BudgetOfSignal returns the name of the budget in the key of a BudgetSignal.
func BudgetOfSignal(key string) string {
	if at := strings.LastIndexByte(key, '@'); at >= 0 {
		return key[:at]
	}
	return key
}

// BudgetSpendingFilter asks for the spending of a budget.
type BudgetSpendingFilter struct {
	By    string // one of SpendingGroups; "" = task
	All   bool   // of all periods
	Ago   int    // of one period, so many before the current one (≤ MaxPeriodsAgo); those without a reservation do not count
	Limit int    // at most so many groups, those with the most; 0 = DefaultPage
}

// MaxPeriodsAgo bounds BudgetSpendingFilter.Ago.
const MaxPeriodsAgo = 999_999

// Period names the periods as the interfaces do: "" = the current one, all, or -1 = the last past one, -2 = the one before it.
// Of all and one it makes what they refuse.
func (f BudgetSpendingFilter) Period() string {
	switch {
	case f.All && f.Ago != 0:
		return "all" + strconv.Itoa(-f.Ago)
	case f.All:
		return "all"
	case f.Ago != 0:
		return strconv.Itoa(-f.Ago)
	}
	return ""
}

// SetPeriod asks for the periods that Period names, or current. Another text is invalid.
func (f *BudgetSpendingFilter) SetPeriod(period string) error {
	ago := 0
	if f.All = period == "all"; !f.All && period != "" && period != "current" {
		n, err := strconv.Atoi(period)
		if err != nil || n >= 0 || n < -MaxPeriodsAgo {
			return Invalid("/period", "must be current, all, or -1, -2, …")
		}
		ago = -n
	}
	f.Ago = ago
	return nil
}

// BudgetSpending is what was spent of a budget, in groups.
type BudgetSpending struct {
	Budget string `json:"budget"`
	Unit   string `json:"unit"`
	By     string `json:"by"`
	// Since is the start of the current period, or when the first reservation of a past one was made; nil = of all periods, or
	// not known any more.
	Since *time.Time     `json:"since,omitempty"`
	Spent int64          `json:"spent"` // of all groups, also of those that are not listed
	Items []SpendingItem `json:"items"` // with the most spent first
}

// TaskSpending is what the items of a task spent of one budget, in all periods. Reservations
// that ended BudgetDetailKept ago are not known any more.
type TaskSpending struct {
	Budget       string `json:"budget"`
	Unit         string `json:"unit"`
	Spent        int64  `json:"spent"`
	Reserved     int64  `json:"reserved"` // not settled yet
	Reservations int64  `json:"reservations"`
}

// SpendingItem is what one group spent.
type SpendingItem struct {
	// Name is the task's id, the model or the agent. It is "" where that is not known: of
	// deleted tasks, and by task of reservations that ended BudgetDetailKept ago.
	Name         string `json:"name"`
	Spent        int64  `json:"spent"`
	Reservations int64  `json:"reservations"` // that ended, settled or lost
}
