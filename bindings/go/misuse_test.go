// Wrong values: every exported function and method with nil pointers, zero values, closed handles, copies, no context,
// and numbers that cannot be. Each is an *Error that says what is wrong, and never a panic. Where test.sh looks for
// functions that no test calls, it leaves the tests out that begin with TestWalk.

package qinfer_test

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"qinfer"
)

// functions are all exported functions of the package.
var functions = map[string]any{
	"Version": qinfer.Version, "BuildInfo": qinfer.BuildInfo, "GetCPUInfo": qinfer.GetCPUInfo,
	"NewRuntime": qinfer.NewRuntime, "Load": qinfer.Load, "Pack": qinfer.Pack, "PlanMemory": qinfer.PlanMemory,
	"Evaluate": qinfer.Evaluate,
}

// handles are a nil pointer of each type that has methods and is closed.
var handles = []any{
	(*qinfer.Runtime)(nil), (*qinfer.Model)(nil), (*qinfer.KvCache)(nil), (*qinfer.Session)(nil),
	(*qinfer.Detokenizer)(nil), (*qinfer.Reply)(nil), (*qinfer.Chat)(nil), (*qinfer.Engine)(nil),
	(*qinfer.KvStore)(nil), (*qinfer.Grammar)(nil), (*qinfer.Matcher)(nil),
}

func TestWalksLeaveNothingOut(t *testing.T) {
	var found, closed, known []string
	for _, name := range must(filepath.Glob("*.go"))(t) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		for _, declared := range must(parser.ParseFile(token.NewFileSet(), name, nil, 0))(t).Decls {
			function, ok := declared.(*ast.FuncDecl)
			switch {
			case !ok || !function.Name.IsExported():
			case function.Recv == nil:
				found = append(found, function.Name.Name)
			case function.Name.Name == "Close":
				closed = append(closed, function.Recv.List[0].Type.(*ast.StarExpr).X.(*ast.Ident).Name)
			}
		}
	}
	for _, handle := range handles {
		known = append(known, reflect.TypeOf(handle).Elem().Name())
	}
	slices.Sort(closed)
	slices.Sort(known)
	if !slices.Equal(closed, known) {
		t.Errorf("the handles are %v, the walks know %v", closed, known)
	}
	for _, name := range found {
		if functions[name] == nil {
			t.Errorf("%s is not in functions", name)
		}
	}
}

// live is a handle of each type but Chat, with logits of a session; the end of the test closes them.
func live(t *testing.T) []any {
	own := must(qinfer.NewRuntime(qinfer.RuntimeOptions{Threads: 1}))(t)
	loaded := must(loaded(cases.ChatModel))(t)
	cache := must(loaded.NewKvCache(qinfer.KvCacheOptions{Prefix: true}))(t)
	session := must(cache.NewSession(qinfer.SessionOptions{}))(t)
	check(t, session.AppendText("Hello"))
	check(t, session.Evaluate(background, qinfer.EvaluateOptions{}))
	all := []any{own, loaded, cache, session, must(loaded.NewDetokenizer())(t),
		must(cache.NewEngine(qinfer.EngineOptions{}))(t), must(cache.NewKvStore(t.TempDir(), 1<<30))(t),
		must(loaded.NewReply(background, qinfer.Conversation{Messages: cases.Chat[0].Messages}))(t)}
	grammar, err := loaded.Regex("(?s:.*)", qinfer.GrammarOptions{})
	if err == nil {
		all = append(all, grammar, must(grammar.NewMatcher())(t))
	} else if !errors.Is(err, qinfer.ErrNotFound) { // without libqinfer_grammar there are none
		t.Fatal(err)
	}
	t.Cleanup(func() { closeAll(all) })
	return all
}

func closeAll(all []any) {
	for _, handle := range all {
		handle.(interface{ Close() error }).Close()
	}
}

var (
	errorType   = reflect.TypeFor[error]()
	contextType = reflect.TypeFor[context.Context]()
	tokenType   = reflect.TypeFor[qinfer.Token]()
)

