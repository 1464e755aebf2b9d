package testclock_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/internal/testclock"
)

var start = time.Date(2026, 1, 29, 10, 0, 0, 0, time.UTC)

// open opens a database with its test clock, as a server does.
func open(t *testing.T, url string) (*testclock.Clock, *engine.Engine, func(body string) (int, string)) {
	t.Helper()
	c, err := testclock.Open(url, start)
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.OpenWith(t.Context(), url, engine.Options{Clock: c.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return c, e, func(body string) (int, string) {
		w := httptest.NewRecorder()
		c.Handler(e).ServeHTTP(w, httptest.NewRequest(http.MethodPost, testclock.Path, strings.NewReader(body)))
		text, _ := io.ReadAll(w.Body)
		return w.Code, string(text)
	}
}

func TestTheClockMovesThroughWhatFallsDue(t *testing.T) {
	url := "sqlite:" + filepath.Join(t.TempDir(), "work.db")
	_, e, advance := open(t, url)
	_, err := e.CreateSchedule(t.Context(), pawl.NewSchedule{Name: "hourly", Cron: "0 * * * *", Overlap: pawl.OverlapAllow,
		Task: pawl.NewTask{Type: "tick", ScheduleToStartSeconds: 90 * 60}})
	if err != nil {
		t.Fatal(err)
	}
	late := start.Add(5*time.Hour + 500*time.Millisecond)
	task, err := pawl.Create(t.Context(), e, pawl.NewTask{Type: "later", RunAt: &late})
	if err != nil {
		t.Fatal(err)
	}
	code, text := advance(`{"seconds":18000}`)
	var said struct{ Now time.Time }
	if err := json.Unmarshal([]byte(text), &said); err != nil || code != http.StatusOK || !said.Now.Equal(late) {
		t.Errorf("%d %s, want %s", code, text, late) // what falls due within a second has happened
	}
	if got, err := e.GetTask(t.Context(), task.ID); err != nil || got.State != pawl.TaskQueued {
		t.Errorf("the later task is %s, %v", got.State, err)
	}
	list, err := e.ListTasks(t.Context(), pawl.TaskFilter{Types: []string{"tick"}})
	if err != nil {
		t.Fatal(err)
	}
	states := map[pawl.TaskState]int{}
	for _, task := range list.Items {
		states[task.State]++
	}
	if states[pawl.TaskFailed] != 3 || states[pawl.TaskQueued] != 2 {
		t.Errorf("ticks: %v", states)
	}
	if code, text := advance(`{}`); code != http.StatusOK || !strings.Contains(text, late.Format(time.RFC3339Nano)) {
		t.Errorf("where it stands: %d %s", code, text)
	}

	// It stands there after a restart, whatever start the next one has.
	_ = e.Close()
	if c, err := testclock.Open(url, start.AddDate(1, 0, 0)); err != nil || !c.Now().Equal(late) {
		t.Errorf("after a restart: %v, %v", c.Now(), err)
	}
}

func TestWhatIsRefused(t *testing.T) {
	dir := t.TempDir()
	existing := filepath.Join(dir, "existing.db")
	if err := os.WriteFile(existing, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(dir, "broken.db")
	for name, text := range map[string]string{broken: "x", broken + ".test-clock": "noon"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, url := range []string{"postgres://localhost/pawl", "sqlite:" + existing, "sqlite:" + existing + "?prefix=p_", "sqlite:" + broken} {
		if _, err := testclock.Open(url, start); pawl.CodeOf(err) != pawl.CodeInvalid {
			t.Errorf("%s: %v", url, err)
		}
	}
	c, e, advance := open(t, "sqlite:"+filepath.Join(dir, "new.db"))
	for _, body := range []string{`{"seconds":-1}`, `{"seconds":1e30}`, `{"seconds":"1"}`, `{"hours":1}`, `[]`, ``} {
		if code, text := advance(body); code != http.StatusBadRequest || !strings.Contains(text, `"invalid"`) {
			t.Errorf("%s: %d %s", body, code, text)
		}
	}
	w := httptest.NewRecorder()
	c.Handler(e).ServeHTTP(w, httptest.NewRequest(http.MethodGet, testclock.Path, nil))
	if w.Code != http.StatusNotFound || !c.Now().Equal(start) {
		t.Errorf("GET: %d; the clock stands at %s", w.Code, c.Now())
	}
}
