package engine

import (
	"fmt"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
)

// dependency says that a new item waits for another item of its task.
type dependency struct {
	Item int    // the index of the item that waits
	On   int    // the index of the new item that it waits for; -1 = an older item
	ID   string // the id of the older item that it waits for
}

// orderItems returns the dependencies among new items, in the order in which they are named.
// It refuses unknown keys, repeated keys and cycles. known maps the keys of the task's
// older items to their ids.
func orderItems(items []pawl.NewItem, known map[string]string) ([]dependency, error) {
	var f rules.Fields
	var out []dependency
	at := map[string]int{}
	for i, it := range items {
		if it.Key == "" {
			continue
		}
		if _, dup := at[it.Key]; dup || known[it.Key] != "" {
			f.Add(fmt.Sprintf("/items/%d/key", i), "another item of the task has the key %q", it.Key)
		}
		at[it.Key] = i
	}
	for i, it := range items {
		for n, key := range it.After {
			if j, ok := at[key]; ok {
				out = append(out, dependency{Item: i, On: j})
			} else if id := known[key]; id != "" {
				out = append(out, dependency{Item: i, On: -1, ID: id})
			} else {
				f.Add(fmt.Sprintf("/items/%d/after/%d", i, n), "no item of the task has the key %q", key)
			}
		}
	}
	if i := cycle(items, at); i >= 0 {
		f.Add(fmt.Sprintf("/items/%d/after", i), "the item depends on itself, by way of others")
	}
	return out, f.Err("create")
}

// cycle returns the index of an item that depends on itself, -1 if there is none.
func cycle(items []pawl.NewItem, at map[string]int) int {
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
