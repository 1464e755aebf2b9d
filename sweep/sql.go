package sweep

import (
	"embed"

	"github.com/pawl-work/pawl/store"
)

//go:embed *.sql
var sqlFiles embed.FS

// The statements that only the sweep sends, by the feature that they are of.
var (
	archiveSQL    = store.Texts(sqlFiles, "archive.sql")
	deadlineSQL   = store.Texts(sqlFiles, "deadline.sql")
	effectSQL     = store.Texts(sqlFiles, "effect.sql")
	failureSQL    = store.Texts(sqlFiles, "failure.sql")
	limitsSQL     = store.Texts(sqlFiles, "limits.sql")
	moveSQL       = store.Texts(sqlFiles, "move.sql")
	revokeSQL     = store.Texts(sqlFiles, "revoke.sql")
	segmentSQL    = store.Texts(sqlFiles, "segment.sql")
	sweepSQL      = store.Texts(sqlFiles, "sweep.sql")
	tombstoneSQL  = store.Texts(sqlFiles, "tombstone.sql")
	typeSQL       = store.Texts(sqlFiles, "type.sql")
	unfinishedSQL = store.Texts(sqlFiles, "unfinished.sql")
)
