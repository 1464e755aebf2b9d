package dashboard_test

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
)

// The overview draws what happened in the queues in the last hour and day.
func TestSparklines(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		p.Advance(time.Since(p.Now())) // the dashboard has no other clock than the wall's
		empty := open(t, p, false)
		empty.has(empty.get("/ui/?span=day"), 200, "Nothing happened in the last day")
		h := open(t, p, false) // the other one keeps its answer for twenty times as long as that took
		for n := range 4 {
			h.p.Create(pawl.NewTask{Type: "count", Payload: json.RawMessage(`1`), MaxAttempts: 1})
			l := h.claim("count")
			var err error
			if n == 3 {
				_, err = pawl.Fail(t.Context(), p.Engine, l.Fence(), errors.New("no"))
			} else {
				_, err = pawl.Complete(t.Context(), p.Engine, l.Fence(), json.RawMessage(`1`))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		for span, want := range map[string][]string{
			"hour": {"Flow by queue, the last hour", ">25 %<", ">&lt; 0.1/min<", "at most 1.5/min"},
			"day":  {"Flow by queue, the last day", ">25 %<", ">&lt; 0.1/min<", "at most &lt; 0.1/min"},
		} {
			got := h.get("/ui/?span=" + span)
			h.has(got, 200, want...)
			lines := regexp.MustCompile(`role="img"><title>[^<]+</title><polyline points="([^"]+)"/>`).FindAllStringSubmatch(got.text, -1)
			if len(lines) != 4 {
				t.Fatalf("%s has %d lines", span, len(lines))
			}
			points := strings.Fields(lines[0][1])
			if len(points) != 30 || points[0] != "0,23" {
				t.Fatalf("the throughput of the %s is %v", span, points)
			}
			// The events have one time. The page is drawn later, in the same step or in the next one.
			if last := strings.Join(points[28:], " "); !strings.Contains(last+" ", ",1 ") {
				t.Errorf("the throughput of the %s is %v", span, points)
			}
		}
		h.has(h.get("/ui/?span=year"), 400, "span is hour or day")
	})
}
