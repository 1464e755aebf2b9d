package sweep

import (
	"embed"

	"github.com/pawl-work/pawl/store"
)

//go:embed *.sql
var sqlFiles embed.FS

// The statements that only the sweep sends, by the feature that they are of.
var (
	deadlineSQL   = store.Texts(sqlFiles, "deadline.sql")
	effectSQL     = store.Texts(sqlFiles, "effect.sql")
	failureSQL    = store.Texts(sqlFiles, "failure.sql")
	limitsSQL     = store.Texts(sqlFiles, "limits.sql")
	moveSQL       = store.Texts(sqlFiles, "move.sql")
	restoredSQL   = store.Texts(sqlFiles, "restored.sql")
	revokeSQL     = store.Texts(sqlFiles, "revoke.sql")
	sweepSQL      = store.Texts(sqlFiles, "sweep.sql")
	tombstoneSQL  = store.Texts(sqlFiles, "tombstone.sql")
	typeSQL       = store.Texts(sqlFiles, "type.sql")
	unfinishedSQL = store.Texts(sqlFiles, "unfinished.sql")
)
