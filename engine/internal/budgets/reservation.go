package budgets

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// The states of a reservation.
const (
	reservationOpen = iota
	reservationSettled
	reservationCharged  // its attempt ended without settling it, and its amount was charged
	reservationReturned // its attempt ended without settling it, and it counts no more
)

// lostBatch is how many lost reservations are ended in one transaction.
const lostBatch = 1000

// errMoreLost refuses a reservation that does not fit before more lost ones are ended. The
// call is to be repeated in another transaction.
var errMoreLost = errors.New("the budget has more lost reservations")

// reservation is a row of budget_reservations.
type reservation struct {
	id              string
	period          int64
	attempt, state  int
	amount, charged int64
}

func (r *reservation) targets() []any {
	return []any{&r.id, &r.period, &r.attempt, &r.state, &r.amount, &r.charged}
}

// spent and reserved are what the reservation counts for in its period.
func (r *reservation) spent() int64 { return r.charged }

func (r *reservation) reserved() int64 {
	if r.state == reservationOpen {
		return r.amount
	}
	return 0
}

// move changes the state of a reservation of the locked budget, and the budget's numbers if
// the reservation is of the current period.
func (r *reservation) move(b *Row, state int, charged int64) {
	spent, reserved := r.spent(), r.reserved()
	r.state, r.charged = state, charged
	if r.period == b.PeriodNumber {
		b.Spent += r.spent() - spent
		b.Reserved += r.reserved() - reserved
	}
}

func (r *reservation) write(ctx context.Context, tx store.Tx, now int64) error {
	var ended *int64
	if r.state != reservationOpen {
		ended = &now
	}
	_, err := tx.Exec(ctx, texts["change reservation"], r.id, r.period, r.attempt, r.state, r.amount, r.charged, ended)
	return err
}

// Reserve reserves an amount of a budget for the locked item. id is that of the reservation
// if it is new. exhausted says why it was refused; nil = it was not. What it finds out about
// other reservations is written in both cases.
func Reserve(ctx context.Context, tx store.Tx, g *store.LockedItem, id, name string, c *pawl.ReserveCall) (out pawl.Reserved, exhausted,
	err error) {
	b, now, err := lock(ctx, tx, g.Namespace, name)
	if err != nil {
		return out, nil, err
	}
	if err := fits(ctx, tx, g, &b, c); err != nil {
		return out, nil, err
	}
	var r reservation
	for reclaimed, others := false, false; ; reclaimed = true {
		r = reservation{}
		found, err := store.Row(ctx, tx, r.targets(), texts["reservation by key"], b.ID, store.ItemID(g.ItemID), c.Key)
		if err != nil {
			return out, nil, err
		}
		out = pawl.Reserved{Reservation: r.id, Amount: r.amount, Remaining: b.Remaining()}
		if found && r.state == reservationSettled {
			out.Settled = &r.charged
			return out, nil, nil
		}
		if found && r.state == reservationOpen && r.attempt == g.Attempt {
			return out, nil, nil
		}
		more := c.Amount - r.counts(&b)
		if more <= 0 || more <= b.Remaining() {
			break
		}
		if others {
			return out, errMoreLost, nil
		}
		if reclaimed {
			exhausted, err = b.exhausted(ctx, tx, c)
			return out, exhausted, err
		}
		if others, err = b.reclaim(ctx, tx, now); err != nil {
			return out, nil, err
		}
	}
	if err = open(ctx, tx, g, &b, &r, id, now, c); err == nil {
		err = b.count(ctx, tx)
	}
	return pawl.Reserved{Reservation: r.id, Amount: r.amount, Remaining: b.Remaining()}, nil, err
}

// counts is what the reservation counts for in the budget's current period, whether it is
// open or was charged.
func (r *reservation) counts(b *Row) int64 {
	if r.period == b.PeriodNumber && (r.state == reservationOpen || r.state == reservationCharged) {
		return r.amount
	}
	return 0
}

