package commit

import (
	"sort"

	"github.com/pawl-work/pawl"
)

// nextBatch removes the next group's requests from the queue, in order. A request stays
// for a later group if its item is already in this group. If no request waits, or more
// flushes run than may for those that wait, the flush counts as ended and nextBatch
// returns nil.
func (c *Committer[Row, Ans]) nextBatch() []*request[Row, Ans] {
	c.mu.Lock()
	defer c.mu.Unlock()
	most := 0
	for _, req := range c.waiting {
		most = max(most, c.flushesFor(req))
	}
	if !c.options.Ungrouped && c.running > most || most == 0 {
		c.running--
		return nil
	}
	if len(c.waiting) < 2 {
		only := c.waiting
		c.waiting = nil
		return only
	}
	var group, rest []*request[Row, Ans]
	seen := map[string]bool{}
	total, bytes := 0, 0
	for _, req := range c.waiting {
		n, b := c.sum(req, c.options.Size, 1), c.sum(req, c.options.Bytes, 0)
		if total > 0 && (total+n > maxGroupRows || bytes+b > pawl.MaxGroupBytes || !c.joins(req, group[0], seen)) {
			rest = append(rest, req)
			continue
		}
		if c.options.Item != nil {
			for i := range req.rows {
				seen[c.options.Item(&req.rows[i])] = true
			}
		}
		total, bytes = total+n, bytes+b
		group = append(group, req)
	}
	c.waiting = rest
	return group
}

// sum adds up a measure of the request's rows. Without a measure, each row counts as
// each.
func (c *Committer[Row, Ans]) sum(req *request[Row, Ans], of func(*Row) int, each int) int {
	if of == nil {
		return each * len(req.rows)
	}
	n := 0
	for i := range req.rows {
		n += of(&req.rows[i])
	}
	return n
}

// joins reports whether a request can go into the group that begins with first. seen has
// the items of the group.
func (c *Committer[Row, Ans]) joins(req, first *request[Row, Ans], seen map[string]bool) bool {
	if c.options.Fits != nil && !c.options.Fits(&req.rows[0], &first.rows[0]) {
		return false
	}
	for i := range req.rows {
		if c.options.Item != nil && seen[c.options.Item(&req.rows[i])] {
			return false
		}
	}
	return true
}

// sort orders rows by item, which is the order in which all transactions lock.
func (c *Committer[Row, Ans]) sort(rows []Row) {
	if c.options.Item == nil {
		return
	}
	for i := 1; i < len(rows); i++ {
		if c.options.Item(&rows[i]) < c.options.Item(&rows[i-1]) {
			sort.Slice(rows, func(a, b int) bool { return c.options.Item(&rows[a]) < c.options.Item(&rows[b]) })
			return
		}
	}
}
