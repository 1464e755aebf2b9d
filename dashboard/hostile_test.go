package dashboard_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
)

// controls are characters that must not be on a page: they move the cursor or change the writing
// direction.
var controls = regexp.MustCompile("[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]")

// All texts of callers are shown as text, on every page.
func TestHostileTextsAreHarmless(t *testing.T) {
	const evil = `<script>alert("x")</script>"><img src=x onerror=alert(1)> {{.}} ` + "\u202egnp.exe\u2066 \x1b[31mred\x7f \u0085"
	long := strings.Repeat("<b>very long</b>", 3000)
	quoted, err := json.Marshal(evil)
	if err != nil {
		t.Fatal(err)
	}
	deep := json.RawMessage(strings.Repeat(`[`, pawl.MaxDepth) + strings.Repeat(`]`, pawl.MaxDepth))
	payload := json.RawMessage(`{"evil":` + string(quoted) + `,"` + strings.Repeat("k", 300) + `":"` + strings.Repeat("<i>", 30_000) + `"}`)
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := open(t, p, false)
		typ := `<u>"type"</u>/../x`
		only[pawl.TypeRef](t)(p.Service.PutTypes(t.Context(), []pawl.Type{{Name: typ, Description: evil}}))
		h.p.Create(
			pawl.NewTask{
				Type:        typ,
				Title:       evil,
				Payload:     payload,
				MaxAttempts: 1,
				Reply:       &pawl.Reply{Model: evil},
				RequestedBy: &pawl.Requester{Type: evil[:40], ID: strings.ReplaceAll(evil, "/", "")},
				Metadata:    json.RawMessage(`{"evil":` + string(quoted) + `}`),
			},
		)
		h.p.Create(pawl.NewTask{Type: typ, Payload: deep, Items: []pawl.NewItem{{Input: deep, Key: evil}}})
		ls, err := p.Service.Claim(t.Context(), pawl.ClaimRequest{WorkerID: evil, Limit: 2})
		if err != nil || len(ls) != 2 {
			t.Fatal(ls, err)
		}
		l := ls[0]
		stage := evil
		only[pawl.Moved](t)(p.Service.Progress(t.Context(), []pawl.ProgressCall{{Fence: l.Fence(), Stage: &stage}}))
		only[pawl.CheckpointRef](
			t,
		)(
			p.Service.Checkpoint(
				t.Context(),
				[]pawl.CheckpointCall{{Fence: l.Fence(), NewCheckpoint: pawl.NewCheckpoint{Type: pawl.ToolExecuted, Name: evil, Snapshot: payload}}},
			),
		)
		f := pawl.MessageFence{MessageID: l.OpenMessage.ID, WorkerID: l.WorkerID, Attempt: l.Attempt}
		only[pawl.Appended](
			t,
		)(
			p.Service.Append(
				t.Context(),
				[]pawl.AppendCall{
					{
						MessageFence: f,
						Chunks: []pawl.Chunk{
							{Type: "text", Text: evil},
							{Type: "tool_call", ToolCallID: "c", ToolName: evil, Input: payload},
							{Type: "file", MediaType: "text/html", URL: "javascript:alert(1)"},
						},
					},
				},
			),
		)
		only[pawl.Moved](
			t,
		)(
			p.Service.Fail(t.Context(), []pawl.FailCall{{Fence: l.Fence(), Error: pawl.Failure{Code: evil, Message: evil + long}}}),
		)
		for _, path := range []string{"/ui/", "/ui/tasks", "/ui/tasks?type=" + "%3Cscript%3E%22%1b%E2%80%AE", "/ui/tasks/" + l.TaskID,
			"/ui/items/" + l.ID, "/ui/tasks/" + ls[1].TaskID, "/ui/items/" + ls[1].ID, "/ui/messages/" + l.OpenMessage.ID, "/ui/workers",
			"/ui/types", "/ui/tasks/" + l.TaskID + "/retry", "/ui/tasks/%3Cscript%3E%0A", "/ui/tasks?cursor=%3Cscript%3E"} {
			got := h.get(path)
			if got.StatusCode >= 500 {
				t.Errorf("%s: %s", path, got.Status)
			}
			if bad := controls.FindString(got.text); bad != "" {
				t.Errorf("%s lets %q through", path, bad)
			}
			h.hasNot(got, "<script>", "<img", "<b>very", "<i>", "<u>", `href="javascript:`, `src="javascript:`)
			if len(got.text) > 400<<10 {
				t.Errorf("%s is %d bytes", path, len(got.text))
			}
		}
		h.has(h.get("/ui/items/"+l.ID), 200, `<script>alert("x")</script>`, "\u241b[31mred\u2421")
		h.has(h.get("/ui/items/"+ls[1].ID), 200, "[[[[")
	})
}

// The legend shows every state and every move of the tables.
func TestTheLegendIsTheTables(t *testing.T) {
	h := open(t, pawltest.Open(t, pawltest.SQLite), false)
	got := h.get("/ui/legend")
	var want int
	labels := regexp.MustCompile(` data-label="[^"]*"`) // of the cards on a narrow screen
	got.text = labels.ReplaceAllString(got.text, "")
	rest := got.text
	for _, table := range []struct {
		states []pawl.StateInfo
		moves  []pawl.Move
	}{{pawl.TaskStates, pawl.TaskMoves}, {pawl.ItemStates, pawl.ItemMoves}, {pawl.MessageStates, pawl.MessageMoves}} {
		for _, s := range table.states {
			want++
			stored := s.Name
			if !s.Stored {
				stored = string(pawl.TaskOpen)
			}
			row := `<span class="state ` + string(s.Status) + " " + s.Name + `">` + s.Name + `</span></td><td>` + string(s.Status) + `</td>`
			var cells string
			_, rest, _ = strings.Cut(rest, row)
			cells, rest, _ = strings.Cut(rest, "</tr>")
			if !strings.HasSuffix(cells, "<td>"+strings.Join(pawl.Allowed(table.moves, stored), ", ")+"</td>") ||
				s.Terminal != strings.Contains(cells, "an end") ||
				s.Leased != strings.Contains(cells, "holds it") ||
				s.Timed != strings.Contains(cells, "time alone") {
				t.Errorf("%s is shown as %s", s.Name, cells)
			}
		}
		for _, m := range table.moves {
			want++
			verb := m.Verb
			if m.Asked {
				verb = "<b>" + verb + "</b>"
			}
			h.has(
				got,
				200,
				"<tr><td>"+strings.Join(m.From, ", ")+"</td><td>"+verb+"</td><td>"+strings.Join(m.To, ", ")+"</td><td>"+m.Event+"</td>",
				m.Note,
			)
		}
	}
	if rows := strings.Count(got.text, "<tr><td>"); rows != want {
		t.Errorf("%d rows, the tables have %d", rows, want)
	}
}
