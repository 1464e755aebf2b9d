package store

import "github.com/pawl-work/pawl"

// FirstRows is how many rows of a page are read before their size is known: what
// is read beyond the bytes of a page is thrown away.
const FirstRows = 32

// PageRoom is what a page of several lists may still take, of pawl.MaxPageBytes.
type PageRoom struct {
	left  int
	taken bool
	Full  bool // the last list that was read into it has more rows
}

// NewPageRoom is the room of an empty page.
func NewPageRoom() *PageRoom { return &PageRoom{left: pawl.MaxPageBytes} }

// Take puts bytes into the page that it has in any case.
func (r *PageRoom) Take(bytes int) {
	r.left -= bytes
	r.taken = true
}

// Pages reads a page in steps: until it has its rows, or pawl.MaxPageBytes of
// values. Such a page ends early, with a cursor.
func Pages[T any](p pawl.Page, size func(*T) int, cursor func(T) string, read func(p pawl.Page) (pawl.List[T], error)) (pawl.List[T], error) {
	return PagesIn(NewPageRoom(), p, func(v *T) (int, error) { return size(v), nil }, cursor, read)
}

// PagesIn is Pages in the room of a page that has other lists too: it has no row
// when the first does not fit any more, and then ends with the cursor it was asked
// for.
func PagesIn[T any](r *PageRoom, p pawl.Page, size func(*T) (int, error), cursor func(T) string, read func(p pawl.Page) (pawl.List[T], error)) (pawl.List[T], error) {
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
		if l.Next == "" || len(out.Items) >= limit {
			out.Next, r.Full = l.Next, l.Next != ""
			return out, nil
		}
		p.Cursor = l.Next
		step = max(1, r.left/(1+bytes/len(out.Items)))
	}
}

// paged cuts the row too many off, and makes the cursor of it.
func paged[T any](rows []T, limit int, id func(T) string) pawl.List[T] {
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
