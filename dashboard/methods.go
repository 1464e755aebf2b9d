package dashboard

import "reflect"

// method returns a method that the templates call. Its name is a constant for each, so that the linker keeps the
// methods of these names alone.
func method(v reflect.Value, name string) reflect.Value {
	if of := methods[name]; of != nil {
		return of(v)
	}
	return reflect.Value{}
}

var methods = map[string]func(reflect.Value) reflect.Value{
	"Address":         func(v reflect.Value) reflect.Value { return v.MethodByName("Address") },
	"Allowed":         func(v reflect.Value) reflect.Value { return v.MethodByName("Allowed") },
	"Anchor":          func(v reflect.Value) reflect.Value { return v.MethodByName("Anchor") },
	"AnyTasks":        func(v reflect.Value) reflect.Value { return v.MethodByName("AnyTasks") },
	"Asks":            func(v reflect.Value) reflect.Value { return v.MethodByName("Asks") },
	"At":              func(v reflect.Value) reflect.Value { return v.MethodByName("At") },
	"Bulk":            func(v reflect.Value) reflect.Value { return v.MethodByName("Bulk") },
	"Compared":        func(v reflect.Value) reflect.Value { return v.MethodByName("Compared") },
	"CutOff":          func(v reflect.Value) reflect.Value { return v.MethodByName("CutOff") },
	"Dead":            func(v reflect.Value) reflect.Value { return v.MethodByName("Dead") },
	"Decidable":       func(v reflect.Value) reflect.Value { return v.MethodByName("Decidable") },
	"Describe":        func(v reflect.Value) reflect.Value { return v.MethodByName("Describe") },
	"Diff":            func(v reflect.Value) reflect.Value { return v.MethodByName("Diff") },
	"Elsewhere":       func(v reflect.Value) reflect.Value { return v.MethodByName("Elsewhere") },
	"Encode":          func(v reflect.Value) reflect.Value { return v.MethodByName("Encode") },
	"End":             func(v reflect.Value) reflect.Value { return v.MethodByName("End") },
	"Ended":           func(v reflect.Value) reflect.Value { return v.MethodByName("Ended") },
	"EventTable":      func(v reflect.Value) reflect.Value { return v.MethodByName("EventTable") },
	"Failed":          func(v reflect.Value) reflect.Value { return v.MethodByName("Failed") },
	"Failures":        func(v reflect.Value) reflect.Value { return v.MethodByName("Failures") },
	"Get":             func(v reflect.Value) reflect.Value { return v.MethodByName("Get") },
	"Glyph":           func(v reflect.Value) reflect.Value { return v.MethodByName("Glyph") },
	"Has":             func(v reflect.Value) reflect.Value { return v.MethodByName("Has") },
	"Height":          func(v reflect.Value) reflect.Value { return v.MethodByName("Height") },
	"Held":            func(v reflect.Value) reflect.Value { return v.MethodByName("Held") },
	"IsAttempt":       func(v reflect.Value) reflect.Value { return v.MethodByName("IsAttempt") },
	"IsFrom":          func(v reflect.Value) reflect.Value { return v.MethodByName("IsFrom") },
	"IsTo":            func(v reflect.Value) reflect.Value { return v.MethodByName("IsTo") },
	"IsZero":          func(v reflect.Value) reflect.Value { return v.MethodByName("IsZero") },
	"Items":           func(v reflect.Value) reflect.Value { return v.MethodByName("Items") },
	"Label":           func(v reflect.Value) reflect.Value { return v.MethodByName("Label") },
	"Legend":          func(v reflect.Value) reflect.Value { return v.MethodByName("Legend") },
	"LineY":           func(v reflect.Value) reflect.Value { return v.MethodByName("LineY") },
	"Lines":           func(v reflect.Value) reflect.Value { return v.MethodByName("Lines") },
	"MessageTable":    func(v reflect.Value) reflect.Value { return v.MethodByName("MessageTable") },
	"NoWorker":        func(v reflect.Value) reflect.Value { return v.MethodByName("NoWorker") },
	"Path":            func(v reflect.Value) reflect.Value { return v.MethodByName("Path") },
	"ProvenanceTable": func(v reflect.Value) reflect.Value { return v.MethodByName("ProvenanceTable") },
	"Quiet":           func(v reflect.Value) reflect.Value { return v.MethodByName("Quiet") },
	"Rows":            func(v reflect.Value) reflect.Value { return v.MethodByName("Rows") },
	"Shown":           func(v reflect.Value) reflect.Value { return v.MethodByName("Shown") },
	"Table":           func(v reflect.Value) reflect.Value { return v.MethodByName("Table") },
	"Text":            func(v reflect.Value) reflect.Value { return v.MethodByName("Text") },
	"TextX":           func(v reflect.Value) reflect.Value { return v.MethodByName("TextX") },
	"TextY":           func(v reflect.Value) reflect.Value { return v.MethodByName("TextY") },
	"Took":            func(v reflect.Value) reflect.Value { return v.MethodByName("Took") },
	"Undecided":       func(v reflect.Value) reflect.Value { return v.MethodByName("Undecided") },
	"Usage":           func(v reflect.Value) reflect.Value { return v.MethodByName("Usage") },
	"Used":            func(v reflect.Value) reflect.Value { return v.MethodByName("Used") },
	"Words":           func(v reflect.Value) reflect.Value { return v.MethodByName("Words") },
}
