package engine

import (
	"fmt"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// link turns After's keys into ids, and refuses unknown keys, repeated keys and
// circles. known are the keys of items that are there already.
func link(rows []store.NewItem, items []pawl.NewItem, known map[string]string) error {
	var f fields
	at := map[string]int{}
	for i, it := range items {
		if it.Key == "" {
			continue
		}
		if _, dup := at[it.Key]; dup || known[it.Key] != "" {
			f.add(fmt.Sprintf("/items/%d/key", i), "another item of the task has the key %q", it.Key)
		}
		at[it.Key] = i
	}
	for i, it := range items {
		for n, key := range it.After {
			if j, ok := at[key]; ok {
				rows[i].Needs = append(rows[i].Needs, rows[j].ID)
				rows[j].Feeds = true
			} else if id := known[key]; id != "" {
				rows[i].Needs = append(rows[i].Needs, id)
			} else {
				f.add(fmt.Sprintf("/items/%d/after/%d", i, n), "no item of the task has the key %q", key)
			}
		}
	}
	if i := circle(items, at); i >= 0 {
		f.add(fmt.Sprintf("/items/%d/after", i), "the item depends on itself, by way of others")
	}
	return f.err("create")
}

// circle finds an item on a circle of dependencies, −1 when there is none.
func circle(items []pawl.NewItem, at map[string]int) int {
	waits := make([]int, len(items))
	feeds := make([][]int, len(items))
	free := make([]int, 0, len(items))
	for i, it := range items {
		for _, key := range it.After {
			if j, ok := at[key]; ok {
				waits[i]++
				feeds[j] = append(feeds[j], i)
			}
		}
		if waits[i] == 0 {
			free = append(free, i)
		}
	}
	done := 0
	for ; len(free) > 0; done++ {
		i := free[len(free)-1]
		free = free[:len(free)-1]
		for _, k := range feeds[i] {
			if waits[k]--; waits[k] == 0 {
				free = append(free, k)
			}
		}
	}
	if done == len(items) {
		return -1
	}
	for i, n := range waits {
		if n > 0 {
			return i
		}
	}
	return -1
}
