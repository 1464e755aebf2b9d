package store

import (
	"context"
	"slices"
)

// RemoveOldSignals removes up to limit signals that were last sent before a time and that no
// item waits for. It locks each signal before it looks for items: a suspend locks it too, so no
// item begins to wait for a signal that is being removed. names are those of the signals; none = any.
func RemoveOldSignals(ctx context.Context, tx Tx, before int64, names []string, limit int) (removed int64, err error) {
	text, args := signalSQL["old signals"], []any{before, limit}
	if len(names) > 0 {
		text, args = signalSQL["old signals of names"], append(args, List(names))
	}
	signals, err := readSignals(ctx, tx, text, args)
	if err != nil {
		return 0, err
	}
	slices.SortFunc(signals, Signal.compare) // all transactions lock signals in the same order
	for _, s := range signals {
		var at *int64
		if found, err := Row(ctx, tx, []any{&at}, signalSQL["lock signal"], s.Namespace, s.Name, s.Key); err != nil {
			return 0, err
		} else if !found {
			continue
		}
		n, err := tx.Exec(ctx, signalSQL["remove old signal"], s.Namespace, s.Name, s.Key, before)
		if err != nil {
			return 0, err
		}
		removed += n
	}
	return removed, nil
}

// Unsent reads up to limit signals after this one, in order, and returns those of them that were never sent,
// are older than a time, and that no item waits for.
func (s Signal) Unsent(ctx context.Context, tx Tx, before int64, limit int) (unsent []Signal, last Signal, n int, err error) {
	last = s
	err = EachRow(ctx, tx, func(rows Rows) error {
		var over int
		err := rows.Scan(&last.Namespace, &last.Name, &last.Key, &over)
		if n++; over == 1 {
			unsent = append(unsent, last)
		}
		return err
	}, signalSQL["signals after"], s.Namespace, s.Name, s.Key, before, limit)
	return unsent, last, n, err
}

// ForgetSignals removes those of the signals, which are in order, that were never sent and that no item waits for.
// It locks each one before it looks, as RemoveOldSignals does.
func ForgetSignals(ctx context.Context, tx Tx, signals []Signal) error {
	for _, s := range signals {
		var at *int64
		_, err := Row(ctx, tx, []any{&at}, signalSQL["lock signal"], s.Namespace, s.Name, s.Key)
		if err == nil {
			_, err = tx.Exec(ctx, signalSQL["forget signal"], s.Namespace, s.Name, s.Key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func readSignals(ctx context.Context, tx Tx, text string, args []any) (out []Signal, err error) {
	return All(ctx, tx, text, args, func(rows Rows, s *Signal) error {
		return rows.Scan(&s.Namespace, &s.Name, &s.Key)
	})
}
