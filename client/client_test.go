package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/client"
	"github.com/pawl-work/pawl/pawltest"
)

// answering is a server that answers each request as fn does.
func answering(t *testing.T, fn http.HandlerFunc, o ...client.Options) *client.Client {
	t.Helper()
	srv := httptest.NewServer(fn)
	t.Cleanup(srv.Close)
	return client.NewWith(srv.URL, "pk_1", append(o, client.Options{})[0])
}

func busy(w http.ResponseWriter) {
	w.Header().Set("Content-Type", api.ProblemType)
	w.WriteHeader(http.StatusServiceUnavailable)
	_ = json.NewEncoder(w).Encode(api.ProblemOf(pawl.ErrUnavailable, "/"))
}

func TestReadsAndHeartbeatsAreSentAgain(t *testing.T) {
	fence := pawl.Fence{ItemID: "itm_1", WorkerID: "w", Attempt: 1}
	for _, c := range []struct {
		name string
		want int32
		call func(ctx context.Context, c *client.Client) error
	}{
		{"a read", 3, func(ctx context.Context, c *client.Client) error {
			_, err := c.GetTask(ctx, "tsk_1")
			return err
		}},
		{"a heartbeat", 3, func(ctx context.Context, c *client.Client) error {
			_, err := pawl.Heartbeat(ctx, c, fence)
			return err
		}},
		{"a create", 3, func(ctx context.Context, c *client.Client) error {
			_, err := pawl.Create(ctx, c, pawl.NewTask{Type: "a"})
			return err
		}},
		{"a claim", 1, func(ctx context.Context, c *client.Client) error {
			_, err := c.Claim(ctx, pawl.ClaimRequest{WorkerID: "w"})
			return err
		}},
		{"a completion", 3, func(ctx context.Context, c *client.Client) error {
			_, err := pawl.Complete(ctx, c, fence, nil)
			return err
		}},
	} {
		var asked atomic.Int32
		cl := answering(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer pk_1" {
				t.Errorf("%s: Authorization %q", c.name, r.Header.Get("Authorization"))
			}
			if asked.Add(1) < 3 {
				busy(w)
				return
			}
			fmt.Fprint(w, `{"id":"tsk_1","results":[{"status":200,"value":{"cancelled":false}}]}`)
		})
		err := c.call(t.Context(), cl)
		if asked.Load() != c.want || (err == nil) != (c.want == 3) || err != nil && !errors.Is(err, pawl.ErrUnavailable) {
			t.Errorf("%s: asked %d times, want %d; %v", c.name, asked.Load(), c.want, err)
		}
	}
}

// A redirect is not followed: it would take the key and the payload to another server.
func TestRedirectsAreNotFollowed(t *testing.T) {
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, own := range []*http.Client{nil, {}} {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, other.URL+r.URL.Path, status)
			}))
			c := client.NewWith(srv.URL, "pk_1", client.Options{Tries: 1, HTTP: own})
			_, err := c.CreateTasks(t.Context(), []pawl.NewTask{{Type: "a"}})
			_, err2 := c.GetTask(t.Context(), "tsk_1")
			if err == nil || err2 == nil || elsewhere.Load() > 0 {
				t.Errorf("%d: %v, %v, %d requests elsewhere", status, err, err2, elsewhere.Load())
			}
			srv.Close()
		}
	}
}

