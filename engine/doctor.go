package engine

import (
	"context"

	"github.com/pawl-work/pawl"
)

// Doctor checks the whole database; see pawl.Sweeper.
func (e *Engine) Doctor(ctx context.Context, call pawl.DoctorCall) (pawl.DoctorReport, error) {
	out := pawl.DoctorReport{Breaches: []pawl.Breach{}, Warnings: []pawl.Warning{}}
	if err := e.notInTx("doctor"); err != nil {
		return out, err
	}
	ctx = forAll(ctx)
	events := pawl.DefaultDoctorEvents
	if call.Events != nil {
		events = max(*call.Events, -1)
	}
	breaches, err := e.Check(ctx)
	if err != nil {
		return out, err
	}
	broken, looked, err := e.CheckLog(ctx, events)
	if err != nil {
		return out, err
	}
	for _, b := range append(breaches, broken...) {
		out.Breaches = append(out.Breaches, pawl.Breach{Rule: b.Rule, Code: b.Code, Subject: b.Subject, Found: b.Found, Repair: b.Repair})
	}
	warnings, err := e.Warnings(ctx)
	out.Warnings = append(out.Warnings, warnings...)
	out.Clean, out.Logged = len(out.Breaches) == 0, looked
	return out, err
}
