// Grammars: what is drawn fulfils them, also after a snapshot; matchers by hand; mistakes.

package qinfer_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"qinfer"
)

// threeLetters is a grammar of the story model, which the end of the test closes.
func threeLetters(t *testing.T) *qinfer.Grammar {
	t.Helper()
	needGrammars(t)
	grammar := must(model.Regex("[a-c]{3}", qinfer.GrammarOptions{}))(t)
	t.Cleanup(func() { grammar.Close() })
	return grammar
}

func expectText(t *testing.T, pattern, text string) {
	t.Helper()
	if !regexp.MustCompile("^(?:" + pattern + ")$").MatchString(text) {
		t.Errorf("%q does not match %s", text, pattern)
	}
}

func TestWhatIsDrawnFulfilsTheGrammar(t *testing.T) {
	grammar := threeLetters(t)
	for range 3 { // a grammar is for any number of sessions
		session := prompted(t, "Lily: ")
		check(t, session.SetGrammar(grammar))
		fork := must(session.Fork())(t)
		done := generated(t, session, 10)
		if expectText(t, "[a-c]{3}", done.Text); done.Finish != qinfer.FinishEnd {
			t.Errorf("finished with %v", done.Finish)
		}
		if text := generated(t, fork, 10).Text; text != done.Text {
			t.Errorf("the fork drew %q, the session %q", text, done.Text)
		}
		fork.Close()
	}
	lark := must(model.Lark("start: \"a\" DIGITS\nDIGITS: /[0-9]{2}/", qinfer.GrammarOptions{}))(t)
	session := prompted(t, "Lily: ")
	check(t, session.SetGrammar(lark))
	check(t, lark.Close()) // the session has what it needs
	expectText(t, "a[0-9]{2}", generated(t, session, 10).Text)
	check(t, session.SetGrammar(nil))
	if info := must(session.Info())(t); info.HasLogitsHook {
		t.Error("the grammar is still there")
	}
}

func TestTokensThatAreTakenBackAreDrawnAgain(t *testing.T) {
	session, text := prompted(t, "Lily: "), ""
	before := must(session.Len())(t)
	check(t, session.SetGrammar(threeLetters(t)))
	for piece, err := range session.Stream(background, qinfer.GenerateOptions{MaxTokens: 1}) {
		check(t, err)
		text += piece
	}
	check(t, session.Truncate(before))
	if again := generated(t, session, 10).Text; !strings.HasPrefix(again, text) {
		t.Errorf("drew %q, and then %q", text, again)
	} else {
		expectText(t, "[a-c]{3}", again)
	}
}

func TestSchemasAreTextOrValues(t *testing.T) {
	needGrammars(t)
	type age struct {
		Enum []int `json:"enum"`
	}
	for _, schema := range []any{
		`{"enum": [4, 5]}`, []byte(`{"enum": [4, 5]}`), json.RawMessage(`{"enum": [4, 5]}`), age{[]int{4, 5}},
		map[string]any{"enum": []int{4, 5}},
	} {
		grammar := must(model.JSONSchema(schema, qinfer.GrammarOptions{}))(t)
		info := must(grammar.Info())(t)
		if info.Kind != qinfer.GrammarJSONSchema || info.Tokens != 1024 || info.Warnings != 0 {
			t.Errorf("the grammar is %+v", info)
		}
		session := prompted(t, "Lily is ")
		check(t, session.SetGrammar(grammar))
		expectText(t, "[45]", generated(t, session, 10).Text)
		grammar.Close()
	}
	// Documents whose first property is another one fulfil it, too, and are not drawn.
	warned := must(model.JSONSchema(`{"type": "object", "properties": {"a": true}, "minProperties": 1}`,
		qinfer.GrammarOptions{}))(t)
	defer warned.Close()
	if info := must(warned.Info())(t); info.Warnings == 0 {
		t.Error("there is no warning")
	}
	for kind, name := range map[qinfer.GrammarKind]string{
		qinfer.GrammarJSONSchema: "JSON schema", qinfer.GrammarRegex: "regular expression", qinfer.GrammarLark: "Lark", 9: "unknown",
	} {
		if kind.String() != name {
			t.Errorf("%d is called %q", kind, kind)
		}
	}
}

