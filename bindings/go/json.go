// Values of the program as JSON, which say what the values say.

package qinfer

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"unicode/utf8"
)

// jsonOf writes a value; what is its name in an error. Text that is not UTF-8 is one: encoding/json would replace it.
func jsonOf(what string, value any) (json.RawMessage, error) {
	text, err := json.Marshal(value) // first, since it finds a value that contains itself
	if err != nil {
		return nil, &Error{Status: StatusInvalidArgument, Message: what + " does not become JSON", causes: []error{err}}
	}
	if hasInvalidText(reflect.ValueOf(value)) {
		return nil, newError(StatusInvalidArgument, "%s has text that is not UTF-8", what)
	}
	return text, nil
}

// jsonObjects writes a list of which no element may be null.
func jsonObjects(what string, values []any) (json.RawMessage, error) {
	texts := make([]json.RawMessage, len(values))
	for at, value := range values {
		name := fmt.Sprintf("%s[%d]", what, at)
		text, err := jsonOf(name, value)
		if err != nil {
			return nil, err
		}
		if string(text) == "null" {
			return nil, newError(StatusInvalidArgument, "%s is nil, expected what encoding/json makes an object of", name)
		}
		texts[at] = text
	}
	return jsonOf(what, texts)
}

var (
	jsonMarshaler = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

// hasInvalidText looks at the texts that encoding/json writes, but for those that a type writes itself.
func hasInvalidText(v reflect.Value) bool {
	if !v.IsValid() || v.Type().Implements(jsonMarshaler) || v.Type().Implements(textMarshaler) {
		return false
	}
	switch v.Kind() {
	case reflect.String:
		return !utf8.ValidString(v.String())
	case reflect.Interface, reflect.Pointer:
		return hasInvalidText(v.Elem())
	case reflect.Map:
		for keys := v.MapRange(); keys.Next(); {
			if hasInvalidText(keys.Key()) || hasInvalidText(keys.Value()) {
				return true
			}
		}
	case reflect.Struct:
		for at := range v.NumField() {
			field := v.Type().Field(at)
			if (field.IsExported() || field.Anonymous) && field.Tag.Get("json") != "-" && hasInvalidText(v.Field(at)) {
				return true
			}
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return false
		}
		for at := range v.Len() {
			if hasInvalidText(v.Index(at)) {
				return true
			}
		}
	}
	return false
}
