package childproc

import (
	"bytes"
	"strings"
)

// HeadBuffer keeps the first bytes written to it and knows whether there were more.
type HeadBuffer struct {
	bytes.Buffer
	Limit     int
	Truncated bool
}

// Write implements io.Writer.
func (h *HeadBuffer) Write(b []byte) (int, error) {
	if room := h.Limit - h.Len(); len(b) > room {
		h.Truncated = true
		h.Buffer.Write(b[:room])
		return len(b), nil
	}
	return h.Buffer.Write(b)
}

// TailBuffer keeps the last bytes written to it.
type TailBuffer struct {
	kept  []byte
	Limit int
}

// Write implements io.Writer.
func (l *TailBuffer) Write(b []byte) (int, error) {
	l.kept = append(l.kept, b...)
	if over := len(l.kept) - l.Limit; over > 0 {
		l.kept = append(l.kept[:0], l.kept[over:]...)
	}
	return len(b), nil
}

// String is what was kept, as text that JSON can hold.
func (l *TailBuffer) String() string {
	return strings.ReplaceAll(strings.ToValidUTF8(string(l.kept), "\uFFFD"), "\x00", "\uFFFD")
}
