package dashboard

import "slices"

// menuGroup is a group of links of the menu.
type menuGroup struct {
	Name  string
	Pages []menuPage
}

// menuPage is a link of the menu. Of names the pages below it.
type menuPage struct {
	Path, Title string
	Of          []string
}

// Has reports whether a page is below the link.
func (p menuPage) Has(page string) bool { return slices.Contains(p.Of, page) }

// menu is the menu of all pages.
var menu = []menuGroup{
	{"Work", []menuPage{
		{"/ui/", "Overview", []string{"overview"}},
		{"/ui/tasks", "Tasks", []string{"tasks", "task", "confirm", "bulk"}},
		{"/ui/items", "Items", []string{"items", "item", "selected"}},
		{"/ui/messages", "Messages", []string{"messages", "message"}},
		{"/ui/approvals", "Approvals", []string{"approvals"}},
		{"/ui/effects", "Effects", []string{"effects", "effect"}},
		{"/ui/failures", "Failures", []string{"failures"}},
		{"/ui/dead-letters", "Dead letters", nil},
	}},
	{"Flow", []menuPage{
		{"/ui/queues", "Queues", []string{"queues", "queue"}},
		{"/ui/schedules", "Schedules", []string{"schedules", "schedule"}},
		{"/ui/budgets", "Budgets", []string{"budgets", "budget"}},
	}},
	{"System", []menuPage{
		{"/ui/workers", "Workers", []string{"workers"}},
		{"/ui/types", "Types", []string{"types"}},
		{"/ui/sweeps", "Sweeps", []string{"sweeps"}},
		{"/ui/relays", "Relays", []string{"relays"}},
		{"/ui/keys", "API keys", []string{"keys"}},
		{"/ui/legend", "Legend", []string{"legend"}},
	}},
}