// open makes r a reservation of the locked item's attempt in the current period: r is the one
// that has the key of the call, or it has no id. An earlier period keeps what it is charged,
// with a row that has no item any more.
func open(ctx context.Context, tx store.Tx, g *store.LockedItem, b *Row, r *reservation, id string, now int64, c *pawl.ReserveCall) error {
	if r.id != "" && r.period != b.PeriodNumber &&
		(r.state == reservationCharged || r.state == reservationOpen && b.OnLost != pawl.LostReturn) {
		r.move(b, reservationCharged, r.amount)
		if err := r.write(ctx, tx, now); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, texts["detach reservation"], r.id); err != nil {
			return err
		}
		*r = reservation{}
	}
	amount := max(c.Amount, r.counts(b))
	if r.id == "" {
		*r = reservation{id: id, period: b.PeriodNumber, attempt: g.Attempt, amount: amount}
		b.Reserved += amount
		_, err := tx.Exec(ctx, texts["insert reservation"], r.id, g.Namespace, b.ID, r.period, store.ItemID(g.ItemID), store.TaskID(g.TaskID),
			g.Attempt, c.Key, r.amount, store.Text(c.AgentID), c.WorkerID, store.Text(c.Model), now)
		return err
	}
	if r.period == b.PeriodNumber {
		b.Spent, b.Reserved = b.Spent-r.spent(), b.Reserved-r.reserved()
	}
	r.period, r.attempt, r.state, r.amount, r.charged = b.PeriodNumber, g.Attempt, reservationOpen, amount, 0
	b.Reserved += amount
	if err := takeOver(ctx, tx, g, r.id, c.AgentID, c.Model); err != nil {
		return err
	}
	return r.write(ctx, tx, now)
}

// takeOver makes a reservation of an earlier attempt one of the agent and model that hold the
// lease now.
func takeOver(ctx context.Context, tx store.Tx, g *store.LockedItem, id, agent, model string) error {
	_, err := tx.Exec(ctx, texts["take over reservation"], id, store.ItemID(g.ItemID), g.Attempt,
		store.Text(agent), g.WorkerID, store.Text(model))
	return err
}

// own is what the locked item has reserved under other keys and not settled. In its first attempt, parallel calls of the item
// may settle as soon as those of others. Where losses are returned, it comes back while the item waits.
func (b *Row) own(ctx context.Context, tx store.Tx, g *store.LockedItem, key string) (amount int64, err error) {
	if g.Attempt <= 1 || b.OnLost == pawl.LostReturn {
		return 0, nil
	}
	_, err = store.Row(ctx, tx, []any{&amount}, texts["reserved under other keys"], b.ID, store.ItemID(g.ItemID), key, b.PeriodNumber)
	return amount, err
}

// exhausted returns the refusal of a call.
func (b *Row) exhausted(ctx context.Context, tx store.Tx, c *pawl.ReserveCall) (refusal, err error) {
	var charged int64
	if _, err := store.Row(ctx, tx, []any{&charged}, texts["charged for lost reservations"], b.ID, b.PeriodNumber); err != nil {
		return nil, err
	}
	message := fmt.Sprintf("budget %s has %d %s left; %d were asked for", b.Name, b.Remaining(), b.Unit, c.Amount)
	if c.Amount > b.Limit {
		message += fmt.Sprintf(", which is more than its whole limit of %d", b.Limit)
	}
	return &pawl.Error{Code: pawl.CodeBudgetExhausted, Op: "reserve", Message: message,
		Exhausted: &pawl.Exhausted{Budget: b.Name, OnExhausted: b.OnExhausted, Limit: b.Limit, Remaining: b.Remaining(),
			Reserved: b.Reserved + charged, PeriodEnd: store.StampOf(b.End),
			SignalKey: pawl.BudgetSignalKey(b.Name, store.Stamp(b.ChangedAt), "")}}, nil
}

// fits refuses an item that the budget does not apply to, and another unit.
func fits(ctx context.Context, tx store.Tx, g *store.LockedItem, b *Row, c *pawl.ReserveCall) error {
	if c.Unit != "" && c.Unit != b.Unit {
		return pawl.Invalid("/unit", "is %q; the budget's is %q", c.Unit, b.Unit)
	}
	refuse := func(format string, args ...any) error {
		return &pawl.Error{Code: pawl.CodeConflict, Op: "reserve",
			Message: fmt.Sprintf("budget %s does not apply to item %s: ", b.Name, g.ItemID) + fmt.Sprintf(format, args...)}
	}
	if b.ForType != "" {
		var typ string
		if _, err := store.Row(ctx, tx, []any{&typ}, texts["type of lease"], store.ItemID(g.ItemID)); err != nil {
			return err
		}
		if typ != string(b.ForType) {
			return refuse("its type is %s, the budget's %s", typ, b.ForType)
		}
	}
	if err := keyIs(ctx, tx, g, b.ForKey, refuse); err != nil {
		return err
	}
	if b.ForTask != "" && string(b.ForTask) != g.TaskID {
		var one int
		if in, err := store.Row(ctx, tx, []any{&one}, texts["in tree"], store.TaskID(g.TaskID), store.TaskID(b.ForTask)); err != nil || !in {
			if err != nil {
				return err
			}
			return refuse("its task does not descend from %s", b.ForTask)
		}
	}
	return nil
}