func TestSchemasMayHaveAnySpace(t *testing.T) {
	needGrammars(t)
	space := must(model.Tokenize(strings.Repeat("\n", 60), qinfer.TokenizeOptions{Plain: true}))(t)
	for _, anySpace := range []bool{false, true} {
		grammar := must(model.JSONSchema(`{"type": "array"}`, qinfer.GrammarOptions{AnySpace: anySpace}))(t)
		matcher := must(grammar.NewMatcher())(t)
		check(t, matcher.Accept(must(model.Tokenize("[", qinfer.TokenizeOptions{Plain: true}))(t)...))
		if err := matcher.Accept(space...); (err == nil) != anySpace {
			t.Errorf("with AnySpace %v: %v", anySpace, err)
		}
		closeAll([]any{matcher, grammar})
	}
}

func TestMistakesInGrammarsAreErrors(t *testing.T) {
	needGrammars(t)
	for _, c := range []struct {
		make   func() (*qinfer.Grammar, error)
		status error
		says   string
		detail int64
	}{
		{func() (*qinfer.Grammar, error) { return model.Regex("a(b", qinfer.GrammarOptions{}) }, qinfer.ErrFormat, "unclosed group", 0},
		{func() (*qinfer.Grammar, error) { return model.Lark("start: foo", qinfer.GrammarOptions{}) }, qinfer.ErrFormat, "foo", 0},
		{func() (*qinfer.Grammar, error) { return model.JSONSchema(`{"type":"arr`, qinfer.GrammarOptions{}) },
			qinfer.ErrFormat, "not JSON", 11},
		{func() (*qinfer.Grammar, error) {
			return model.JSONSchema(`{"uniqueItems":true}`, qinfer.GrammarOptions{})
		},
			qinfer.ErrUnsupported, "uniqueItems", 0},
		{func() (*qinfer.Grammar, error) { return model.JSONSchema("{\"a\":\x00", qinfer.GrammarOptions{}) },
			qinfer.ErrInvalidArgument, "NUL", 5},
		{func() (*qinfer.Grammar, error) { return model.Regex("a\xff", qinfer.GrammarOptions{}) }, qinfer.ErrInvalidArgument, "UTF-8", 1},
		{func() (*qinfer.Grammar, error) { return model.JSONSchema(nil, qinfer.GrammarOptions{}) }, qinfer.ErrFormat, "null", 0},
		{func() (*qinfer.Grammar, error) { return model.JSONSchema(func() {}, qinfer.GrammarOptions{}) },
			qinfer.ErrInvalidArgument, "schema", 0},
		{func() (*qinfer.Grammar, error) { return model.Regex("abcd", qinfer.GrammarOptions{MaxSourceBytes: 3}) },
			qinfer.ErrUnsupported, "max_source_bytes is 3", 4},
		{func() (*qinfer.Grammar, error) { return model.Regex("a((b))", qinfer.GrammarOptions{MaxDepth: 1}) },
			qinfer.ErrUnsupported, "max_depth", 2},
		{func() (*qinfer.Grammar, error) { return model.Regex("a|b", qinfer.GrammarOptions{MaxSymbols: 1}) },
			qinfer.ErrUnsupported, "limit", 0},
		{func() (*qinfer.Grammar, error) { return model.Regex("(a|b)*c", qinfer.GrammarOptions{CompileWork: 1}) },
			qinfer.ErrUnsupported, "limit", 0},
		{func() (*qinfer.Grammar, error) { return model.Regex("a", qinfer.GrammarOptions{MaxStates: 1 << 30}) },
			qinfer.ErrInvalidArgument, "max_states", 0},
		{func() (*qinfer.Grammar, error) { return model.Regex("a", qinfer.GrammarOptions{MaxRowItems: 1 << 30}) },
			qinfer.ErrInvalidArgument, "max_row_items", 0},
	} {
		grammar, err := c.make()
		if failed := expectStatus(t, err, c.status); grammar != nil || !strings.Contains(failed.Message, c.says) ||
			failed.Detail != c.detail {
			t.Errorf("%v, detail %d: want %q, %d", failed, failed.Detail, c.says, c.detail)
		}
	}
}

