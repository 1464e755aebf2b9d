package engine

import (
	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// link fills in the dependencies of the rows of new items. known maps the keys of the
// task's older items to their ids.
func link(rows []store.NewItem, items []pawl.NewItem, known map[string]string) error {
	dependencies, err := orderItems(items, known)
	if err != nil {
		return err
	}
	for _, d := range dependencies {
		id := d.ID
		if d.On >= 0 {
			id = rows[d.On].ID
			rows[d.On].Feeds = true
		}
		rows[d.Item].Needs = append(rows[d.Item].Needs, id)
	}
	return nil
}
