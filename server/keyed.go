package server

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// AnswerKeeper carries calls out once for their key, as engine.Engine does. Of a
// service that is none, calls with an idempotency key are refused.
type AnswerKeeper interface {
	// AnswerOnce runs a call and keeps its answer in one transaction.
	AnswerOnce(ctx context.Context, k pawl.KeyBegin, run func(context.Context) (*pawl.Answer, error)) (answer pawl.Answer, replayed bool, err error)
	// AnswerLong does so for a call that runs in several.
	AnswerLong(ctx context.Context, k pawl.KeyBegin, run func(context.Context) (*pawl.Answer, error)) (answer pawl.Answer, replayed bool, err error)
}

// CheckRequireKeys refuses names for Options.RequireKeys that are no route's which
// takes an Idempotency-Key: whoever misspelt one would believe himself protected.
func CheckRequireKeys(names []string) error {
	there := []string{"*"}
	for _, r := range api.Routes {
		if r.Mutates() {
			there = append(there, r.Name)
		}
	}
	for _, name := range names {
		if !slices.Contains(there, name) {
			return &pawl.Error{Code: pawl.CodeInvalid, Message: strconv.Quote(name) + " is no route that takes an " + api.KeyHeader + "; there are " + strings.Join(there, ", ")}
		}
	}
	return nil
}

// long are the calls that run in several transactions, as many as it takes.
var long = []string{"delete_task", "delete_tasks", "sweep", "restore_archive"}

// errRefused undoes a call whose answer is a refusal, which its record holds; what
// the service keeps of a refusal stays.
var errRefused = errors.New("refused")

// keyed carries a mutating call out once for its Idempotency-Key, if it has one.
func (s *server) keyed(route api.Route) func(huma.Context, func(huma.Context)) {
	required := slices.Contains(s.opts.RequireKeys, route.Name) || slices.Contains(s.opts.RequireKeys, "*")
	keeper, able := s.svc.(AnswerKeeper)
	once := AnswerKeeper.AnswerOnce
	if slices.Contains(long, route.Name) {
		once = AnswerKeeper.AnswerLong
	}
	return func(c huma.Context, next func(huma.Context)) {
		r, w := humachi.Unwrap(c)
		key, err := idempotencyKey(r.Header)
		switch {
		case err != nil:
		case key == "" && required:
			err = &pawl.Error{Code: pawl.CodeKeyRequired, Message: "this server takes " + route.Name + " with an " + api.KeyHeader + " only"}
		case key == "":
			next(c)
			return
		case !able:
			err = &pawl.Error{Code: pawl.CodeInvalid, Message: "this server does not keep the promise that " + api.KeyHeader + " asks for; send the call without it"}
		}
		var begin pawl.KeyBegin
		var body []byte
		if err == nil {
			begin, body, err = keyOf(r, key)
		}
		if err != nil {
			s.write(w, r, err)
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		if route.Name == "claim" {
			defer context.AfterFunc(s.opts.Stopping, cancel)() // it may be waiting
		}
		rec := &record{}
		answer, replayed, err := once(keeper, ctx, begin, func(ctx context.Context) (*pawl.Answer, error) {
			*rec = record{header: http.Header{}}
			again := r.WithContext(context.WithValue(ctx, recordKey{}, rec))
			again.Body = io.NopCloser(bytes.NewReader(body))
			next(humachi.NewContext(c.Operation(), again, rec))
			return rec.answer()
		})
		switch {
		case err == nil && answer.Code == 0, errors.Is(err, errRefused), err != nil && rec.void && s.opts.Stopping.Err() != nil:
			rec.send(w)
		case err != nil:
			s.write(w, r, err)
		default:
			send(w, answer, replayed, tagOf(c.Operation(), answer))
		}
	}
}

// idempotencyKey reads the key: a text, or a structured field's string, which is
// that text in quotes.
func idempotencyKey(h http.Header) (string, error) {
	var key string
	for _, name := range []string{api.KeyHeader, "X-" + api.KeyHeader} {
		values := h.Values(name)
		if len(values) == 0 {
			continue
		}
		text := strings.TrimSpace(values[0])
		if n := len(text); n > 1 && text[0] == '"' && text[n-1] == '"' {
			text = strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(text[1 : n-1])
		}
		switch {
		case len(values) > 1, key != "" && text != key:
			return "", &pawl.Error{Code: pawl.CodeInvalid, Message: api.KeyHeader + " is given more than once"}
		case text == "", !plainText(text), utf8.RuneCountInString(text) > pawl.MaxKeyLen:
			return "", &pawl.Error{Code: pawl.CodeInvalid, Message: api.KeyHeader + " is to be a text of 1 to " + strconv.Itoa(pawl.MaxKeyLen) + " characters"}
		}
		key = text
	}
	return key, nil
}

// keyOf is a request's key: its scope is the caller, the method and the path,
// its hash that of the query and the body in canonical form.
func keyOf(r *http.Request, key string) (pawl.KeyBegin, []byte, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return pawl.KeyBegin{}, nil, err
	}
	hash, err := pawl.HashOf(struct {
		Query   string          `json:"query"`
		IfMatch string          `json:"if_match"`
		Body    json.RawMessage `json:"body"`
	}{r.URL.Query().Encode(), r.Header.Get("If-Match"), orNull(body)})
	if err != nil {
		return pawl.KeyBegin{}, nil, err
	}
	caller := pawl.CallerOf(r.Context())
	scope := strings.Join([]string{r.Method, callOf(r.Context()).path, cmp.Or(caller.Key, caller.ActorType+"/"+caller.ActorID)}, " ")
	if utf8.RuneCountInString(scope) > pawl.MaxScopeLen || !utf8.ValidString(scope) {
		sum := sha256.Sum256([]byte(scope))
		scope = r.Method + " sha256:" + hex.EncodeToString(sum[:])
	}
	begin := pawl.KeyBegin{Scope: scope, Key: key, RequestHash: hash}
	if text := r.Header.Get(api.KeySecondsHeader); text != "" {
		if begin.TTLSeconds, err = strconv.ParseInt(text, 10, 64); err != nil || begin.TTLSeconds < 1 {
			return begin, nil, &pawl.Error{Code: pawl.CodeInvalid, Message: api.KeySecondsHeader + " is to be a number of seconds, at least 1"}
		}
	}
	return begin, body, nil
}

