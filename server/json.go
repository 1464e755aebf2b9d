package server

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/strictjson"
)

// format reads JSON strictly and writes payloads unchanged.
var format = huma.Format{Marshal: encode, Unmarshal: decode}

// encode writes an answer in which each raw value has exactly the bytes that were stored. The
// library would reformat raw JSON, so encode has it write null for each and sends the bytes in
// its place. It returns no error if the caller has gone.
func encode(w io.Writer, v any) error {
	e := encoders.Get().(*encoder)
	defer e.free()
	if err := jsonv2.MarshalWrite(&e.text, v, e.options); err != nil {
		return err
	}
	e.text.WriteByte('\n')
	e.out.Reset(w)
	text, from := e.text.Bytes(), int64(0)
	for _, h := range e.holes {
		_, _ = e.out.Write(text[from:h.at])
		_, _ = e.out.Write(h.raw)
		from = h.at + int64(len("null"))
	}
	_, _ = e.out.Write(text[from:])
	_ = e.out.Flush()
	return nil
}

// encoder writes an answer. Encoders are reused: the library caches how a type is written by
// its options.
type encoder struct {
	options jsonv2.Options
	text    bytes.Buffer
	holes   []hole
	out     *bufio.Writer // small parts go out together, large payloads directly
}

type hole struct {
	at  int64
	raw json.RawMessage
}

var encoders = sync.Pool{New: func() any {
	e := &encoder{out: bufio.NewWriterSize(nil, 16<<10)}
	e.options = jsonv2.JoinOptions(jsonv2.WithMarshalers(jsonv2.MarshalToFunc(e.leave)),
		jsonv1.OmitEmptyWithLegacySemantics(true), jsonv2.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	return e
}}

// leave writes null for a raw value and notes the place.
func (e *encoder) leave(enc *jsontext.Encoder, raw json.RawMessage) error {
	if err := enc.WriteToken(jsontext.Null); err != nil || len(raw) == 0 {
		return err
	}
	e.holes = append(e.holes, hole{enc.OutputOffset() - int64(len("null")), raw})
	return nil
}

// free makes the encoder available again, unless an answer was so large that it would hold
// much memory.
func (e *encoder) free() {
	if e.text.Cap() > 64<<10 {
		return
	}
	e.text.Reset()
	e.out.Reset(nil)
	clear(e.holes)
	e.holes = e.holes[:0]
	encoders.Put(e)
}

// decode reads a body that was scanned and fits.
func decode(data []byte, v any) error {
	err := strictjson.Decode(data, v)
	var wrong *jsonv2.SemanticError
	if errors.As(err, &wrong) {
		return fault{string(wrong.JSONPointer), strictjson.Misfit(wrong)}
	}
	return err
}

// fault passes a field through huma, which keeps only the text of an error.
type fault struct{ Pointer, Message string }

func (f fault) Error() string {
	b, _ := json.Marshal(f) // two strings always marshal
	return string(b)
}

func decodeFault(text string) (pawl.Field, bool) {
	var f fault
	err := json.Unmarshal([]byte(text), &f)
	return pawl.Field{Pointer: f.Pointer, Message: f.Message}, err == nil
}