func TestAGrammarThatCannotGoOnSaysWhy(t *testing.T) {
	needGrammars(t)
	grammar := must(model.Regex("(a|b)*c", qinfer.GrammarOptions{MaskWork: 1}))(t)
	defer grammar.Close()
	expect := func(err error) {
		t.Helper()
		if expectStatus(t, err, qinfer.ErrCancelled); !errors.Is(err, qinfer.ErrUnsupported) ||
			!strings.Contains(err.Error(), "mask_work") {
			t.Errorf("got %v", err)
		}
	}
	session := evaluated(t, "Lily: ")
	check(t, session.SetGrammar(grammar))
	fork := must(session.Fork())(t)
	defer fork.Close()
	for _, one := range []*qinfer.Session{session, fork} {
		_, err := one.Sample()
		expect(err)
		_, err = one.Generate(background, qinfer.GenerateOptions{MaxTokens: 3})
		expect(err)
	}
	cache := must(model.NewKvCache(qinfer.KvCacheOptions{BudgetBlocks: 8}))(t)
	engine := must(cache.NewEngine(qinfer.EngineOptions{}))(t)
	defer closeAll([]any{engine, cache})
	of := must(cache.NewSession(qinfer.SessionOptions{MaxTokens: 32}))(t)
	check(t, of.AppendText("Lily: "))
	check(t, of.SetGrammar(grammar))
	request := must(engine.Submit(background, of, qinfer.GenerateOptions{MaxTokens: 3}, qinfer.RequestOptions{}))(t)
	_, err := request.Wait()
	expect(err)
	of.Close()

	ctx, cancel := context.WithCancel(background)
	cancel() // what ends a call from outside is no fault of the grammar
	good := prompted(t, "Lily: ")
	check(t, good.SetGrammar(threeLetters(t)))
	if _, err = good.Generate(ctx, qinfer.GenerateOptions{}); !errors.Is(err, context.Canceled) || errors.Is(err, qinfer.ErrUnsupported) {
		t.Errorf("got %v", err)
	}
}

// mayCome is what a regular expression of single letters lets come, by the texts of the tokens alone.
func mayCome(t *testing.T, letters string, most int) []qinfer.Token {
	var tokens []qinfer.Token
	for token := range qinfer.Token(1024) {
		info := must(model.Token(token))(t)
		if text := string(info.Text); !info.Control && text != "" && len(text) <= most && strings.Trim(text, letters) == "" {
			tokens = append(tokens, token)
		}
	}
	return tokens
}

func masked(t *testing.T, matcher *qinfer.Matcher) []qinfer.Token {
	t.Helper()
	var tokens []qinfer.Token
	words := must(matcher.Mask())(t)
	if len(words) != 1024/32 {
		t.Fatalf("the mask has %d words", len(words))
	}
	for token := range qinfer.Token(1024) {
		if words[token/32]>>(token%32)&1 != 0 {
			tokens = append(tokens, token)
		}
	}
	return tokens
}

func TestMatchersAreUsedByHand(t *testing.T) {
	matcher := must(threeLetters(t).NewMatcher())(t)
	defer matcher.Close()
	expect := func(m *qinfer.Matcher, tokens []qinfer.Token, info qinfer.MatcherInfo) {
		t.Helper()
		if got := masked(t, m); !slices.Equal(got, tokens) {
			t.Errorf("the mask is %v, want %v", got, tokens)
		}
		if got := must(m.Info())(t); got != info {
			t.Errorf("the matcher is %+v, want %+v", got, info)
		}
		check(t, m.Err())
	}
	expect(matcher, mayCome(t, "abc", 3), qinfer.MatcherInfo{})
	letters := must(model.Tokenize("aabbc", qinfer.TokenizeOptions{Plain: true}))(t)
	a := mayCome(t, "a", 1)[0]
	check(t, matcher.Accept(a, a))
	expect(matcher, mayCome(t, "abc", 1), qinfer.MatcherInfo{Tokens: 2})
	failed := expectStatus(t, matcher.Accept(a, a), qinfer.ErrInvalidArgument)
	if failed.Detail != 1 {
		t.Errorf("the index is %d of %v", failed.Detail, letters)
	}
	other := must(matcher.Clone())(t)
	defer other.Close()
	check(t, matcher.Accept(a))
	expect(matcher, must(model.EndTokens())(t), qinfer.MatcherInfo{Accepting: true, Ended: true, Tokens: 3})
	expect(other, mayCome(t, "abc", 1), qinfer.MatcherInfo{Tokens: 2})
	check(t, matcher.Rewind(2))
	expect(matcher, mayCome(t, "abc", 2), qinfer.MatcherInfo{Tokens: 1})
	expectStatus(t, matcher.Rewind(2), qinfer.ErrInvalidArgument)

	limited := must(model.Regex("(a|b)*c", qinfer.GrammarOptions{MaskWork: 1}))(t)
	broken := must(limited.NewMatcher())(t)
	defer closeAll([]any{limited, broken})
	_, err := broken.Mask()
	expectStatus(t, err, qinfer.ErrUnsupported)
	expectStatus(t, broken.Err(), qinfer.ErrUnsupported)
	if info := must(broken.Info())(t); !info.Failed {
		t.Errorf("the matcher is %+v", info)
	}
}