// zeros are the arguments of a function: the zero value of each, but for the context.
func zeros(f reflect.Value, ctx context.Context) []reflect.Value {
	var arguments []reflect.Value
	for at := range f.Type().NumIn() {
		if kind := f.Type().In(at); !f.Type().IsVariadic() || at < f.Type().NumIn()-1 {
			arguments = append(arguments, reflect.Zero(kind))
			if kind == contextType && ctx != nil {
				arguments[at] = reflect.ValueOf(ctx)
			}
		}
	}
	return arguments
}

// outcome calls a function. It gives the error that is the last result or comes last out of a loop over it, and whether
// there can be one. A panic ends the test.
func outcome(t *testing.T, name string, f reflect.Value, arguments []reflect.Value) (err error, fails bool) {
	t.Helper()
	defer func() {
		if value := recover(); value != nil {
			t.Errorf("%s panicked with %v", name, value)
			err, fails = nil, false
		}
	}()
	if f.Type().NumOut() == 0 {
		f.Call(arguments)
		return nil, false
	}
	results := f.Call(arguments)
	last := results[len(results)-1]
	switch {
	case last.Type() == errorType:
		err, _ = last.Interface().(error)
		return err, true
	case last.Kind() == reflect.Func && last.Type().CanSeq2():
		for _, value := range last.Seq2() {
			err, _ = value.Interface().(error)
		}
		return err, true
	}
	return nil, false
}

// walk calls all methods of a handle but Close, and gives those that can fail to see.
func walk(t *testing.T, handle any, arguments func(f reflect.Value) []reflect.Value, see func(name string, err error)) {
	value := reflect.ValueOf(handle)
	for at := range value.NumMethod() {
		name := value.Type().Elem().Name() + "." + value.Type().Method(at).Name
		given := arguments(value.Method(at))
		if given == nil {
			continue
		}
		err, fails := outcome(t, name, value.Method(at), given)
		if strings.HasSuffix(name, ".Close") {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		} else if fails {
			see(name, err)
		}
	}
}

func withZeros(f reflect.Value) []reflect.Value {
	return append([]reflect.Value{}, zeros(f, background)...)
}

// says checks that err is of the package and has these words.
func says(t *testing.T, name string, err error, words ...string) {
	t.Helper()
	var failed *qinfer.Error
	if !errors.As(err, &failed) {
		t.Errorf("%s: got %v", name, err)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v does not say %q", name, err, word)
		}
	}
}

func TestWalkOverNilAndZeroHandles(t *testing.T) {
	for _, handle := range handles {
		kind := reflect.TypeOf(handle).Elem()
		walk(t, handle, withZeros, func(name string, err error) { says(t, name, err, kind.Name()+" is nil, expected") })
		walk(t, reflect.New(kind).Interface(), withZeros, func(name string, err error) {
			if kind.Name() == "Chat" {
				says(t, name, err, "the Chat has no Model, expected")
			} else if says(t, name, err, kind.Name()+" is a zero value, expected"); !errors.Is(err, qinfer.ErrClosed) {
				t.Errorf("%s: got %v", name, err)
			}
		})
	}
	var none *qinfer.Error
	if none.Error() == "" || none.Is(qinfer.ErrState) || none.Unwrap() != nil || errors.Is(qinfer.ErrState, none) {
		t.Error("a nil *Error is something")
	}
}

func TestWalkOverClosedHandlesAndTheirCopies(t *testing.T) {
	all := live(t)
	var copies []any
	for _, handle := range all {
		copied := reflect.New(reflect.TypeOf(handle).Elem())
		copied.Elem().Set(reflect.ValueOf(handle).Elem())
		copies = append(copies, copied.Interface())
	}
	closeAll(all)
	for _, handle := range append(all, copies...) {
		walk(t, handle, withZeros, func(name string, err error) {
			if says(t, name, err, "is closed, expected"); !errors.Is(err, qinfer.ErrClosed) || !errors.Is(err, qinfer.ErrState) {
				t.Errorf("%s: got %v", name, err)
			}
		})
	}
	closeAll(copies)
}

