package client

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// CreateSchedule creates a schedule; see pawl.ScheduleKeeper.
func (c *Client) CreateSchedule(ctx context.Context, s pawl.NewSchedule) (pawl.Schedule, error) {
	var out pawl.Schedule
	text, err := encode(s)
	if err != nil {
		return out, err
	}
	r := request{route: api.RouteOf("create_schedule"), body: text}
	c.keyed(ctx, &r, 0)
	err = c.do(ctx, r, &out)
	return out, err
}

// PutSchedule creates a schedule or replaces its definition; see pawl.ScheduleKeeper.
func (c *Client) PutSchedule(ctx context.Context, s pawl.NewSchedule) (pawl.Schedule, error) {
	return write[pawl.Schedule](ctx, c, "put_schedule", s.Name, s)
}

// PauseSchedule stops a schedule; see pawl.ScheduleKeeper.
func (c *Client) PauseSchedule(ctx context.Context, name string) (pawl.Schedule, error) {
	return read[pawl.Schedule](ctx, c, "pause_schedule", name, nil)
}

// ResumeSchedule lets a schedule go on; see pawl.ScheduleKeeper.
func (c *Client) ResumeSchedule(ctx context.Context, name string) (pawl.Schedule, error) {
	return read[pawl.Schedule](ctx, c, "resume_schedule", name, nil)
}

// RunSchedule makes the task of a schedule now; see pawl.ScheduleKeeper.
func (c *Client) RunSchedule(ctx context.Context, name string) (pawl.Schedule, error) {
	return read[pawl.Schedule](ctx, c, "run_schedule", name, nil)
}

// DeleteSchedule removes a schedule; see pawl.ScheduleKeeper.
func (c *Client) DeleteSchedule(ctx context.Context, name string) error {
	_, err := read[struct{}](ctx, c, "delete_schedule", name, nil)
	return err
}

// GetSchedule reads a schedule; see pawl.ScheduleReader.
func (c *Client) GetSchedule(ctx context.Context, name string) (pawl.Schedule, error) {
	return read[pawl.Schedule](ctx, c, "get_schedule", name, nil)
}

// ListSchedules lists schedules; see pawl.ScheduleReader.
func (c *Client) ListSchedules(ctx context.Context, page pawl.Page) (pawl.List[pawl.Schedule], error) {
	return read[pawl.List[pawl.Schedule]](ctx, c, "list_schedules", "", api.PagingOf(page))
}

// ListFirings lists firings; see pawl.ScheduleReader.
func (c *Client) ListFirings(ctx context.Context, f pawl.FiringFilter) (pawl.List[pawl.Firing], error) {
	return read[pawl.List[pawl.Firing]](ctx, c, "schedule_firings", f.Schedule, api.PagingOf(f.Page))
}
