package client_test

import (
	"bytes"
	"crypto/sha256"
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

// formOf returns what the API's description can tell of a request and its answer: calls of one form differ only in their
// ids, numbers and times, and in the parts of long texts. The proxy judges each form once.
func formOf(req *http.Request, body []byte, r *recorded) string {
	headers := slices.DeleteFunc(slices.Sorted(maps.Keys(r.header)), func(name string) bool { return name == "Date" })
	sent := slices.Sorted(maps.Keys(req.Header))
	return fmt.Sprint(req.Method, textForm(req.URL.RequestURI()), sent, req.Header["Content-Type"], jsonForm(body), r.status, headers,
		r.header["Content-Type"], jsonForm(r.body))
}

func jsonForm(body []byte) string {
	var v any
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	if dec.Decode(&v) != nil || dec.More() {
		return textForm(string(body))
	}
	return valueForm(v)
}

func valueForm(v any) string {
	var parts []string
	switch x := v.(type) {
	case map[string]any:
		for key, member := range x {
			parts = append(parts, textForm(key)+":"+valueForm(member))
		}
	case []any:
		for _, element := range x {
			parts = append(parts, valueForm(element))
		}
	case string:
		return "'" + textForm(x)
	default: // a number, with as many digits, true, false or null
		return fmt.Sprintf("%T%s%d", x, textForm(fmt.Sprint(x)), len(fmt.Sprint(x)))
	}
	slices.Sort(parts)
	form := fmt.Sprintf("%T%d{%s}", v, bits.Len(uint(len(parts))), strings.Join(slices.Compact(parts), ","))
	if len(form) > 500 {
		return fmt.Sprintf("%x", sha256.Sum256([]byte(form)))
	}
	return form
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

func TestFormsOfCalls(t *testing.T) {
	form := func(target, body string, status int, answer string) string {
		req, err := http.NewRequest("POST", "http://localhost"+target, nil)
		if err != nil {
			t.Fatal(err)
		}
		return formOf(req, []byte(body), &recorded{status: status, body: []byte(answer)})
	}
	const target, body, answer = "/tasks/tsk_01KG4K42G2KBMDNZJNE7P0356W:cancel", `{"force":true}`,
		`{"id":"tsk_01KG4K42G2KBMDNZJNE7P0356W","state":"queued","at":"2026-01-29T10:00:00Z","items":[{"n":1},{"n":2}]}`
	want := form(target, body, 200, answer)
	if got := form("/tasks/tsk_01KG4K42AYMB2FT8B4X9X5GF6M:cancel", body, 200,
		`{"id":"tsk_01KG4K42AYMB2FT8B4X9X5GF6M","items":[{"n":3},{"n":4}],"state":"queued","at":"2026-02-01T11:02:03Z"}`); got != want {
		t.Errorf("%s\n%s", got, want)
	}
	for _, other := range []string{
		form("/tasks/tsk_01KG4K42G2KBMDNZJNE7P0356W:retry", body, 200, answer),
		form(target, `{"force":null}`, 200, answer),
		form(target, body, 201, answer),
		form(target, body, 200, strings.Replace(answer, "queued", "running", 1)),
		form(target, body, 200, strings.Replace(answer, `"at"`, `"when"`, 1)),
		form(target, body, 200, strings.Replace(answer, `"n":2`, `"n":"2"`, 1)),
		form(target, body, 200, strings.Replace(answer, `"n":2`, `"n":2.5`, 1)),
		form(target, body, 200, strings.Replace(answer, `"n":2`, `"n":200000`, 1)),
		form(target, body, 200, strings.Replace(answer, `{"n":1},{"n":2}`, "", 1)),
	} {
		if other == want {
			t.Errorf("it is the same form: %s", other)
		}
	}
}
