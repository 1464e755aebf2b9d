package rabbitmq

import (
	"testing"

	"github.com/pawl-work/pawl/internal/cost"
)

// Every message names a task or an item, or is refused.
func FuzzMessage(f *testing.F) {
	for _, body := range []string{
		`{"task_id":"tsk_1"}`, `{"item_id":"itm_1","namespace":"x"}`, `{"specversion":"1.0","data":{"task_id":"tsk_1","item_id":"itm_1"}}`,
		`{"data":{"data":{"task_id":"tsk_1"}}}`, `{"data":null}`, `[]`, `"`, ``, "\x00", `{"task_id":7}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		cost.Check(t, len(body), func() {
			if n, err := readBody(body); err == nil && n.TaskID == "" && n.ItemID == "" {
				t.Errorf("%q names nothing", body)
			}
		})
	})
}
