package server

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/api"
)

// CheckRequireKeys refuses names for Options.RequireKeys that are not routes which take an
// Idempotency-Key. Without it, a misspelt name would protect nothing, unnoticed.
func CheckRequireKeys(names []string) error {
	there := []string{"*"}
	for _, r := range api.Routes {
		if r.TakesKey() {
			there = append(there, r.Name)
		}
	}
	for _, name := range names {
		if !slices.Contains(there, name) {
			return &pawl.Error{Code: pawl.CodeInvalid,
				Message: strconv.Quote(name) + " is no route that takes an " + api.KeyHeader + "; there are " + strings.Join(there, ", ")}
		}
	}
	return nil
}

// keyed reads the idempotency key of a mutating call; nil if it has none. The call is carried
// out under the key after it is decoded: see once.
func (s *server) keyed(r *http.Request, route api.Route) (*pawl.KeyBegin, error) {
	key, err := idempotencyKey(r.Header)
	if err != nil {
		return nil, err
	}
	seconds, err := keySeconds(r.Header)
	if err != nil {
		return nil, err
	}
	if key == "" {
		if slices.Contains(s.opts.RequireKeys, route.Name) || slices.Contains(s.opts.RequireKeys, "*") {
			return nil, &pawl.Error{Code: pawl.CodeKeyRequired, Message: "this server takes " + route.Name + " with an " + api.KeyHeader + " only"}
		}
		return nil, nil
	}
	if _, able := s.svc.(pawl.Idempotent); !able {
		return nil, &pawl.Error{Code: pawl.CodeInvalid,
			Message: "this server does not support the header " + api.KeyHeader + "; send the call without the header"}
	}
	begin, err := keyOf(r, key)
	if err != nil {
		return nil, err
	}
	begin.TTLSeconds = seconds
	return &begin, nil
}

// once carries out a decoded call under its key. An answer that is stored now, or was stored
// before, is sent as the stored bytes.
func (s *server) once(ctx context.Context, route api.Route, k *pawl.KeyBegin, of reflect.Type,
	do func(context.Context, pawl.Service) (any, error)) (any, error) {
	run := s.svc.(pawl.Idempotent).Idempotent
	if route.Has(api.Steps) {
		run = s.svc.(pawl.Idempotent).IdempotentSteps
	}
	call := callOf(ctx)
	within, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	call.long = keyedWait{ctx: within, cancel: cancel}
	defer call.long.over()
	var out any
	answer, replayed, err := run(within, *k, func(ctx context.Context, svc pawl.Service) (*pawl.Answer, error) {
		call.nothing = false
		var err error
		if out, err = do(ctx, svc); err != nil || call.nothing {
			return nil, err
		}
		visible(ctx, route, out)
		return answerOf(route, out)
	})
	why := access.Ended(within)
	if err != nil && why == nil && call.nothing && s.opts.Stopping.Err() != nil {
		// A claim waited until the server stopped, which may be before the look at the key: its answer may be stored.
		answer, replayed, err = api.StoredAnswer(ctx, run, *k)
	}
	switch {
	case err != nil && why != nil:
		return nil, why
	case err != nil:
		return nil, err
	case answer.Code == 0:
		return out, nil
	}
	_, tagged := of.FieldByName("ETag")
	call.rest = func(w http.ResponseWriter, _ *http.Request) { send(w, answer, replayed, tagged) }
	return reflect.New(of).Interface(), nil
}

// keyedWait is the wait of a call under a key. The wait is outside the transaction, between two tries of
// the call: it is a long call from the first try that finds nothing until the call is over.
type keyedWait struct {
	ctx    context.Context // of all tries
	cancel context.CancelCauseFunc
	end    func() // nil = the call does not wait
}

func (k *keyedWait) over() {
	if k.end != nil {
		k.end()
	}
}

// waitKeyed lets a call under a key wait: its tries end when the server stops or the caller's key ends.
func (s *server) waitKeyed(k *keyedWait) error {
	if k.end != nil {
		return nil
	}
	waiting, end, err := s.longCall(k.ctx)
	if err != nil {
		return err
	}
	unhook := context.AfterFunc(waiting, func() { k.cancel(access.Ended(waiting)) })
	k.end = func() { unhook(); end() }
	return nil
}

