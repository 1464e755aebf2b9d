package engine

import (
	"embed"

	"github.com/pawl-work/pawl/store"
)

//go:embed *.sql
var sqlFiles embed.FS

// The statements that only the engine sends, by the feature that they are of.
var (
	acceptSQL     = store.Texts(sqlFiles, "accept.sql")
	addItemsSQL   = store.Texts(sqlFiles, "add_items.sql")
	blockedSQL    = store.Texts(sqlFiles, "blocked.sql")
	deadlineSQL   = store.Texts(sqlFiles, "deadline.sql")
	decideSQL     = store.Texts(sqlFiles, "decide.sql")
	effectSQL     = store.Texts(sqlFiles, "effect.sql")
	limitsSQL     = store.Texts(sqlFiles, "limits.sql")
	placeSQL      = store.Texts(sqlFiles, "place.sql")
	provenanceSQL = store.Texts(sqlFiles, "provenance.sql")
	queueSQL      = store.Texts(sqlFiles, "queue.sql")
	readSQL       = store.Texts(sqlFiles, "read.sql")
	revokeSQL     = store.Texts(sqlFiles, "revoke.sql")
)
