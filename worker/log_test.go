package worker

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-work/pawl"
)

// What happens to an item is logged by default, to slog's default logger. Its input and result
// are not logged.
func TestWorkersLogByDefault(t *testing.T) {
	before := slog.Default()
	defer slog.SetDefault(before)
	var log lines
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	inputs := []string{"done", "fails", "fails for good", "sleeps", "is refused", "is submitted", "is lost", "is cut short"}
	refuse := map[string]error{
		"complete itm_4": pawl.Invalid("/result", "holds NUL"),
		"complete itm_5": &pawl.Error{Code: pawl.CodeConflict, State: string(pawl.ItemInProgress)},
		"complete itm_6": pawl.ErrLeaseLost,
	}
	handler := func(ctx context.Context, in json.RawMessage) (json.RawMessage, error) {
		time.Sleep(time.Second)
		switch strings.Trim(string(in), `"`) {
		case "fails":
			return nil, errors.New("no paper")
		case "fails for good":
			return nil, pawl.Permanent(errors.New("no printer"))
		case "sleeps":
			return nil, pawl.Sleep(ctx, "nap", time.Hour)
		case "is cut short":
			return runFor(time.Hour)(ctx, in)
		}
		return json.RawMessage(`"secret"`), nil
	}
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.refuse = func(verb, id string) error { return refuse[verb+" "+id] }
		for _, in := range inputs {
			f.add("t", `"`+in+`"`)
		}
		ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
		defer stop()
		if err := RunWith(ctx, f, Options{Concurrency: len(inputs), StopGrace: -1}, Handler{Type: "t", Do: handler}); !errors.Is(
			err,
			ErrGivenBack,
		) {
			t.Error(err)
		}
	})
	said := log.String()
	for _, want := range []string{
		`level=INFO msg="item started" worker_id=\S+ item_id=itm_0 task_id=\S+ type=t attempt=1`,
		`level=INFO msg="item done" .*item_id=itm_0 .*took=1s`,
		`level=WARN msg="item failed" .*item_id=itm_1 .*error="no paper" .*retryable=true`,
		`level=WARN msg="item failed" .*item_id=itm_2 .*error="no printer" .*retryable=false`,
		`level=INFO msg="item suspended" .*item_id=itm_3 .*took=1s`,
		`level=WARN msg="the result was refused, and its item fails" .*item_id=itm_4 .*error=".*/result: does not fit"`,
		`level=INFO msg="item submitted" .*item_id=itm_5 `,
		`level=WARN msg="lease lost" .*item_id=itm_6 `,
		`level=INFO msg="item released" .*item_id=itm_7 `,
	} {
		if !regexp.MustCompile(want).MatchString(said) {
			t.Errorf("no line like %s", want)
		}
	}
	if started := strings.Count(said, "item started"); started != len(inputs) || strings.Contains(said, "secret") {
		t.Errorf("%d were started:\n%s", started, said)
	}
}