func TestAServerThatIsNotThere(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	srv.Close()
	c := client.NewWith(srv.URL, "", client.Options{Tries: 2})
	if _, err := c.GetTask(t.Context(), "tsk_1"); !errors.Is(err, pawl.ErrUnavailable) {
		t.Errorf("a read: %v", err)
	}
	rs, err := c.CreateTasks(t.Context(), []pawl.NewTask{{Type: "a"}, {Type: "b"}})
	if rs != nil || !errors.Is(err, pawl.ErrUnavailable) {
		t.Errorf("a batch: %v, %v", rs, err)
	}
	if _, err := client.NewWith("unix:/nowhere/s", "", client.Options{Tries: 1}).Stats(t.Context()); !errors.Is(err, pawl.ErrUnavailable) {
		t.Errorf("a socket that is not there: %v", err)
	}
	own := client.NewWith("unix:/nowhere/s", "", client.Options{HTTP: http.DefaultClient})
	if _, err := own.Stats(t.Context()); !errors.Is(err, pawl.ErrInvalid) {
		t.Errorf("a socket with an HTTP client of the caller's: %v", err)
	}
	for _, address := range []string{"", "127.0.0.1:7033", "ftp://x", "http://", "http://a b", "unix:"} {
		if _, err := client.New(address, "").Stats(t.Context()); !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("%q: %v", address, err)
		}
	}
}

func TestTheEndOfAContextIsFound(t *testing.T) {
	c := answering(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := c.Claim(ctx, pawl.ClaimRequest{WorkerID: "w", WaitSeconds: 60})
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, pawl.ErrUnavailable) {
		t.Errorf("error is %v", err)
	}
}

func TestAnswersOfOthersThanPawl(t *testing.T) {
	for _, c := range []struct {
		status int
		text   string
		want   *pawl.Error
	}{
		{200, "<html>", pawl.ErrInternal},
		{404, "no page here", pawl.ErrInternal},
		{302, "elsewhere", pawl.ErrInternal},
		{429, "slow down", pawl.ErrLimit},
		{502, "<html>", pawl.ErrUnavailable},
		{503, "<html>", pawl.ErrUnavailable},
	} {
		cl := answering(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			fmt.Fprint(w, c.text)
		})
		if _, err := cl.RestoreArchive(t.Context(), "tsk_1"); !errors.Is(err, c.want) {
			t.Errorf("%d: %v, want %s", c.status, err, c.want.Code)
		}
	}
}

// One call that the server cannot read does not affect the others of its batch.
func TestCallsOfABatchStandForThemselves(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	c := over(t, p.Service)
	tasks := make([]pawl.NewTask, 20)
	for i := range tasks {
		tasks[i] = pawl.NewTask{Type: "a", Payload: json.RawMessage(fmt.Sprint(i))}
	}
	tasks[3].Payload = json.RawMessage(`{"broken"`)
	tasks[7].Title = "a\xffb"
	tasks[11].Payload = json.RawMessage(`{"a":["` + "\xff" + `"]}`)
	tasks[12].Type = ""
	tasks[19].Payload = json.RawMessage(`"` + strings.Repeat("x", pawl.MaxBodyBytes) + `"`)
	rs, err := c.CreateTasks(t.Context(), tasks)
	if err != nil || len(rs) != len(tasks) {
		t.Fatalf("%d answers, %v", len(rs), err)
	}
	pointers := map[int]string{3: "/payload", 7: "/title", 11: "/payload/a/0", 12: "/type"}
	for i, r := range rs {
		var e *pawl.Error
		pointer, bad := pointers[i]
		switch {
		case i == 19:
			if !errors.Is(r.Err, pawl.ErrTooLarge) {
				t.Errorf("call 19: %v", r.Err)
			}
		case bad:
			if !errors.As(r.Err, &e) || e.Code != pawl.CodeInvalid || len(e.Fields) != 1 || e.Fields[0].Pointer != pointer {
				t.Errorf("call %d: %v, want %s", i, r.Err, pointer)
			}
		case r.Err != nil || string(r.Value.Payload) != fmt.Sprint(i):
			t.Errorf("call %d: %v, %s", i, r.Err, r.Value.Payload)
		}
	}
}

