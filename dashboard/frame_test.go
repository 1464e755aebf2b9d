package dashboard

import (
	"net/http/httptest"
	"testing"
	"time"
)

// deadlines keeps the deadline of writes.
type deadlines struct {
	*httptest.ResponseRecorder
	all []time.Time
}

func (d *deadlines) SetWriteDeadline(at time.Time) error {
	d.all = append(d.all, at)
	return nil
}

// A frame has a time to be received in. Over HTTP/2 a deadline that stays ends the stream while it is silent.
func TestADeadlineIsOfOneFrame(t *testing.T) {
	w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	if !sendFrame(w, ":\n\n") || len(w.all) == 0 || w.all[0].IsZero() {
		t.Errorf("the deadlines are %v", w.all)
	}
	if n := len(w.all); n > 0 && !w.all[n-1].IsZero() {
		t.Errorf("after the frame, the deadline is %v", w.all[n-1])
	}
}
