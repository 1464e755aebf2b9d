package bulk

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
)

// verbs are the values of BulkCall.Verb.
var verbs = []string{pawl.BulkRetry, pawl.BulkCancel, pawl.BulkBury, pawl.BulkDelete, pawl.BulkUpdate}

// check checks a bulk call.
func check(c *pawl.BulkCall) error {
	var f rules.Fields
	if !slices.Contains(verbs, c.Verb) {
		f.Add("/verb", "is %q; it must be one of %s", c.Verb, strings.Join(verbs, ", "))
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
	if err := rules.CheckTaskFilter(&q); err != nil {
		return rules.Under("/filter", err)
	}
	if c.Update == nil {
		return nil
	}
	u := pawl.TaskUpdate{TaskID: "tsk_", Title: c.Update.Title, Priority: c.Update.Priority, Metadata: c.Update.Metadata}
	if err := rules.CheckUpdate(&u); err != nil {
		return rules.Under("/update", err)
	}
	return nil
}