func TestACopyOfAHandleIsTheSameHandle(t *testing.T) {
	session := prompted(t, cases.Greedy[0].Prompt)
	copied := *session
	check(t, copied.SetLogitsHook(&qinfer.LogitsHook{Apply: func([]float32) error { return errOwn }}))
	if _, err := session.Generate(background, qinfer.GenerateOptions{}); !errors.Is(err, errOwn) {
		t.Errorf("got %v", err)
	}
	check(t, session.SetLogitsHook(nil))
	session = nil
	for range 3 {
		runtime.GC() // the copy keeps what both refer to
	}
	if text := generated(t, &copied, cases.Greedy[0].NewTokens).Text; text != cases.Greedy[0].Text {
		t.Errorf("generated %q", text)
	}
}

func TestWalkWithoutAContext(t *testing.T) {
	hasContext := func(f reflect.Value) []reflect.Value {
		for at := range f.Type().NumIn() {
			if f.Type().In(at) == contextType {
				return zeros(f, nil)
			}
		}
		return nil
	}
	met := 0
	see := func(name string, err error) {
		met++
		says(t, name, err, "ctx is nil, expected")
	}
	for _, handle := range append(live(t), chatModel.NewChat()) {
		walk(t, handle, hasContext, see)
	}
	for name, function := range functions {
		if arguments := hasContext(reflect.ValueOf(function)); arguments != nil {
			err, _ := outcome(t, name, reflect.ValueOf(function), arguments)
			see(name, err)
		}
	}
	if met < 12 {
		t.Errorf("only %d calls have a context", met)
	}
}

func TestWalkOverFunctionsWithoutValues(t *testing.T) {
	for name, function := range functions {
		f := reflect.ValueOf(function)
		err, fails := outcome(t, name, f, zeros(f, background))
		if fails && (err == nil) != (name == "GetCPUInfo" || name == "NewRuntime") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// numbers are arguments with a wrong number in the place of each one that is signed, in turn.
func numbers(kind reflect.Type, number int64) []reflect.Value {
	switch value := reflect.New(kind).Elem(); {
	case kind == tokenType && number == int64(int32(number)), kind.Kind() == reflect.Int:
		value.SetInt(number)
		return []reflect.Value{value}
	case kind.Kind() == reflect.Slice && kind.Elem() == tokenType && number == int64(int32(number)):
		return []reflect.Value{reflect.ValueOf([]qinfer.Token{5, qinfer.Token(number)})}
	}
	return nil
}

func TestWalkWithNumbersThatCannotBe(t *testing.T) {
	met := 0
	for _, handle := range live(t) {
		value := reflect.ValueOf(handle)
		for at := range value.NumMethod() {
			f, name := value.Method(at), value.Type().Elem().Name()+"."+value.Type().Method(at).Name
			for place := range f.Type().NumIn() {
				for _, number := range []int64{-1, math.MinInt32, math.MaxInt32, math.MinInt64, math.MaxInt64} {
					arguments := zeros(f, background)
					wrong := numbers(f.Type().In(place), number)
					if wrong == nil {
						continue
					}
					if arguments = append(arguments[:place], wrong...); place+1 < f.Type().NumIn() {
						arguments = append(arguments, zeros(f, background)[place+1:]...)
					}
					call := f
					if f.Type().IsVariadic() && place == f.Type().NumIn()-1 {
						call = reflect.ValueOf(func(values []reflect.Value) error {
							results := f.CallSlice(values)
							err, _ := results[len(results)-1].Interface().(error)
							return err
						})
						arguments = []reflect.Value{reflect.ValueOf(arguments)}
					}
					err, _ := outcome(t, name, call, arguments)
					says(t, name, err, strconv.FormatInt(number, 10))
					met++
				}
			}
		}
	}
	if met < 40 {
		t.Errorf("only %d calls take a number", met)
	}
}
