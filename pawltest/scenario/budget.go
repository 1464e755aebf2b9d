package scenario

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/pawl-work/pawl"
)

// budget shows a budget, puts it or deletes it.
func budget(s *stage, c call) (string, error) {
	var b pawl.Budget
	var err error
	switch name, do := c.word(0), c.word(1); do {
	case "":
		b, err = s.svc.GetBudget(s.ctx, name)
	case "delete":
		return "", s.svc.DeleteBudget(s.ctx, name)
	default:
		var n pawl.NewBudget
		if err := json.Unmarshal([]byte(do), &n); err != nil {
			return "", err
		}
		b, err = s.svc.PutBudget(s.ctx, name, n)
	}
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("limit %d %s, spent %d, reserved %d, remaining %d", b.Limit, b.Unit, b.Spent, b.Reserved, b.Remaining), nil
}

// reserve reserves an amount of a budget.
func reserve(s *stage, c call) (string, error) {
	f := s.fence(c)
	amount, _ := strconv.ParseInt(c.word(3), 10, 64)
	r, err := s.svc.ReserveBudget(s.ctx, c.word(2),
		pawl.ReserveCall{ItemID: f.ItemID, WorkerID: f.WorkerID, Attempt: f.Attempt, Amount: amount, Key: c.named["key"]})
	if err != nil {
		return "", err
	}
	out := fmt.Sprintf("%s: %d, remaining %d", s.name("reservation", r.Reservation), r.Amount, r.Remaining)
	if r.Settled != nil {
		out += fmt.Sprintf(", settled %d", *r.Settled)
	}
	return out, nil
}

// settle records what was spent of a reservation.
func settle(s *stage, c call) (string, error) {
	f := s.fence(c)
	amount, _ := strconv.ParseInt(c.word(4), 10, 64)
	r, err := s.svc.SettleBudget(s.ctx, c.word(2), pawl.SettleCall{Reservation: s.id(c.word(3)), Amount: amount,
		ItemID: f.ItemID, WorkerID: f.WorkerID, Attempt: f.Attempt})
	return fmt.Sprintf("spent %d, remaining %d", r.Spent, r.Remaining), err
}
