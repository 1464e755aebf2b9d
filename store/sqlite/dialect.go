package sqlite

import "github.com/pawl-work/pawl/store"

// rewrite converts the common subset of SQL to SQLite's. There is one schema. There is one
// writer, and therefore there are no row locks. Lists are JSON. The members of an object
// are as json_each has them, but numbers keep their spelling. With a bare parameter as
// LIMIT, SQLite would plan the statement again each time the parameter is bound, which was
// most of the time of a claim; therefore the text says 0 +.
var rewrite = rewriter("")

// rewriter is rewrite for tables with a prefix: pawl.tasks becomes pawl_tasks. This is the only mark of a name.
func rewriter(prefix string) func(string) string {
	own := []string{"pawl.", prefix}
	if prefix != "" { // the other tables are not Pawl's, and may need functions of the application
		own = append(own, "PRAGMA quick_check(20)", "SELECT q.quick_check FROM sqlite_schema s, pragma_quick_check(s.name) q\n"+
			"WHERE s.type = 'table' AND s.name >= '"+prefix+"' AND s.name < '"+prefix+"~' LIMIT 20")
	}
	return store.Rewriter(marks, append(own, words...)...)
}

var marks = map[string]string{
	"@list(":      "(SELECT value FROM json_each(%s))",
	"@among(":     "IN (SELECT value FROM json_each(%s))",
	"@ids(":       "(SELECT unhex(value) FROM json_each(%s))",
	"@among_ids(": "IN (SELECT unhex(value) FROM json_each(%s))",
	"@id(":        "unhex(%s)",
	"@lower(":     "lower(%s)",
	"@task_text(": textOfID("tsk_"),
	"@item_text(": textOfID("itm_"),
	"@least(":     "MIN(%s)",
}

var words = []string{"@uuid", "BLOB", "@each(", "json_each(",
	"@object(", "json_object(", "@array(", "json_array(", "@group(", "json_group_array(",
	"@among_rows", "IN (", "@end_rows", ")",
	"@ready_rows", "(queue_id, rank, item_id) IN (", "@ready_row", "w.queue_id, w.rank, w.id",
	"@hex(", "lower(hex(", "@)", "))",
	"@lock", "", "@exclusive", "", "@shared", "", "@kept", "", "@skip", "", "@unlocked", "", "@transaction", "0",
	"@alone", "TRUE", "@apart", "TRUE", "LIMIT $", "LIMIT 0 + $",
	"@metadata", members("t"), "@checkpoint_metadata", members("c")}

// textOfID is the text of an id in plain SQL, so that every program can read the views: the
// prefix and the 26 digits of 5 bits that the 16 bytes have behind two bits of zero. A digit
// is in two of the hexadecimal digits.
func textOfID(prefix string) string {
	at := func(place string) string {
		return "instr('123456789ABCDEF', substr('0' || hex(%s), (5 * n + 2) / 4 + " + place + ", 1))"
	}
	digit := "((" + at("1") + " * 16 + " + at("2") + ") >> (3 - (5 * n + 2) % 4) & 31)"
	return "CASE WHEN %s IS NOT NULL THEN (WITH RECURSIVE digits (n, t) AS (SELECT 0, '" + prefix + "' UNION ALL SELECT n + 1, " +
		"t || substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ', 1 + " + digit + ", 1) FROM digits WHERE n < 26) SELECT t FROM digits WHERE n = 26) END"
}

func members(of string) string {
	return "(SELECT j.key, CASE j.type WHEN 'text' THEN j.value WHEN 'null' THEN NULL ELSE " + of +
		".metadata -> j.fullkey END AS value FROM json_each(" + of + ".metadata) j)"
}
