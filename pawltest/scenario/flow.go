package scenario

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
)

// flowCommands lists the commands of flow control and time.
var flowCommands = map[string]func(s *stage, c call) (string, error){
	"advance":  advance, // D
	"sweep":    sweep,
	"queue":    queue,       // TYPE [PATCH | pause | resume]
	"why":      why,         // i
	"schedule": schedule,    // NAME [J | pause | resume | run | delete]
	"firings":  readFirings, // NAME
	"bulk":     bulk,        // VERB FILTER [dry_run] [update=J]
	"budget":   budget,      // NAME [J | delete]
	"reserve":  reserve,     // w i NAME AMOUNT key=K
	"settle":   settle,      // w i NAME RESERVATION AMOUNT
}

// queue shows a queue, changes its limits, or pauses or resumes it.
func queue(s *stage, c call) (string, error) {
	var q pawl.Queue
	var err error
	switch typ, do := c.word(0), c.word(1); do {
	case "":
		q, err = s.svc.GetQueue(s.ctx, typ)
	case "pause":
		q, err = s.svc.PauseQueue(s.ctx, typ)
	case "resume":
		q, err = s.svc.ResumeQueue(s.ctx, typ)
	default:
		q, err = s.svc.SetQueue(s.ctx, typ, pawl.QueuePatch(do))
	}
	if err != nil {
		return "", err
	}
	limits, err := json.Marshal(q.QueueLimits)
	out := fmt.Sprintf("queued %d, leased %d, waiting %d, scheduled %d, limits %s", q.Queued, q.Leased, q.Waiting, q.Scheduled, limits)
	if q.Paused {
		out += ", paused"
	}
	return out, err
}

// why shows what keeps an item from being claimed.
func why(s *stage, c call) (string, error) {
	i, err := s.svc.GetItem(s.ctx, s.id(c.word(0)))
	if err != nil || i.BlockedBy == nil {
		return "nothing", err
	}
	out := i.BlockedBy.Reason + ": " + i.BlockedBy.Detail
	if i.BlockedBy.Until != nil {
		out += ", until " + s.when(*i.BlockedBy.Until)
	}
	return out, nil
}

// schedule shows a schedule, creates it, or pauses, resumes, runs or deletes it.
func schedule(s *stage, c call) (string, error) {
	var got pawl.Schedule
	var err error
	switch name, do := c.word(0), c.word(1); do {
	case "":
		got, err = s.svc.GetSchedule(s.ctx, name)
	case "pause":
		got, err = s.svc.PauseSchedule(s.ctx, name)
	case "resume":
		got, err = s.svc.ResumeSchedule(s.ctx, name)
	case "run":
		got, err = s.svc.RunSchedule(s.ctx, name)
	case "delete":
		return "", s.svc.DeleteSchedule(s.ctx, name)
	default:
		n := pawl.NewSchedule{Name: name}
		if err := json.Unmarshal([]byte(do), &n); err != nil {
			return "", err
		}
		got, err = s.svc.CreateSchedule(s.ctx, n)
	}
	if err != nil {
		return "", err
	}
	out := fmt.Sprintf("queued %d, ticks:", got.Queued)
	for i, at := range got.Next {
		if i < 3 {
			out += " " + s.when(at)
		}
	}
	if got.LastTaskID != nil {
		out += ", made " + s.name("task", *got.LastTaskID)
	}
	if got.PausedAt != nil {
		out += ", paused"
	}
	if got.Error != nil {
		out += ", error " + got.Error.Code
	}
	return out, nil
}

// readFirings shows what became of the ticks of a schedule.
func readFirings(s *stage, c call) (string, error) {
	list, err := s.svc.ListFirings(s.ctx, pawl.FiringFilter{Schedule: c.word(0)})
	var out []string
	for _, f := range list.Items {
		line := fmt.Sprintf("%s %s", s.when(f.Tick), f.Outcome)
		if f.Until != nil {
			line += " until before " + s.when(*f.Until)
		}
		if f.TaskID != "" {
			line += " " + s.name("task", f.TaskID)
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n"), err
}

// bulk applies a verb to the tasks of a filter.
func bulk(s *stage, c call) (string, error) {
	call := pawl.BulkCall{Verb: c.word(0)}
	if err := json.Unmarshal([]byte(c.word(1)), &call.Filter); err != nil {
		return "", err
	}
	if update := c.raw("update"); update != nil {
		if err := json.Unmarshal(update, &call.Update); err != nil {
			return "", err
		}
	}
	if c.word(2) == "dry_run" {
		n, err := s.svc.CountBulk(s.ctx, call)
		return fmt.Sprintf("%d tasks", n), err
	}
	t, err := s.svc.Bulk(s.ctx, call)
	if err != nil {
		return "", err
	}
	return s.name("task", t.ID) + " " + string(t.State), nil
}

// seconds returns the whole seconds of a duration such as 90s; 0 if it is none.
func seconds(text string) int {
	d, _ := time.ParseDuration(text)
	return int(d / time.Second)
}
