package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"slices"
)

// A delta describes a text by another one, its base: a list of operations, each with its
// length and whether it copies (the lowest bit of a uvarint). A copy is followed by its
// place in the base, bytes of its own by these bytes.

const (
	deltaBlock = 32         // the length of the matches that are looked for
	deltaPrime = 0x01000193 // of the rolling hash
)

type delta struct {
	out    []byte
	base   []byte
	target []byte
}

// makeDelta returns the delta of target against base.
func makeDelta(base, target []byte) []byte {
	d := delta{base: base, target: target}
	from := commonPrefix(base, target)
	till := commonSuffix(base[from:], target[from:])
	d.copy(0, from)
	if middle := base[from : len(base)-till]; len(middle) < deltaBlock || len(target)-till-from < deltaBlock {
		d.add(target[from : len(target)-till])
	} else {
		d.search(from, len(base)-till, len(target)-till)
	}
	d.copy(len(base)-till, till)
	return d.out
}

func (d *delta) copy(at, n int) {
	if n > 0 {
		d.out = binary.AppendUvarint(binary.AppendUvarint(d.out, uint64(n)<<1|1), uint64(at))
	}
}

func (d *delta) add(text []byte) {
	if len(text) > 0 {
		d.out = append(binary.AppendUvarint(d.out, uint64(len(text))<<1), text...)
	}
}

// search describes target[from:to] by matches in base[from:baseTo].
func (d *delta) search(from, baseTo, to int) {
	blocks := make(map[uint32]int, (baseTo-from)/deltaBlock)
	for at := from; at+deltaBlock <= baseTo; at += deltaBlock {
		h := hashOf(d.base[at : at+deltaBlock])
		if _, there := blocks[h]; !there {
			blocks[h] = at
		}
	}
	var top uint32 = 1 // the weight of the byte that leaves the window
	for range deltaBlock - 1 {
		top *= deltaPrime
	}
	begin, at := from, from // what is not described yet begins at begin
	for h, fresh := uint32(0), true; at+deltaBlock <= to; {
		if fresh {
			h, fresh = hashOf(d.target[at:at+deltaBlock]), false
		}
		if found, there := blocks[h]; there && bytes.Equal(d.base[found:found+deltaBlock], d.target[at:at+deltaBlock]) {
			back := commonSuffix(d.base[from:found], d.target[begin:at])
			n := back + commonPrefix(d.base[found:baseTo], d.target[at:to])
			d.add(d.target[begin : at-back])
			d.copy(found-back, n)
			begin = at - back + n
			at, fresh = begin, true
			continue
		}
		if at+deltaBlock < to {
			h = (h-uint32(d.target[at])*top)*deltaPrime + uint32(d.target[at+deltaBlock])
		}
		at++
	}
	d.add(d.target[begin:to])
}

func hashOf(block []byte) (h uint32) {
	for _, b := range block {
		h = h*deltaPrime + uint32(b)
	}
	return h
}

func commonPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

func commonSuffix(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[len(a)-1-i] != b[len(b)-1-i] {
			return i
		}
	}
	return n
}

// span is a part of a text that is still to be read: n bytes, from a place in the blob at
// hand to a place in the text.
type span struct{ to, from, n int }

// operation is one operation of a delta: it describes n bytes at a place of the target.
type operation struct {
	at, n int
	from  int    // the place in the base, if text is nil
	text  []byte // bytes of its own
}

var errDelta = errors.New("the delta does not fit")

func operations(delta []byte) (out []operation, err error) {
	for at := 0; len(delta) > 0; {
		head, k := binary.Uvarint(delta)
		o := operation{at: at, n: int(head >> 1)}
		if k <= 0 || head>>1 > math.MaxInt32 || o.n == 0 {
			return nil, errDelta
		}
		delta = delta[k:]
		if head&1 == 1 {
			place, k := binary.Uvarint(delta)
			if k <= 0 || place > math.MaxInt32 {
				return nil, errDelta
			}
			o.from, delta = int(place), delta[k:]
		} else if o.n > len(delta) {
			return nil, errDelta
		} else {
			o.text, delta = delta[:o.n], delta[o.n:]
		}
		out, at = append(out, o), at+o.n
	}
	return out, nil
}

// readDelta reads the parts of a text that a delta has itself, and returns those that are
// in the base.
func readDelta(text, delta []byte, spans []span) (under []span, err error) {
	ops, err := operations(delta)
	if err != nil {
		return nil, err
	}
	for _, s := range spans {
		i, found := slices.BinarySearchFunc(ops, s.from, func(o operation, at int) int { return o.at - at })
		if !found {
			i--
		}
		for ; s.n > 0; i++ {
			if i < 0 || i >= len(ops) || s.from < ops[i].at || s.from >= ops[i].at+ops[i].n {
				return nil, errDelta
			}
			o := &ops[i]
			skip := s.from - o.at
			n := min(s.n, o.n-skip)
			if o.text != nil {
				copy(text[s.to:s.to+n], o.text[skip:])
			} else if last := len(under) - 1; last >= 0 && under[last].to+under[last].n == s.to && under[last].from+under[last].n == o.from+skip {
				under[last].n += n
			} else {
				under = append(under, span{s.to, o.from + skip, n})
			}
			s.to, s.from, s.n = s.to+n, s.from+n, s.n-n
		}
	}
	return under, nil
}

// deltaSize returns the length of the text that a delta describes; −1 if it describes none.
func deltaSize(delta []byte) (n int64) {
	ops, err := operations(delta)
	if err != nil {
		return -1
	}
	for _, o := range ops {
		n += int64(o.n)
	}
	return n
}