// A batch of copies that is refused for what it would make is not sent again in parts, which would pass the bound.
func TestABatchOfCopiesIsNotSplit(t *testing.T) {
	var asked atomic.Int32
	c := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		_ = json.NewEncoder(w).Encode(map[string]any{"code": "too_large", "status": 413, "detail": "the batch would make too much"})
	}, client.Options{})
	for name, call := range map[string]func() error{
		"clone": func() error { _, err := c.CloneTasks(t.Context(), make([]pawl.TaskClone, 4)); return err },
		"fork":  func() error { _, err := c.ForkTasks(t.Context(), make([]pawl.TaskFork, 4)); return err },
	} {
		asked.Store(0)
		if err := call(); pawl.CodeOf(err) != pawl.CodeTooLarge || asked.Load() != 1 {
			t.Errorf("%s: %d requests, %v", name, asked.Load(), err)
		}
	}
	asked.Store(0)
	rs, err := c.CreateTasks(t.Context(), make([]pawl.NewTask, 2))
	if err != nil || pawl.CodeOf(rs[0].Err) != pawl.CodeTooLarge || asked.Load() != 3 {
		t.Errorf("creates: %d requests, %v, %v", asked.Load(), rs, err)
	}
}

// A batch that is too large for one request is sent as several.
func TestLargeBatchesGoInPieces(t *testing.T) {
	var asked atomic.Int32
	c := answering(t, func(w http.ResponseWriter, r *http.Request) {
		var in api.Batch[pawl.NewTask]
		body, err := io.ReadAll(r.Body)
		if err != nil || len(body) > pawl.MaxBodyBytes || json.Unmarshal(body, &in) != nil {
			t.Errorf("a body of %d bytes, %v", len(body), err)
		}
		if asked.Add(1) == 2 {
			busy(w)
			return
		}
		var out api.Results[pawl.Task]
		for _, n := range in.Items {
			out.Results = append(out.Results, api.Result[pawl.Task]{Status: 201, Value: &pawl.Task{Title: n.Title}})
		}
		_ = json.NewEncoder(w).Encode(out)
	}, client.Options{NoKeys: true}) // so that nothing is sent again
	big := json.RawMessage(`"` + strings.Repeat("x", pawl.MaxPayloadBytes-2) + `"`)
	tasks := make([]pawl.NewTask, 10)
	for i := range tasks {
		tasks[i] = pawl.NewTask{Type: "a", Title: fmt.Sprint(i), Payload: big}
	}
	rs, err := c.CreateTasks(t.Context(), tasks)
	if err != nil || asked.Load() != 4 {
		t.Fatalf("%d requests, %v", asked.Load(), err)
	}
	for i, r := range rs {
		// the second piece was refused: its calls alone know nothing
		if refused := i >= 3 && i < 6; refused != errors.Is(r.Err, pawl.ErrUnavailable) || !refused && r.Value.Title != fmt.Sprint(i) {
			t.Errorf("call %d: %+v, %v", i, r.Value.Title, r.Err)
		}
	}
	if _, err := c.CreateTasks(t.Context(), make([]pawl.NewTask, pawl.MaxItemsPerCall+1)); !errors.Is(err, pawl.ErrInvalid) {
		t.Errorf("too many: %v", err)
	}
	if rs, err := c.CreateTasks(t.Context(), nil); err != nil || len(rs) != 0 {
		t.Errorf("none: %v, %v", rs, err)
	}
}

// Every error of the service leaves the client as it went in.
func TestErrorsArriveWhole(t *testing.T) {
	for _, info := range pawl.Errors {
		in := &pawl.Error{Code: info.Code, Message: "m", State: "failed", Allowed: []string{"retry"}, Holder: "w2", Attempt: 4, Reason: "taken",
			Fields: []pawl.Field{{Pointer: "/a", Message: "b"}}, RetryAfter: 2 * time.Second}
		c := over(t, refusing{err: in}, client.Options{NoKeys: true}) // it keeps no answers
		_, single := c.RestoreArchive(t.Context(), "tsk_1")
		_, several := pawl.Cancel(t.Context(), c, "tsk_1", "")
		for door, err := range map[string]error{"single": single, "batch": several} {
			var out *pawl.Error
			if !errors.As(err, &out) || out.Code != in.Code || out.RetryAfter != in.RetryAfter {
				t.Errorf("%s, %s: %v", info.Code, door, err)
				continue
			}
			if info.Code == pawl.CodeInternal {
				continue // nothing more is sent
			}
			if out.Message != in.Message || out.State != in.State || fmt.Sprint(out.Allowed) != fmt.Sprint(in.Allowed) ||
				out.Reason != in.Reason || fmt.Sprint(out.Fields) != fmt.Sprint(in.Fields) {
				t.Errorf("%s, %s: %+v", info.Code, door, out)
			}
			if info.Code == pawl.CodeLeaseLost && (out.Holder != in.Holder || out.Attempt != in.Attempt || !errors.Is(err, pawl.ErrLeaseTaken)) {
				t.Errorf("%s, %s: %+v", info.Code, door, out)
			}
		}
	}
}

