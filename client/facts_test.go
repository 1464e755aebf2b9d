package client_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math/bits"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// factsOf returns what the API's description can tell of a request and its answer, one by one: its route, its headers, and
// of each place in the bodies the members of an object, or the form of a value. The proxy judges a call with a new fact.
func factsOf(req *http.Request, body []byte, r *recorded) []string {
	scope := fmt.Sprint(req.Method, textForm(req.URL.RequestURI()), r.status)
	var facts []string
	headers := func(h http.Header) string {
		all := append(slices.Sorted(maps.Keys(h)), h["Content-Type"]...)
		return strings.ReplaceAll(strings.Join(all, ","), " ", "")
	}
	for name, v := range map[string]any{
		"sent": headers(req.Header), "got": headers(r.header), "body": jsonOf(body), "answer": jsonOf(r.body),
	} {
		facts = addFacts(facts, scope+name, v)
	}
	return facts
}

// jsonOf returns the value of a body, or the text of one that is no JSON.
func jsonOf(body []byte) (v any) {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	if dec.Decode(&v) != nil || dec.More() {
		return string(body)
	}
	return v
}

func addFacts(facts []string, at string, v any) []string {
	if len(at) > 1000 { // of deep values
		sum := sha256.Sum256([]byte(at))
		at = hex.EncodeToString(sum[:])
	}
	switch x := v.(type) {
	case map[string]any:
		for key, member := range x {
			facts = addFacts(facts, at+"."+textForm(key), member)
		}
		return append(facts, fmt.Sprint(at, slices.Sorted(maps.Keys(x))))
	case []any:
		for _, element := range x {
			facts = addFacts(facts, at+"[]", element)
		}
		return append(facts, fmt.Sprint(at, "[", bits.Len(uint(len(x)))))
	case string:
		return append(facts, at+"'"+textForm(x))
	default: // a number, with as many digits, true, false or null
		return append(facts, fmt.Sprintf("%s=%T%s%d", at, x, textForm(fmt.Sprint(x)), len(fmt.Sprint(x))))
	}
}

var varying = regexp.MustCompile(`[0-9a-f]{16,}|[0-9A-Z]+`)

// textForm keeps words in lower case, as states and codes are. Of a text of several words it keeps about how long it is.
func textForm(s string) string {
	length := bits.Len(uint(len(s)))
	if len(s) > 500 || strings.ContainsAny(s, " \n\"{}") {
		return fmt.Sprint("text ", length)
	}
	return fmt.Sprint(varying.ReplaceAllString(s, "0"), length)
}

func TestCallsWithNewFacts(t *testing.T) {
	var p prism
	header := http.Header{}
	isNew := func(target, body string, status int, answer string) bool {
		req, err := http.NewRequest("POST", "http://localhost"+target, nil)
		if err != nil {
			t.Fatal(err)
		}
		return p.isNew(factsOf(req, []byte(body), &recorded{status, header, []byte(answer)}))
	}
	const target, body, answer = "/tasks/tsk_01KG4K42G2KBMDNZJNE7P0356W:cancel", `{"force":true}`,
		`{"id":"tsk_01KG4K42G2KBMDNZJNE7P0356W","state":"queued","at":"2026-01-29T10:00:00Z","items":[{"n":1},{"n":2}]}`
	if !isNew(target, body, 200, answer) {
		t.Error("the first call is not new")
	}
	if isNew("/tasks/tsk_01KG4K42AYMB2FT8B4X9X5GF6M:cancel", body, 200,
		`{"id":"tsk_01KG4K42AYMB2FT8B4X9X5GF6M","items":[{"n":3},{"n":4}],"state":"queued","at":"2026-02-01T11:02:03Z"}`) {
		t.Error("a call with other ids and times is new")
	}
	for n, other := range []bool{
		isNew("/tasks/tsk_01KG4K42G2KBMDNZJNE7P0356W:retry", body, 200, answer),
		isNew(target, `{"force":null}`, 200, answer),
		isNew(target, body, 201, answer),
		isNew(target, body, 200, strings.Replace(answer, "queued", "running", 1)),
		isNew(target, body, 200, strings.Replace(answer, `"at"`, `"when"`, 1)),
		isNew(target, body, 200, strings.Replace(answer, `"n":2`, `"n":"2"`, 1)),
		isNew(target, body, 200, strings.Replace(answer, `"n":2`, `"n":2.5`, 1)),
		isNew(target, body, 200, strings.Replace(answer, `"n":2`, `"n":200000`, 1)),
		isNew(target, body, 200, strings.Replace(answer, `{"n":1},{"n":2}`, "", 1)),
	} {
		if !other {
			t.Errorf("call %d is not new", n)
		}
	}
	header.Set("Retry-After", "1")
	if !isNew(target, body, 200, answer) {
		t.Error("a call with another header is not new")
	}
}
