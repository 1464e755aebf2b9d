package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/mcp"
	"github.com/pawl-work/pawl/pawltest"
)

// speak starts a server on a pair of streams. The returned function writes a line, and returns the next line that
// the server writes.
func speak(t *testing.T, revision string) func(line string) string {
	t.Helper()
	p := pawltest.Open(t, pawltest.SQLite)
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- mcp.New(p.Service, mcp.Options{Log: quiet}).Stdio(context.WithoutCancel(t.Context()), in, out)
	}()
	t.Cleanup(func() {
		_ = toServer.Close()
		if err := <-done; err != nil {
			t.Errorf("stdio ended: %v", err)
		}
	})
	answers := bufio.NewReader(fromServer)
	say := func(line string) string {
		t.Helper()
		if _, err := io.WriteString(toServer, line+"\n"); err != nil {
			t.Fatal(err)
		}
		text, err := answers.ReadString('\n')
		if err != nil {
			t.Fatalf("after %.80q: %v", line, err)
		}
		return strings.TrimSpace(text)
	}
	say(`{"jsonrpc":"2.0","id":"open","method":"initialize","params":{"protocolVersion":"` + revision +
		`","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	if _, err := io.WriteString(toServer, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\r\n\r\n \n"); err != nil {
		t.Fatal(err)
	}
	return say
}

// A line that is no message is answered, and the next line is read.
func TestABadLineEndsNothing(t *testing.T) {
	say := speak(t, "2025-11-25")
	for name, c := range map[string]struct {
		line string
		code int
		id   string
	}{
		"text":                        {`hello`, -32700, "null"},
		"an open list":                {strings.Repeat("[", 1000), -32700, "null"},
		"an open text":                {`{"jsonrpc":"2.0","id":1,"method":"ping`, -32700, "null"},
		"lists in lists":              {strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000), -32700, "null"},
		"a byte order mark":           {"\ufeff" + `{"jsonrpc":"2.0","id":1,"method":"ping"}`, -32700, "null"},
		"bytes that are not UTF-8":    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", -32700, "null"},
		"two messages":                {`{"jsonrpc":"2.0","id":1,"method":"ping"} {"jsonrpc":"2.0","id":2,"method":"ping"}`, -32700, "null"},
		"NUL":                         {"\x00", -32700, "null"},
		"an empty list":               {`[]`, -32600, "null"},
		"a list":                      {`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, -32600, "null"},
		"an empty object":             {`{}`, -32600, "null"},
		"a number":                    {`7`, -32600, "null"},
		"null":                        {`null`, -32600, "null"},
		"another version":             {`{"jsonrpc":"1.0","id":4,"method":"ping"}`, -32600, "4"},
		"no version":                  {`{"id":"a","method":"ping"}`, -32600, `"a"`},
		"no method":                   {`{"jsonrpc":"2.0","id":5}`, -32600, "5"},
		"a method that is none":       {`{"jsonrpc":"2.0","id":5,"method":1}`, -32600, "5"},
		"an id that is none":          {`{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}`, -32600, "null"},
		"an id that is null":          {`{"jsonrpc":"2.0","id":null,"method":"ping"}`, -32600, "null"},
		"an id that is true":          {`{"jsonrpc":"2.0","id":true,"method":"ping"}`, -32600, "null"},
		"params that are none":        {`{"jsonrpc":"2.0","id":6,"method":"ping","params":7}`, -32600, "6"},
		"a name twice":                {`{"jsonrpc":"2.0","id":6,"method":"ping","method":"ping"}`, -32600, "6"},
		"a method that is not there":  {`{"jsonrpc":"2.0","id":7,"method":"dance"}`, -32601, "7"},
		"a message that is too large": {`{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("x", pawl.MaxBodyBytes) + `"}`, -32600, "null"},
	} {
		var answer struct {
			ID    json.RawMessage
			Error struct{ Code int }
		}
		if text := say(c.line); json.Unmarshal([]byte(text), &answer) != nil || answer.Error.Code != c.code || string(answer.ID) != c.id {
			t.Errorf("%s: %s, want %d with id %s", name, text, c.code, c.id)
		}
		if text := say(`{"jsonrpc":"2.0","id":9,"method":"ping"}`); text != `{"jsonrpc":"2.0","id":9,"result":{}}` {
			t.Fatalf("after %s: %s", name, text)
		}
	}
}

// An answer has exactly the id of its request.
func TestIDsOfAnswers(t *testing.T) {
	say := speak(t, "2025-11-25")
	for _, id := range []string{`1`, `0`, `-1`, `9007199254740993`, `9223372036854775807`,
		`9223372036854775808`, `123456789012345678901234567890`,
		`-9007199254740993`, `1.5`, `1e3`, `""`, `"a"`, `"\u0000"`, `"é\"<&>"`, `"123"`} {
		text := say(`{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}`)
		var answer struct{ ID json.RawMessage }
		_ = json.Unmarshal([]byte(text), &answer)
		var want, got any
		_, _ = json.Unmarshal([]byte(id), &want), json.Unmarshal(answer.ID, &got)
		if string(answer.ID) != id && (id[0] != '"' || want != got) {
			t.Errorf("the answer to %s: %s", id, text)
		}
	}
}

// Clients of a revision that has batches get the answers to a batch in one line.
func TestBatchesOfLines(t *testing.T) {
	say := speak(t, "2025-03-26")
	got := say(`[{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"},7,{"jsonrpc":"2.0","method":"notifications/initialized"}]`)
	var answers []struct {
		ID     json.RawMessage
		Error  struct{ Code int }
		Result json.RawMessage
	}
	if json.Unmarshal([]byte(got), &answers) != nil || len(answers) != 2 || answers[0].Error.Code != -32600 ||
		string(answers[1].ID) != "9007199254740993" || string(answers[1].Result) != "{}" {
		t.Errorf("%s", got)
	}
	if got = say(`[]`); !strings.Contains(got, "-32600") {
		t.Errorf("of an empty batch: %s", got)
	}
}
