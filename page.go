package pawl

// Page selects one page of a list. Limit 0 = 100, at most 1000. Cursor is List.Next of
// the previous page; treat it as opaque.
type Page struct {
	Limit  int
	Cursor string
}

// List is one page. Next is "" on the last page.
type List[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next,omitempty"`
	// Incomplete: the search has looked at many rows without filling the page, and ended at a
	// bound. The page may be empty. The next one goes on from there.
	Incomplete bool `json:"incomplete,omitempty"`
}

// Result is the result of one call of a batch. If Err is nil, Value is valid. The calls
// of a batch are independent: if one is refused, the others still take effect.
type Result[T any] struct {
	Value T
	Err   error
}

// one returns the result of a batch of one.
func one[T any](rs []Result[T], err error) (T, error) {
	if err != nil || len(rs) != 1 {
		var zero T
		return zero, err
	}
	return rs[0].Value, rs[0].Err
}
