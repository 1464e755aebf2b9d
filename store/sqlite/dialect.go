package sqlite

import "github.com/pawl-work/pawl/store"

// rewrite turns the common subset into SQLite's: one schema, one writer and so
// no row locks, lists as JSON, members of an object as json_each has them, but
// numbers as they are spelt. A bare parameter as LIMIT makes SQLite plan the
// statement anew whenever it is bound, which was most of a claim: hence 0 +.
var rewrite = store.Rewriter("(SELECT value FROM json_each(%s))", "IN (SELECT value FROM json_each(%s))", "@each(", "json_each(", "@object(", "json_object(", "@array(", "json_array(", "@group(", "json_group_array(",
	"pawl.", "", "@lock", "", "@exclusive", "", "@shared", "", "@skip", "", "@alone", "TRUE", "LIMIT $", "LIMIT 0 + $",
	"@metadata", members("t"), "@checkpoint_metadata", members("c"))

func members(of string) string {
	return "(SELECT j.key, CASE j.type WHEN 'text' THEN j.value WHEN 'null' THEN NULL ELSE " + of + ".metadata -> j.fullkey END AS value FROM json_each(" + of + ".metadata) j)"
}