// keyIs refuses an item that has another key of its queue; "" = any may be.
func keyIs(ctx context.Context, tx store.Tx, g *store.LockedItem, want store.Text, refuse func(format string, args ...any) error) error {
	if want == "" {
		return nil
	}
	var key store.Text
	found, err := store.Row(ctx, tx, []any{&key}, texts["key of lease"], store.ItemID(g.ItemID))
	switch {
	case err != nil:
		return err
	case !found:
		return refuse("its queue has no keys")
	case key != want:
		return refuse("its key is %q, the budget's %q", key, want)
	}
	return nil
}

// settle records what was spent of a reservation of the locked item.
func settle(ctx context.Context, tx store.Tx, g *store.LockedItem, name string, c *pawl.SettleCall) (pawl.Settled, error) {
	b, now, err := lock(ctx, tx, g.Namespace, name)
	if err != nil {
		return pawl.Settled{}, err
	}
	var r reservation
	found, err := store.Row(ctx, tx, r.targets(), texts["reservation by id"], b.ID, store.ItemID(g.ItemID), c.Reservation)
	switch {
	case err != nil:
		return pawl.Settled{}, err
	case !found:
		return pawl.Settled{}, pawl.NotFound("reservation", c.Reservation)
	case r.state == reservationSettled && r.charged != c.Amount:
		return pawl.Settled{}, &pawl.Error{Code: pawl.CodeConflict, Op: "settle",
			Message: fmt.Sprintf("reservation %s was settled with %d", r.id, r.charged)}
	case r.state != reservationSettled:
		if r.attempt != g.Attempt {
			if err := takeOver(ctx, tx, g, r.id, "", ""); err != nil {
				return pawl.Settled{}, err
			}
		}
		r.attempt = g.Attempt
		r.move(&b, reservationSettled, c.Amount)
		if err = r.write(ctx, tx, now); err == nil {
			err = b.count(ctx, tx)
		}
	}
	return pawl.Settled{Remaining: b.Remaining(), Spent: b.Spent}, err
}

// reclaim ends up to lostBatch open reservations of the locked budget whose attempt holds no
// lease any more: it charges or returns them. A later attempt that adopts one afterwards takes
// back what was charged. more = there may be others. Rows that another transaction has locked
// belong to a task that is being deleted; the next call has them.
func (b *Row) reclaim(ctx context.Context, tx store.Tx, now int64) (more bool, err error) {
	state, charged := reservationCharged, int64(1)
	if b.OnLost == pawl.LostReturn {
		state, charged = reservationReturned, 0
	}
	rows, err := tx.Query(ctx, texts["end lost reservations"], b.ID, lostBatch, state, charged, now)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	n := 0
	for ; rows.Next(); n++ {
		var period, amount int64
		if err := rows.Scan(&period, &amount); err != nil {
			return false, err
		}
		if period == b.PeriodNumber {
			b.Reserved -= amount
			b.Spent += amount * charged
		}
	}
	if err := rows.Err(); err != nil || n == 0 {
		return false, err
	}
	rows.Close()
	return n == lostBatch, b.count(ctx, tx)
}

// SettleSpent settles what a sending of an effect has reserved. A budget or a reservation that is not there any more needs
// no settling.
func SettleSpent(ctx context.Context, tx store.Tx, s store.Spent) error {
	b, now, err := lock(ctx, tx, s.Namespace, s.Budget)
	if err != nil {
		if pawl.CodeOf(err) == pawl.CodeNotFound {
			err = nil
		}
		return err
	}
	by, which := "reservation by id", s.Reservation
	if s.Key != "" {
		by, which = "reservation by key", s.Key
	}
	var r reservation
	found, err := store.Row(ctx, tx, r.targets(), texts[by], b.ID, store.ItemID(s.ItemID), which)
	if err != nil || !found || r.state == reservationSettled && r.charged == s.Amount {
		return err
	}
	r.move(&b, reservationSettled, s.Amount)
	if err = r.write(ctx, tx, now); err == nil {
		err = b.count(ctx, tx)
	}
	return err
}