func orNull(body []byte) json.RawMessage {
	if len(body) == 0 {
		return json.RawMessage("null")
	}
	return body
}

// record is the answer to a call while its transaction is open.
type record struct {
	header http.Header
	status int
	body   bytes.Buffer
	void   bool // the call came to nothing: there is nothing to be kept
}

type recordKey struct{}

// nothingDone says that a call has had no effect, so that its answer is not one
// to be given again.
func nothingDone(ctx context.Context) {
	if rec, ok := ctx.Value(recordKey{}).(*record); ok {
		rec.void = true
	}
}

func (r *record) Header() http.Header { return r.header }

func (r *record) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
}

func (r *record) Write(p []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(p)
}

// answer is what is to be kept: of a refusal, and of nothing done, nothing.
func (r *record) answer() (*pawl.Answer, error) {
	switch {
	case r.status == 0 || r.status >= 300:
		return nil, errRefused
	case r.void:
		return nil, nil
	}
	return &pawl.Answer{Code: r.status, Type: r.header.Get("Content-Type"), Location: r.header.Get("Location"), Body: bytes.Clone(r.body.Bytes())}, nil
}

func (r *record) send(w http.ResponseWriter) {
	for name, values := range r.header {
		w.Header()[name] = values
	}
	w.WriteHeader(cmp.Or(r.status, http.StatusOK))
	_, _ = w.Write(r.body.Bytes()) // the caller may be gone
}

// tagOf is the ETag of a kept answer: where a call answers with a task, the
// task's version.
func tagOf(op *huma.Operation, a pawl.Answer) string {
	var task struct {
		Version *int `json:"version"`
	}
	r := op.Responses[strconv.Itoa(a.Code)]
	if r == nil || r.Headers["ETag"] == nil || json.Unmarshal(a.Body, &task) != nil || task.Version == nil {
		return ""
	}
	return strconv.Quote(strconv.Itoa(*task.Version))
}

func send(w http.ResponseWriter, a pawl.Answer, replayed bool, tag string) {
	for name, value := range map[string]string{"Content-Type": a.Type, "Location": a.Location, "ETag": tag} {
		if value != "" {
			w.Header().Set(name, value)
		}
	}
	if replayed {
		w.Header().Set(api.ReplayedHeader, "true")
	}
	w.WriteHeader(a.Code)
	_, _ = w.Write(a.Body)
}
