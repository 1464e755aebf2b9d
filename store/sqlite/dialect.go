package sqlite

import "github.com/pawl-work/pawl/store"

// rewrite converts the common subset of SQL to SQLite's. There is one schema. There is one
// writer, and therefore there are no row locks. Lists are JSON. The members of an object
// are as json_each has them, but numbers keep their spelling. With a bare parameter as
// LIMIT, SQLite would plan the statement again each time the parameter is bound, which was
// most of the time of a claim; therefore the text says 0 +.
var rewrite = store.Rewriter("(SELECT value FROM json_each(%s))", "IN (SELECT value FROM json_each(%s))", "@each(", "json_each(",
	"@object(", "json_object(", "@array(", "json_array(", "@group(", "json_group_array(",
	"@hex(", "lower(hex(", "@)", "))",
	"pawl.", "", "@lock", "", "@exclusive", "", "@shared", "", "@skip", "", "@alone", "TRUE", "LIMIT $", "LIMIT 0 + $",
	"@metadata", members("t"), "@checkpoint_metadata", members("c"))

func members(of string) string {
	return "(SELECT j.key, CASE j.type WHEN 'text' THEN j.value WHEN 'null' THEN NULL ELSE " + of +
		".metadata -> j.fullkey END AS value FROM json_each(" + of + ".metadata) j)"
}