// refusing answers with one error.
type refusing struct {
	pawl.Service
	err error
}

func (r refusing) RestoreArchive(context.Context, string) (pawl.Task, error) {
	return pawl.Task{}, r.err
}

func (r refusing) CancelTasks(_ context.Context, calls []pawl.TaskCall) ([]pawl.Result[pawl.Task], error) {
	return []pawl.Result[pawl.Task]{{Err: r.err}}, nil
}

// A stream whose last frame says that its key has ended is not continued.
func TestAStreamThatIsRefused(t *testing.T) {
	asked := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.Header().Set("Content-Type", "text/event-stream")
		p, _ := json.Marshal(api.ProblemOf(&pawl.Error{Code: pawl.CodeUnauthenticated, Message: "this API key has been revoked"}, ""))
		fmt.Fprintf(w, ":\n\nevent: %s\ndata: %s\n\n", api.FrameRefused, p)
	}))
	t.Cleanup(srv.Close)
	c := client.New(srv.URL, "k")
	for _, err := range []error{
		c.FollowEvents(t.Context(), pawl.EventFilter{}, func(pawl.FeedPosition, []pawl.Event) error { return nil }),
		c.FollowMessage(t.Context(), "msg_1", -1, func(pawl.MessageFrame) error { return nil }),
	} {
		if !errors.Is(err, pawl.ErrUnauthenticated) || !strings.Contains(err.Error(), "revoked") {
			t.Errorf("it ends with %v", err)
		}
	}
	if asked != 2 {
		t.Errorf("asked %d times", asked)
	}
}

// A reader that is asked to wait when it connects again waits as long as asked, and continues
// where it was.
func TestAReaderWhoIsAskedForPatience(t *testing.T) {
	var asked atomic.Int32
	var told time.Time
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch n := asked.Add(1); n {
		case 2:
			told = time.Now()
			w.Header().Set("Content-Type", api.ProblemType)
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			_ = json.NewEncoder(w).Encode(api.ProblemOf(pawl.ErrLimit, "/"))
		default:
			if waited := time.Since(told); n == 3 && waited < time.Second {
				t.Errorf("asked again after %s", waited)
			}
			after := 0 // of the chunks 0 and 1, one a stream
			if r.URL.Query().Get("after") == "0" {
				after = 1
			}
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "id: %d\ndata: {\"offset\":%d,\"chunks\":[{\"type\":\"text\",\"text\":\"a\"}]}\n\n", after, after)
			if after == 1 {
				fmt.Fprintf(w, "event: %s\ndata: {\"status\":\"complete\",\"offset\":2}\n\n", api.FrameEnd)
			}
		}
	}))
	t.Cleanup(srv.Close)
	var got []int64
	err := client.New(srv.URL, "").FollowMessage(t.Context(), "msg_1", -1, func(f pawl.MessageFrame) error {
		if f.Chunks != nil {
			got = append(got, f.Offset)
		}
		return nil
	})
	if err != nil || !slices.Equal(got, []int64{0, 1}) || asked.Load() != 3 {
		t.Errorf("got %v in %d calls: %v", got, asked.Load(), err)
	}
}
