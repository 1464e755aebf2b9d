package store

import "context"

var queueSQL = Texts(sqlFiles, "queue.sql")

// pauses are the types of a namespace from which nothing is claimed.
type pauses struct {
	all   bool
	types map[string]bool
}

func (p pauses) has(typ string) bool { return p.all || p.types[typ] }

func (p pauses) any() bool { return p.all || len(p.types) > 0 }

func readPauses(ctx context.Context, tx Tx, namespace string) (p pauses, err error) {
	var n int
	if p.all, err = Row(ctx, tx, []any{&n}, queueSQL["namespace paused"], namespace); err != nil || p.all {
		return p, err
	}
	rows, err := tx.Query(ctx, queueSQL["paused types"], namespace)
	if err != nil {
		return p, err
	}
	defer rows.Close()
	p.types = map[string]bool{}
	for rows.Next() {
		var typ string
		if err := rows.Scan(&typ); err != nil {
			return p, err
		}
		p.types[typ] = true
	}
	return p, rows.Err()
}
