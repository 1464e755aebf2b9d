package store

// The rank of a queued item orders the claims of its type: a lower rank is claimed
// first. A higher priority gives a lower rank. With equal priority, an item that comes back
// to the queue comes before items that were never claimed.

// NewRank returns the rank of an item that was never claimed.
func NewRank(priority int) int { return 1 - 2*priority }

// RequeueRank returns the rank of an item that comes back to the queue.
func RequeueRank(priority int) int { return -2 * priority }

// Requeued reports whether items of a rank come back to the queue.
func Requeued(rank int) bool { return rank%2 == 0 }

// PriorityOf returns the priority that a rank was computed from.
func PriorityOf(rank int) int { return -(rank >> 1) }

// expandRanks replaces @new_rank(priority), @requeue_rank(priority) and @priority_of(rank)
// by the same expressions in SQL.
func expandRanks(query string) string {
	query = expand(query, "@new_rank(", in("(1 - 2 * %s)"))
	query = expand(query, "@requeue_rank(", in("(-2 * %s)"))
	return expand(query, "@priority_of(", in("(-(%s >> 1))"))
}