func TestAMatcherGoesOnAfterASnapshot(t *testing.T) {
	grammar, session := threeLetters(t), prompted(t, "Lily: ")
	check(t, session.SetGrammar(grammar))
	before := must(session.Len())(t)
	first := generated(t, session, 1).Text
	path := filepath.Join(t.TempDir(), "snapshot")
	check(t, session.Save(path))
	cache := must(model.NewKvCache(qinfer.KvCacheOptions{}))(t)
	loaded, _, err := cache.LoadSession(path, qinfer.LoadSessionOptions{})
	check(t, err)
	matcher := must(grammar.NewMatcher())(t)
	check(t, matcher.Accept(must(loaded.Tokens())(t)[before:]...))
	check(t, loaded.SetMatcher(matcher))
	other := prompted(t, "Tom: ")
	expectStatus(t, other.SetMatcher(matcher), qinfer.ErrState)
	check(t, matcher.Close()) // the session has it
	rest := generated(t, loaded, 10).Text
	if expectText(t, "[a-c]{3}", first+rest); rest != generated(t, session, 10).Text {
		t.Errorf("the loaded session drew %q", rest)
	}
	check(t, loaded.SetMatcher(nil))
	closeAll([]any{loaded, cache})
}

func TestAGrammarIsOfOneModel(t *testing.T) {
	session := must(chatModel.NewSession(qinfer.SessionOptions{}))(t)
	defer session.Close()
	failed := expectStatus(t, session.SetGrammar(threeLetters(t)), qinfer.ErrInvalidArgument)
	if !strings.Contains(failed.Message, "another Model") {
		t.Errorf("got %v", failed)
	}
	chat := chatModel.NewChat()
	defer chat.Close()
	chat.Grammar = threeLetters(t)
	_, err := chat.Send(background, "Hello!")
	if expectStatus(t, err, qinfer.ErrInvalidArgument); len(chat.Messages) != 0 {
		t.Errorf("the messages are %s", chat.Messages)
	}
}

func TestGrammarsAreClosedInAnyOrder(t *testing.T) {
	needGrammars(t)
	own := must(loaded(cases.Model))(t)
	grammar := must(own.Regex("[a-c]{3}", qinfer.GrammarOptions{}))(t)
	session := must(own.NewSession(qinfer.SessionOptions{}))(t)
	check(t, session.AppendText("Lily: "))
	own.Close()
	check(t, session.SetGrammar(grammar))
	grammar.Close()
	expectText(t, "[a-c]{3}", generated(t, session, 10).Text)
	if err := session.SetGrammar(grammar); !errors.Is(err, qinfer.ErrClosed) {
		t.Errorf("got %v", err)
	}
	if _, err := own.Regex("a", qinfer.GrammarOptions{}); !errors.Is(err, qinfer.ErrClosed) {
		t.Errorf("got %v", err)
	}
	session.Close()
}

func TestGoroutinesShareModelsGrammarsAndMatchers(t *testing.T) {
	needGrammars(t)
	own := must(loaded(cases.Model))(t) // whose vocabulary none has made
	defer own.Close()
	shared := must(model.Regex("[ab]*", qinfer.GrammarOptions{}))(t)
	matcher := must(shared.NewMatcher())(t)
	a := mayCome(t, "a", 1)[0]
	var all sync.WaitGroup
	for range 4 {
		all.Add(1)
		go func() {
			defer all.Done()
			grammar, err := own.Regex("[a-c]{3}", qinfer.GrammarOptions{})
			if err != nil {
				t.Error(err)
				return
			}
			defer grammar.Close()
			session, err := own.NewSession(qinfer.SessionOptions{})
			for _, err := range []error{err, session.AppendText("Lily: "), session.SetGrammar(grammar)} {
				if err != nil {
					t.Error(err)
				}
			}
			defer session.Close()
			if done, err := session.Generate(background, qinfer.GenerateOptions{MaxTokens: 9}); err != nil || len(done.Text) != 3 {
				t.Errorf("drew %q, %v", done.Text, err)
			}
			for range 50 {
				_, mask := matcher.Mask()
				for _, err := range []error{matcher.Accept(a), mask, matcher.Rewind(1)} {
					if err != nil {
						t.Error(err)
					}
				}
			}
		}()
	}
	all.Wait()
	if info := must(matcher.Info())(t); info.Tokens != 0 {
		t.Errorf("the matcher has %d tokens", info.Tokens)
	}
	closeAll([]any{shared, matcher})
}
