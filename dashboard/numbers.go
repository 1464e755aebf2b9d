package dashboard

import (
	"reflect"
	"strconv"
	"strings"
)

// count is a whole number with its digits in groups of three.
func count(n any) string {
	v := reflect.ValueOf(n)
	switch {
	case v.CanInt():
		return grouped(strconv.FormatInt(v.Int(), 10))
	case v.CanUint():
		return grouped(strconv.FormatUint(v.Uint(), 10))
	}
	return ""
}

func grouped(digits string) string {
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	first := (len(digits)-1)%3 + 1
	var b strings.Builder
	b.WriteString(sign + digits[:first])
	for ; first < len(digits); first += 3 {
		b.WriteString("," + digits[first:first+3])
	}
	return b.String()
}
