package store

import "github.com/pawl-work/pawl"

// firstRows is how many rows of a page are read before their size is known: what
// is read beyond the bytes of a page is thrown away.
const firstRows = 32

// Pages reads a page in steps: until it has its rows, or pawl.MaxPageBytes of
// values. Such a page ends early, with a cursor.
func Pages[T any](p pawl.Page, size func(*T) int, cursor func(T) string, read func(p pawl.Page) (pawl.List[T], error)) (pawl.List[T], error) {
	limit, bytes := p.Limit, 0
	out := pawl.List[T]{Items: []T{}}
	for step := firstRows; ; {
		p.Limit = min(step, limit-len(out.Items))
		l, err := read(p)
		if err != nil {
			return out, err
		}
		for i := range l.Items {
			if bytes += size(&l.Items[i]); bytes > pawl.MaxPageBytes && len(out.Items) > 0 {
				out.Next = cursor(out.Items[len(out.Items)-1])
				return out, nil
			}
			out.Items = append(out.Items, l.Items[i])
		}
		if l.Next == "" || len(out.Items) >= limit {
			out.Next = l.Next
			return out, nil
		}
		p.Cursor = l.Next
		step = max(1, (pawl.MaxPageBytes-bytes)/(1+bytes/len(out.Items)))
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
