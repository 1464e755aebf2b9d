package pawltest

import (
	"encoding/hex"
	"regexp"

	"github.com/pawl-work/pawl/store"
)

var quotedID = regexp.MustCompile(`'((?:tsk|itm)_[0-9A-Z]{26})'`)

// SQL returns a statement and its arguments with the ids of tasks and items in the form in
// which the databases keep them. In the statement they are quoted texts.
func SQL(query string, args ...any) (string, []any) {
	query = quotedID.ReplaceAllStringFunc(query, func(quoted string) string {
		b, _ := asID(quoted[1 : len(quoted)-1]).Bytes()
		return "@id('" + hex.EncodeToString(b[:]) + "')"
	})
	out := make([]any, len(args))
	for i, a := range args {
		out[i] = a
		if text, ok := a.(string); ok {
			if id := asID(text); id != nil {
				out[i] = id
			}
		}
	}
	return query, out
}

// asID returns the id that a text is, or nil.
func asID(text string) store.ID {
	for _, id := range []store.ID{store.TaskID(text), store.ItemID(text)} {
		if _, ok := id.Bytes(); ok {
			return id
		}
	}
	return nil
}
