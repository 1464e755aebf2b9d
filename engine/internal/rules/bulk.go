package rules

import (
	"fmt"
	"slices"
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

// CheckBulk checks a bulk call.
func CheckBulk(c *pawl.BulkCall) error {
	var f Fields
	if !slices.Contains(pawl.BulkVerbs, c.Verb) {
		f.Add("/verb", "is %q; it must be one of %s", c.Verb, strings.Join(pawl.BulkVerbs, ", "))
	}
	if c.Filter.IsEmpty() {
		f.Add("/filter", "is empty: it would select every task; name what to select")
	}
	for i, typ := range c.Filter.Type {
		f.Text(fmt.Sprintf("/filter/type/%d", i), typ, 1, pawl.MaxTypeLen)
	}
	if len(c.Filter.ID) > pawl.MaxItemsPerCall {
		f.Add("/filter/id", "has %d ids; at most %d are allowed", len(c.Filter.ID), pawl.MaxItemsPerCall)
	}
	f.Text("/reason", c.Reason, 0, pawl.MaxReasonLen)
	if c.Force && c.Verb != pawl.BulkDelete {
		f.Add("/force", "is of the verb delete")
	}
	if (c.Update != nil) != (c.Verb == pawl.BulkUpdate) {
		f.Add("/update", "is required with the verb update, and is of no other")
	}
	if err := f.Err("bulk"); err != nil {
		return err
	}
	q := c.Filter.Tasks()
	if err := CheckTaskFilter(&q); err != nil {
		return Under("/filter", err)
	}
	if c.Update == nil {
		return nil
	}
	u := pawl.TaskUpdate{TaskID: "tsk_", Title: c.Update.Title, Priority: c.Update.Priority, Metadata: c.Update.Metadata}
	if err := CheckUpdate(&u); err != nil {
		return Under("/update", err)
	}
	return nil
}
