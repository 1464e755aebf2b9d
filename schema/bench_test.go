package schema

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// typical is a schema of 30 properties and a result of 2 KB that fits it.
func typical() (schema, value []byte) {
	props, result := map[string]any{}, map[string]any{}
	var required []string
	for i := range 30 {
		name := fmt.Sprintf("property_%02d", i)
		required = append(required, name)
		switch i % 5 {
		case 0:
			props[name], result[name] = map[string]any{"type": "string", "minLength": 1, "maxLength": 500}, strings.Repeat("text ", 34)
		case 1:
			props[name], result[name] = map[string]any{"type": "integer", "minimum": 0, "maximum": 1000000}, 12345+i
		case 2:
			props[name], result[name] = map[string]any{"type": "array", "items": map[string]any{"type": "string"}}, []string{"one", "two", "three"}
		case 3:
			props[name], result[name] = map[string]any{"enum": []string{"draft", "open", "closed"}}, "closed"
		case 4:
			props[name], result[name] = map[string]any{"type": []string{"boolean", "null"}}, nil
		}
	}
	schema, _ = json.Marshal(map[string]any{"type": "object", "properties": props, "required": required, "additionalProperties": false})
	value, _ = json.Marshal(result)
	return schema, value
}

// The target is at most 50 µs for a result of 2 KB and a schema of 30 properties.
func BenchmarkCheck(b *testing.B) {
	schema, value := typical()
	s := must(b, string(schema))
	if bad := s.Check(value); bad != nil {
		b.Fatal(bad)
	}
	b.ReportMetric(float64(len(value)), "B/value")
	for b.Loop() {
		s.Check(value)
	}
}

func BenchmarkCompile(b *testing.B) {
	schema, _ := typical()
	for b.Loop() {
		if _, bad := Compile(schema); bad != nil {
			b.Fatal(bad)
		}
	}
}