// answerOf returns the form in which an answer is stored: its status, body and location.
func answerOf(route api.Route, out any) (*pawl.Answer, error) {
	a := &pawl.Answer{Code: route.Success}
	v := reflect.ValueOf(out).Elem()
	if f := v.FieldByName("Status"); f.IsValid() && f.Int() != 0 {
		a.Code = int(f.Int())
	}
	if f := v.FieldByName("Location"); f.IsValid() {
		a.Location = f.String()
	}
	if f := v.FieldByName("Body"); f.IsValid() {
		var b bytes.Buffer
		if err := encode(&b, f.Interface()); err != nil {
			return nil, err
		}
		a.Type, a.Body = "application/json", b.Bytes()
	}
	return a, nil
}

// idempotencyKey reads the key of a request. The header holds plain text or the string of a
// structured field, which is the text in quotes.
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
			return "", &pawl.Error{Code: pawl.CodeInvalid,
				Message: api.KeyHeader + " is to be a text of 1 to " + strconv.Itoa(pawl.MaxKeyLen) + " characters"}
		}
		key = text
	}
	return key, nil
}

// keyOf returns the key of a request. The scope of the key is the method, the
// path and the caller. Its hash covers If-Match, and the query and the body in canonical form.
func keyOf(r *http.Request, key string) (pawl.KeyBegin, error) {
	body, err := bodyOf(r)
	if err != nil {
		return pawl.KeyBegin{}, err
	}
	hash, err := pawl.HashOf(struct {
		Query   string          `json:"query"`
		IfMatch string          `json:"if_match"`
		Body    json.RawMessage `json:"body"`
		Refused []string        `json:"refused,omitempty"`
	}{r.URL.Query().Encode(), r.Header.Get("If-Match"), orNull(body), callOf(r.Context()).sifted.digests})
	if err != nil {
		return pawl.KeyBegin{}, err
	}
	caller := pawl.CallerOf(r.Context())
	scope := strings.Join([]string{r.Method, callOf(r.Context()).path, cmp.Or(caller.Key, caller.ActorType+"/"+caller.ActorID)}, " ")
	if utf8.RuneCountInString(scope) > pawl.MaxScopeLen || !utf8.ValidString(scope) {
		sum := sha256.Sum256([]byte(scope))
		scope = r.Method + " sha256:" + hex.EncodeToString(sum[:])
	}
	begin := pawl.KeyBegin{Scope: scope, Key: key, RequestHash: hash}
	return begin, nil
}

// keySeconds reads how long the answer of a request is to be kept; 0 = it does not say.
func keySeconds(h http.Header) (seconds int64, err error) {
	if text := h.Get(api.KeySecondsHeader); text != "" {
		if seconds, err = strconv.ParseInt(text, 10, 64); err != nil || seconds < minKeySeconds {
			err = &pawl.Error{Code: pawl.CodeInvalid,
				Message: fmt.Sprintf("%s must be a number of seconds, at least %d", api.KeySecondsHeader, minKeySeconds)}
		}
	}
	return seconds, err
}

// minKeySeconds is how long the answer of a call is kept at least: as long as the call holds its key.
const minKeySeconds = int64(pawl.DefaultKeyLease / time.Second)

func orNull(body []byte) json.RawMessage {
	if len(body) == 0 {
		return json.RawMessage("null")
	}
	return body
}

// send writes a stored answer. If tagged is set, the answer is a task, and its ETag is the
// task's version.
func send(w http.ResponseWriter, a pawl.Answer, replayed, tagged bool) {
	for name, value := range map[string]string{"Content-Type": a.Type, "Location": a.Location} {
		if value != "" {
			w.Header().Set(name, value)
		}
	}
	var task pawl.Task
	if tagged && json.Unmarshal(a.Body, &task) == nil {
		w.Header().Set("ETag", etag(task))
	}
	if replayed {
		w.Header().Set(api.ReplayedHeader, "true")
	}
	w.WriteHeader(a.Code)
	_, _ = w.Write(a.Body) // the caller may have gone
}
