package store

import (
	"fmt"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
)

// The rank of a queued item orders the claims of its type: a lower rank is claimed
// first. A higher priority gives a lower rank. With equal priority, an item that comes back
// to the queue comes before items that were never claimed, and an item that comes back soon
// again comes behind them. It has the rank of items of the next lower priority that come back:
// whose priority is the item's own is read from the item.

// NewRank returns the rank of an item that was never claimed.
func NewRank(priority int) int { return 1 - 2*priority }

// RequeueRank returns the rank of an item that comes back to the queue.
func RequeueRank(priority int) int { return -2 * priority }

// LoweredRank returns the rank of an item that comes back soon again.
func LoweredRank(priority int) int { return 2 - 2*priority }

// BackRank returns the rank of an item that comes back to the queue at a time, after a claim at
// another (nil = it was long ago). From the second attempt on, an item that comes back soon
// is behind those that were never claimed: without that, a few items that no worker can do would
// keep all others waiting.
func BackRank(priority, attempt int, claimedAt *int64, now int64) int {
	if attempt > 1 && claimedAt != nil && now-*claimedAt < backSoon {
		return LoweredRank(priority)
	}
	return RequeueRank(priority)
}

const backSoon = pawl.MinReturnSeconds * int64(time.Second/time.Microsecond)

// PriorityOf returns the priority that a rank was computed from. A rank of items that come back may
// be one of a lowered item of the next higher priority.
func PriorityOf(rank int) int { return -(rank >> 1) }

// expandRanks replaces @new_rank(priority), @requeue_rank(priority), @lowered_rank(priority),
// @back_rank(priority, attempt, claimed_at, now) and @priority_of(rank, item_id) by the same
// expressions in SQL.
func expandRanks(query string) string {
	query = expand(query, "@new_rank(", in("(1 - 2 * %s)"))
	query = expand(query, "@requeue_rank(", in("(-2 * %s)"))
	query = expand(query, "@lowered_rank(", in("(2 - 2 * %s)"))
	query = expand(query, "@back_rank(", func(arg string) string {
		a := strings.Split(arg, ", ")
		return fmt.Sprintf("(CASE WHEN %s > 1 AND %s - %s < %d THEN 2 ELSE 0 END - 2 * %s)", a[1], a[3], a[2], backSoon, a[0])
	})
	return expand(query, "@priority_of(", func(arg string) string {
		rank, item, _ := strings.Cut(arg, ", ")
		return fmt.Sprintf("CASE WHEN %s %% 2 = 0 THEN (SELECT i.priority FROM pawl.all_items i WHERE i.id = %s) ELSE -(%s >> 1) END",
			rank, item, rank)
	})
}
