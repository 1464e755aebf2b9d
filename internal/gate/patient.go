package gate

import (
	"net/http"
	"time"

	"github.com/pawl-work/pawl/internal/clock"
)

// patience is how long a reader may take to receive what was written.
const patience = time.Minute

// patient is a writer without the deadline of the server, which is shorter than an upstream may take: only a reader that does
// not take what is written is cut off.
type patient struct{ http.ResponseWriter }

func unhurried(w http.ResponseWriter) http.ResponseWriter {
	p := patient{w}
	p.deadline(time.Time{})
	return p
}

func (p patient) deadline(at time.Time) {
	_ = http.NewResponseController(p.ResponseWriter).SetWriteDeadline(at) // not every writer supports deadlines
}

// Write implements http.ResponseWriter.
func (p patient) Write(b []byte) (int, error) {
	p.deadline(clock.Now().Add(patience))
	return p.ResponseWriter.Write(b)
}

// FlushError sends what was written. Over HTTP/2, a deadline that passes later would end the stream.
func (p patient) FlushError() error {
	defer p.deadline(time.Time{})
	return http.NewResponseController(p.ResponseWriter).Flush()
}

// Unwrap is for http.ResponseController.
func (p patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }
