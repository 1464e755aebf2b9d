package pawl

// Page asks for one page of a list. Limit 0 = 100, at most 1000. Cursor is the
// Next of the page before, opaque to callers.
type Page struct {
	Limit  int
	Cursor string
}

// List is one page. Next is "" on the last.
type List[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next,omitempty"`
}

// Result is the answer to one call of a batch: exactly one of Value and Err
// counts. Calls of a batch stand for themselves: one refused, the others hold.
type Result[T any] struct {
	Value T
	Err   error
}

// one unwraps the answer to a batch of one.
func one[T any](rs []Result[T], err error) (T, error) {
	if err != nil || len(rs) != 1 {
		var zero T
		return zero, err
	}
	return rs[0].Value, rs[0].Err
}
