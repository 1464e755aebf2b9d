package store

import "github.com/pawl-work/pawl"

// FirstRows is how many rows of a page are read before their size is known. Rows that do
// not fit into the page are discarded.
const FirstRows = 32

// PageRoom is the part of pawl.MaxPageBytes that a page of several lists has left.
type PageRoom struct {
	left  int
	taken bool
	Full  bool // the last list that was read into it has more rows
}

// NewPageRoom returns the room of an empty page.
func NewPageRoom() *PageRoom { return &PageRoom{left: pawl.MaxPageBytes} }

// Take counts bytes that the page has in any case.
func (r *PageRoom) Take(bytes int) {
	r.left -= bytes
	r.taken = true
}

// Left returns how many bytes the page has left.
func (r *PageRoom) Left() int { return r.left }

// Pages reads a page in steps, until it has all its rows or pawl.MaxPageBytes of values. A
// page that reaches the bytes ends early, with a cursor.
func Pages[T any](p pawl.Page, size func(*T) int, cursor func(T) string,
	read func(p pawl.Page) (pawl.List[T], error)) (pawl.List[T], error) {
	return PagesIn(NewPageRoom(), p, func(v *T) (int, error) { return size(v), nil }, cursor, read)
}

// PagesIn is Pages for a page that contains other lists too. When the first row does not
// fit any more, it returns no row and the cursor that it was given.
func PagesIn[T any](r *PageRoom, p pawl.Page, size func(*T) (int, error), cursor func(T) string,
	read func(p pawl.Page) (pawl.List[T], error)) (pawl.List[T], error) {
	limit, bytes := p.Limit, 0
	out := pawl.List[T]{Items: []T{}, Next: p.Cursor}
	for step := FirstRows; ; {
		p.Limit = min(step, limit-len(out.Items))
		l, err := read(p)
		if err != nil {
			return out, err
		}
		for i := range l.Items {
			n, err := size(&l.Items[i])
			if err != nil {
				return out, err
			}
			if r.taken && n > r.left {
				if r.Full = true; len(out.Items) > 0 {
					out.Next = cursor(out.Items[len(out.Items)-1])
				}
				return out, nil
			}
			r.Take(n)
			bytes += n
			out.Items = append(out.Items, l.Items[i])
		}
		if l.Next == "" || l.Incomplete || len(out.Items) >= limit {
			out.Next, out.Incomplete, r.Full = l.Next, l.Incomplete, l.Next != ""
			return out, nil
		}
		p.Cursor = l.Next
		step = max(1, r.left/(1+bytes/len(out.Items)))
	}
}

// Paged removes the extra row, and sets the cursor if there was one.
func Paged[T any](rows []T, limit int, id func(T) string) pawl.List[T] {
	if rows == nil {
		rows = []T{}
	}
	if len(rows) <= limit {
		return pawl.List[T]{Items: rows}
	}
	return pawl.List[T]{Items: rows[:limit], Next: id(rows[limit-1])}
}

func sizeOfFailure(f *pawl.Failure) int {
	if f == nil {
		return 0
	}
	return len(f.Message) + len(f.Detail)
}
