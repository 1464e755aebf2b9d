package postgres

import (
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// mode says to whom the connections belong.
type mode int

const (
	sessions     mode = iota // a connection is a session of the server, which keeps settings and prepared statements
	transactions             // a pooler gives each transaction to any of its sessions
	borrowed                 // the connections are the embedding program's, which has settings of its own
)

// setting is one setting of the server. The value "" is the server's own.
type setting struct{ name, value string }

// literal returns the value as SQL writes it; own stands for the server's own.
func (s setting) literal(own string) string {
	if s.value == "" {
		return own
	}
	return "'" + s.value + "'"
}

// The planner must not choose the plans of the hot statements. It estimates their arrays
// at ten elements, and a plan made while a table was empty is quadratic later. A cold change finds
// its rows by their keys too. Lists use the planner's own choice, as the server is configured.
var (
	always   = []setting{{"jit", "off"}, {"idle_in_transaction_session_timeout", idleTxLimit}}
	fixed    = []setting{{"plan_cache_mode", "force_generic_plan"}}
	auto     = []setting{{"plan_cache_mode", ""}}
	indexes  = ways("off")
	anything = ways("on")
)

func ways(value string) (out []setting) {
	for _, way := range []string{"seqscan", "bitmapscan", "hashjoin", "mergejoin"} {
		out = append(out, setting{"enable_" + way, value})
	}
	return out
}

// The settings of a query of a view that finds its rows by keys, and of the others.
var (
	byKeysOn  = setLocally(fixed, indexes)
	byKeysOff = setLocally(auto, anything)
)

// setLocally returns a query that changes settings until the end of its transaction.
func setLocally(all ...[]setting) string {
	var parts []string
	for _, some := range all {
		for _, s := range some {
			parts = append(parts, fmt.Sprintf("set_config('%s', %s, true)", s.name, s.literal("NULL")))
		}
	}
	return "SELECT " + strings.Join(parts, ", ")
}

// set returns statements that change settings: SET or SET LOCAL.
func set(how string, all ...[]setting) string {
	var b strings.Builder
	for _, some := range all {
		for _, s := range some {
			fmt.Fprintf(&b, "%s %s = %s; ", how, s.name, s.literal("DEFAULT"))
		}
	}
	return b.String()
}

func limits(statement, lock time.Duration) []setting {
	return []setting{{"statement_timeout", fmt.Sprint(statement.Milliseconds())}, {"lock_timeout", fmt.Sprint(lock.Milliseconds())}}
}

// query is a statement with its arguments.
type query struct {
	text string
	args []any
}

// own returns what sets the limits that a transaction of its own has (0 = that of its kind). The values are arguments, so
// that all have one statement.
func own(statement, lock time.Duration) (out []query) {
	for _, l := range limits(statement, lock) {
		if l.value != "0" {
			out = append(out, query{"SELECT set_config('" + l.name + "', $1, true)", []any{l.value}})
		}
	}
	return out
}

// txKind is a kind of transaction.
type txKind int

const (
	changing txKind = iota // Do
	writing                // Whole
	reading                // View
	txKinds                // how many there are
)

// The hot statements check a row again after they lock it, which relies on read committed.
var isolations = [txKinds]pgx.TxOptions{
	{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}, {IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite},
	{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly},
}

// settings are what the calls of a kind set, and where.
type settings struct {
	begin  [txKinds]string // a query before the first statement of a transaction; "" = none
	before string          // a query before each statement that is not in a transaction; "" = none
}

// settingsOf returns the settings of a kind. A session has those of hot calls, and a transaction
// sets what differs. Where sessions keep nothing, a transaction sets all.
func (d *db) settingsOf(k poolKind) (out settings) {
	for kind := range txKinds {
		var some [][]setting
		switch {
		case !k.cold || kind == writing:
			if d.mode != sessions {
				some = [][]setting{always, fixed, indexes, limits(k.limit, k.lock)}
			}
		case kind == reading:
			some = [][]setting{auto, anything, limits(k.limit, k.lock)}
		default:
			some = [][]setting{auto, limits(k.limit, k.lock)}
		}
		if k.cold && d.mode != sessions {
			some = append(some, always)
			if kind == changing {
				some = append(some, indexes)
			}
		}
		if len(some) > 0 {
			out.begin[kind] = setLocally(some...)
		}
	}
	if d.mode != sessions {
		out.before = setLocally(always, fixed, indexes, limits(k.limit, k.lock))
	}
	return out
}

// readCommitted is what the statements outside of transactions rely on.
const readCommitted = "SET default_transaction_isolation = 'read committed'; "

// ofSession returns the settings of a session: those of hot calls.
func ofSession(hot poolKind) string {
	return readCommitted + set("SET", always, fixed, indexes, limits(hot.limit, hot.lock))
}
