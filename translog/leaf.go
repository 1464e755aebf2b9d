package translog

import (
	"encoding/binary"
	"errors"
	"strconv"
	"time"
)

// Leaf is an event as its leaf in the log has it. docs/provenance.md says what its bytes are.
type Leaf struct {
	EventID, Namespace, TaskID, ItemID string
	Attempt                            int
	Event                              string
	ActorType, ActorID, KeyID          string
	Data                               string
	At                                 time.Time
}

const (
	leafVersion      = 1  // the first byte of the canonical form
	leafFields       = 19 // of an event
	leafDigests      = 2  // behind them
	provenanceFields = 12 // of each row behind the digests
	digestSize       = 32
)

var errLeaf = errors.New("it is not the canonical form of an event")

// ReadLeaf reads the canonical form of an event. It accepts no other bytes than those that are hashed
// for some event.
func ReadLeaf(b []byte) (l Leaf, err error) {
	if len(b) == 0 || b[0] != leafVersion {
		return l, errLeaf
	}
	var fields []string
	for b = b[1:]; len(b) > 0; {
		if len(b) < 4 {
			return l, errLeaf
		}
		n := int64(binary.BigEndian.Uint32(b))
		if b = b[4:]; n > int64(len(b)) {
			return l, errLeaf
		}
		fields, b = append(fields, string(b[:n])), b[n:]
	}
	n := len(fields) - leafFields - leafDigests
	if n < 0 || n%provenanceFields != 0 || fields[0] != "event" {
		return l, errLeaf
	}
	for _, digest := range fields[leafFields : leafFields+leafDigests] {
		if digest != "" && len(digest) != digestSize {
			return l, errLeaf
		}
	}
	l = Leaf{EventID: fields[1], Namespace: fields[2], TaskID: fields[3], ItemID: fields[4], Event: fields[6], ActorType: fields[11],
		ActorID: fields[12], KeyID: fields[13], Data: fields[15]}
	attempt, first := leafNumber(fields[5])
	micros, second := leafNumber(fields[18])
	if err = errors.Join(first, second); err != nil {
		return Leaf{}, errLeaf
	}
	l.Attempt, l.At = int(attempt), time.UnixMicro(micros).UTC()
	return l, nil
}

// leafNumber reads a number as leaves have it: in decimal, 0 as an absent field.
func leafNumber(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err == nil && (n == 0 || strconv.FormatInt(n, 10) != text) {
		err = errLeaf
	}
	return n, err
}
