package server

import (
	"strconv"
	"strings"

	"github.com/pawl-work/pawl"
)

// These types are answers that are a task: its version is their ETag.
type (
	versioned struct {
		ETag string `header:"ETag" doc:"The task's version, quoted, for If-Match."`
		Body pawl.Task
	}
	created struct {
		Status   int
		Location string `header:"Location" doc:"The path of the task."`
		ETag     string `header:"ETag" doc:"The task's version, quoted, for If-Match."`
		Body     pawl.Task
	}
)

func etag(t pawl.Task) string { return strconv.Quote(strconv.Itoa(t.Version)) }

// versionOf returns the version that If-Match names; nil = any. A list of versions is refused:
// a caller has seen only one.
func versionOf(ifMatch string) (*int, error) {
	text := strings.TrimSpace(ifMatch)
	if text == "" || text == "*" {
		return nil, nil
	}
	if strings.HasPrefix(text, "W/") {
		return nil, &pawl.Error{Code: pawl.CodePrecondition, Message: "If-Match compares strongly; a weak tag matches nothing"}
	}
	n, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimPrefix(text, `"`), `"`), 10, 31)
	if err != nil || len(text) < 3 || text[0] != '"' || text[len(text)-1] != '"' {
		return nil, &pawl.Error{Code: pawl.CodeInvalid, Message: `If-Match names one version, as in "3", or is *`}
	}
	v := int(n)
	return &v, nil
}

// Versioned is the header of calls about a version of a task.
type Versioned struct {
	IfMatch string `header:"If-Match" doc:"The version that the task must still have, quoted, as in the ETag of an answer; * = any."`
}

// version returns the version that the header or the body names; nil = any.
func (m *Versioned) version(body *int) (*int, error) {
	v, err := versionOf(m.IfMatch)
	switch {
	case err != nil || body == nil:
		return v, err
	case v != nil && *v != *body:
		return nil, pawl.Invalid("/version", "is %d, but If-Match names %d", *body, *v)
	}
	return body, nil
}
