package server_test

import "testing"

// A PATCH with If-Match is carried out only on the version that it names. Answers have the
// version as their ETag.
func TestIfMatch(t *testing.T) {
	h := open(t)
	made := h.do(201, "POST", "/v1/tasks", `{"type":"a","title":"0"}`)
	path := "/v1/tasks/" + made.str("id")
	if tag := made.Header.Get("ETag"); tag != `"0"` {
		t.Errorf("ETag of what was created: %s", tag)
	}
	for _, c := range []struct {
		match, body string
		status      int
		code, tag   string
	}{
		{`"0"`, `{"title":"1"}`, 200, "", `"1"`},
		{`"0"`, `{"title":"2"}`, 412, "precondition", ""},
		{`"7"`, `{"title":"2"}`, 412, "precondition", ""},
		{`W/"1"`, `{"title":"2"}`, 412, "precondition", ""},
		{`1`, `{"title":"2"}`, 400, "invalid", ""},
		{`"one"`, `{"title":"2"}`, 400, "invalid", ""},
		{`"1", "2"`, `{"title":"2"}`, 400, "invalid", ""},
		{`"-1"`, `{"title":"2"}`, 400, "invalid", ""},
		{` "1" `, `{"title":"2"}`, 200, "", `"2"`},
		{`*`, `{"priority":5}`, 200, "", `"3"`},
		{``, `{"metadata":{"a":1}}`, 200, "", `"4"`},
		{`"4"`, `{"metadata":{"a":1}}`, 200, "", `"4"`},
		{`"4"`, `{}`, 400, "invalid", ""},
		{`"4"`, `{"payload":1}`, 400, "invalid", ""},
	} {
		r := ask(t, h.srv, "PATCH", path, c.body, "If-Match", c.match, "Content-Type", "application/merge-patch+json")
		if r.StatusCode != c.status || r.Header.Get("ETag") != c.tag || c.code != "" && r.str("code") != c.code {
			t.Errorf("If-Match: %s, %s: %s, ETag %s: %s", c.match, c.body, r.Status, r.Header.Get("ETag"), r.text)
		}
		if c.code == "precondition" && c.match[0] == '"' && (r.str("state") != "queued" || r.json["allowed"] == nil) {
			t.Errorf("412 without state and allowed: %s", r.text)
		}
	}
	if r := h.do(200, "GET", path, ""); r.Header.Get("ETag") != `"4"` || r.str("title") != "2" {
		t.Errorf("ETag %s: %s", r.Header.Get("ETag"), r.text)
	}
	for _, method := range []string{"POST", "DELETE"} {
		if r := ask(t, h.srv, method, path+map[string]string{"POST": ":cancel"}[method], "", "If-Match", `"4"`); r.StatusCode != 400 {
			t.Errorf("%s with If-Match, which it does not keep: %s", method, r.Status)
		}
	}
	if r := ask(t, h.srv, "POST", "/v1/tasks", `{"type":"a"}`, "Content-Type", "application/merge-patch+json"); r.StatusCode != 415 {
		t.Errorf("a merge patch that is none: %s", r.Status)
	}
}
