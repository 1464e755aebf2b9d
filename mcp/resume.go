package mcp

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/pawl-work/pawl"
)

type resumeIn struct {
	ItemID string `json:"item_id"`
	Cursor string `json:"cursor,omitempty" jsonschema:"next of the page before"`
}

func resume(ctx context.Context, s *Server, in resumeIn) (pawl.ResumeState, error) {
	at, err := resumeAtOf(in.Cursor)
	if err != nil {
		return pawl.ResumeState{}, err
	}
	r, err := s.svc.ResumePage(ctx, in.ItemID, at.Page)
	if err != nil {
		return r, err
	}
	return r, at.shorten(&r)
}

// resumeAt is a place in a resume state: a page of the service has more bytes than an answer.
type resumeAt struct {
	Page string `json:"p,omitempty"` // cursor of the service's page
	Kind string `json:"k,omitempty"` // of the last row that was shown of it; "" = none was
	Key  string `json:"i,omitempty"`
}

// withinPage is the beginning of a cursor within a page of the service. A cursor of the service
// begins with a letter.
const withinPage = "~"

func resumeAtOf(cursor string) (at resumeAt, err error) {
	coded, within := strings.CutPrefix(cursor, withinPage)
	if !within {
		return resumeAt{Page: cursor}, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(coded)
	if err == nil {
		err = json.Unmarshal(raw, &at)
	}
	if err != nil {
		return at, pawl.Invalid("/cursor", "is not a cursor of this list")
	}
	return at, nil
}

func (at resumeAt) cursor() string {
	raw, _ := json.Marshal(at) // texts always encode
	return withinPage + base64.RawURLEncoding.EncodeToString(raw)
}

// resumeRow is a row of the lists of a resume state.
type resumeRow struct {
	kind, key string
	of        any
	keep      func()
}

// roomOfResume is what the rows of an answer have, beside the newest checkpoints.
const roomOfResume = pawl.MaxMCPAnswer / 2

// shorten reduces a page to the rows that follow a place and fit an answer.
func (at resumeAt) shorten(r *pawl.ResumeState) error {
	rows := rowsOf(r)
	if at.Kind != "" { // the rest was on the answer before
		r.Newest, r.IterationStart, r.IterationEnd, r.ErrorBoundary, r.Error, r.OpenMessage = nil, nil, nil, nil, nil, nil
		rows = at.following(rows)
	}
	of := make([]any, len(rows))
	for i, row := range rows {
		of[i] = row.of
	}
	n, err := fitting(roomOfResume, of)
	if err != nil {
		return err
	}
	for _, row := range rows[:n] {
		row.keep()
	}
	if n < len(rows) {
		r.Next = resumeAt{at.Page, rows[n-1].kind, rows[n-1].key}.cursor()
	}
	return nil
}

// following returns the rows after a place. A step that is gone by now has its place among the
// names; after another row that is gone its list begins again.
func (at resumeAt) following(rows []resumeRow) []resumeRow {
	first := func(is func(resumeRow) bool) []resumeRow {
		if i := slices.IndexFunc(rows, is); i >= 0 {
			return rows[i:]
		}
		return nil
	}
	if at.Kind == "step" {
		return first(func(r resumeRow) bool { return r.kind != at.Kind || r.key > at.Key })
	}
	if left := first(func(r resumeRow) bool { return r.kind == at.Kind && r.key == at.Key }); left != nil {
		return left[1:]
	}
	return first(func(r resumeRow) bool { return r.kind == at.Kind })
}

// rowsOf takes the rows out of a resume state, in a fixed order.
func rowsOf(r *pawl.ResumeState) (rows []resumeRow) {
	all := *r
	r.Steps, r.Signals = map[string]pawl.Checkpoint{}, map[string]pawl.SentSignal{}
	r.Parts, r.Messages = []pawl.ItemPart{}, []pawl.MessageRef{}
	for _, name := range slices.Sorted(maps.Keys(all.Steps)) {
		step, sent := all.Steps[name], (*pawl.SentSignal)(nil)
		if s, there := all.Signals[name]; there {
			sent = &s
		}
		rows = append(rows, resumeRow{"step", name, []any{step, sent}, func() {
			if r.Steps[name] = step; sent != nil {
				r.Signals[name] = *sent
			}
		}})
	}
	for _, p := range all.Parts {
		rows = append(rows, resumeRow{"part", p.ID, p, func() { r.Parts = append(r.Parts, p) }})
	}
	for _, m := range all.Messages {
		rows = append(rows, resumeRow{"message", m.ID, m, func() { r.Messages = append(r.Messages, m) }})
	}
	if all.Children != nil {
		head := *all.Children
		head.Items = nil
		r.Children = &head
		for _, c := range all.Children.Items {
			rows = append(rows, resumeRow{"child", c.ID, c, func() { r.Children.Items = append(r.Children.Items, c) }})
		}
	}
	return rows
}
