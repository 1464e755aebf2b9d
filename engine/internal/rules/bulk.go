package rules

import (
	"strings"

	"github.com/pawl-work/pawl"
)

// CheckReserved refuses a new task of a type that Pawl itself makes tasks of.
func CheckReserved(op, typ string) error {
	var f Fields
	f.reserved("/type", typ)
	return f.Err(op)
}

// reserved refuses a type that Pawl itself makes tasks of.
func (f *Fields) reserved(pointer, typ string) {
	if strings.HasPrefix(typ, pawl.ReservedPrefix) {
		f.Add(pointer, "begins with %s, which is reserved for types of Pawl's own", pawl.ReservedPrefix)
	}
}
