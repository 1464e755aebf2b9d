package store

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pawl-work/pawl"
)

// Chunks are read as they were given, in either encoding, and the stored text is JSON.
func TestChunksComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		chunks := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) pawl.Chunk {
			text := rapid.SampledFrom([]string{"a", "é", "語", "😀", "\u2028", "<&>", `"`, `\`, "\n", "\t", " ", "\x7f", "\xed\xa0\xbd",
				`"},{"type":"text","text":"`, `"}]`, ""})
			c := pawl.Chunk{Type: rapid.SampledFrom(worded).Draw(t, "type")}
			for range rapid.IntRange(0, 4).Draw(t, "length") {
				c.Text += pawl.Words(text.Draw(t, "text"))
			}
			if rapid.IntRange(0, 9).Draw(t, "kind") == 0 {
				c = pawl.Chunk{Type: pawl.ChunkToolCall, ToolCallID: "c", ToolName: "n", Input: json.RawMessage(`{"a":"\"}]"}`)}
			}
			return c
		}), 1, 6).Draw(t, "chunks")
		body, err := EncodeChunks(chunks)
		if err != nil || !json.Valid([]byte(body)) {
			t.Fatalf("%q: %v", body, err)
		}
		row := ChunkRow{Count: len(chunks), Body: body}
		got, err := row.Decode()
		if err != nil || cmp.Diff(chunks, got) != "" {
			t.Fatalf("%q: %v\n%s", body, err, cmp.Diff(chunks, got))
		}
		if fast := row.words(nil); fast != nil && cmp.Diff(chunks, fast) != "" {
			t.Fatalf("%q: %s", body, cmp.Diff(chunks, fast))
		}
		row.Count++
		if _, err := row.Decode(); err == nil {
			t.Fatalf("%q has %d chunks and is read as %d", body, len(chunks), row.Count)
		}
	})
}
