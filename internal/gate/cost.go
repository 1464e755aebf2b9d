package gate

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pawl-work/pawl"
)

// AmountAt returns the number above 0 that a JSON Pointer leads to. A text with a name twice is refused: who gets it
// may read the other value.
func AmountAt(text []byte, pointer string) (int64, error) {
	n, err := sumAt(text, []string{pointer})
	if err != nil || n < 1 {
		return 0, pawl.Invalid(pointer, "the request costs what stands there: a whole number above 0")
	}
	return n, nil
}

// Charge returns what an answer says that an effect has cost: the sum of the numbers that JSON Pointers lead to; nil =
// what was reserved, since nothing else is asked for, or the answer does not say it whole, or says more.
func Charge(ctx context.Context, log *slog.Logger, effect string, answer []byte, pointers []string, reserved int64) *int64 {
	if reserved == 0 || len(pointers) == 0 {
		return nil
	}
	n, err := sumAt(answer, pointers)
	if err != nil || n > reserved {
		log.WarnContext(ctx, "an answer does not say what its effect has cost: it is charged what was reserved", "effect", effect)
		return nil
	}
	return &n
}

// CheckCharge reports whether pointers can say what an effect has cost.
func CheckCharge(pointers []string) bool {
	return len(pointers) <= maxPointers && !slices.ContainsFunc(pointers, func(p string) bool { return !isPointer(p) })
}

// maxPointers bounds the numbers of a sum.
const maxPointers = 10

func isPointer(text string) bool {
	return strings.HasPrefix(text, "/") && jsontext.Pointer(text).IsValid()
}

var errNoNumber = errors.New("there is no whole number of 0 or more")

// sumAt returns the sum of the whole numbers, of 0 or more, that JSON Pointers lead to. It holds no more of the text than
// the names of the objects that it is in, so that a large one costs no memory.
func sumAt(text []byte, pointers []string) (sum int64, err error) {
	dec := jsontext.NewDecoder(bytes.NewReader(text)) // a name twice is an error
	found := 0
	for {
		token, err := dec.ReadToken()
		switch {
		case err == io.EOF && found == len(pointers):
			return sum, nil
		case err == io.EOF:
			return 0, errNoNumber
		case err != nil:
			return 0, err
		case dec.StackDepth() == 0 && dec.InputOffset() < int64(len(bytes.TrimRight(text, " \t\r\n"))):
			return 0, errNoNumber // there is something behind the value
		case token.Kind() != '0' || !slices.ContainsFunc(pointers, func(p string) bool {
			return dec.StackDepth() == strings.Count(p, "/") && p == string(dec.StackPointer())
		}):
			continue
		}
		n, err := wholeNumber(token.String())
		if err != nil {
			return 0, err
		}
		found++
		sum = min(sum+n, pawl.MaxBudgetAmount+1) // and no overflow
	}
}

// wholeNumber reads a number of 0 or more that has no fraction and no exponent.
func wholeNumber(text string) (n int64, err error) {
	for _, digit := range text {
		if digit < '0' || digit > '9' {
			return 0, errNoNumber
		}
		n = min(n*10+int64(digit-'0'), pawl.MaxBudgetAmount+1)
	}
	return n, nil
}
