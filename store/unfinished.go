package store

import (
	"context"
	"time"

	"github.com/pawl-work/pawl/internal/shellwords"
)

var unfinishedSQL = Texts(sqlFiles, "unfinished.sql")

// pendingLate is how long a consequence may be still to come before a warning.
const pendingLate = time.Hour

// pendingConsequences warns of what is still to come and has been for long.
func pendingConsequences(ctx context.Context, tx Tx, now int64) (out []Warning, err error) {
	err = EachRow(ctx, tx, func(rows Rows) error {
		var namespace, task, what string
		err := rows.Scan(&namespace, (*TaskID)(&task), &what)
		out = append(out, warning("consequence_pending", "task "+task+" of namespace "+namespace+": "+what+
			", for more than an hour; run a server, or read in its log why it fails", shellwords.Line(namespace, "task get", task)))
		return err
	}, unfinishedSQL["pending for long"], now-pendingLate.Microseconds(), WarnedTypes)
	return out, err
}
