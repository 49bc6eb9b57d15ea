// Where grammars are used: chats, engines, and programs without libqinfer_grammar.

package qinfer_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"qinfer"
)

func TestTheGrammarOfAChatIsForOneTurn(t *testing.T) {
	needGrammars(t)
	schema := `{"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"], "additionalProperties": false}`
	chat := chatModel.NewChat()
	defer chat.Close()
	plain := must(chat.Send(background, "Hello!"))(t)
	chat.Grammar = must(chatModel.JSONSchema(schema, qinfer.GrammarOptions{}))(t)
	for range 2 {
		var document map[string]bool
		text := must(chat.Send(background, "Hello!"))(t)
		if err := json.Unmarshal([]byte(text), &document); err != nil || len(document) != 1 {
			t.Errorf("replied %q: %v", text, err)
		}
	}
	chat.Messages, chat.Grammar = nil, nil
	if text := must(chat.Send(background, "Hello!"))(t); text != plain {
		t.Errorf("replied %q", text)
	}
	var calls hookCalls
	check(t, chat.Session().SetLogitsHook(onlyC(t, &calls)))
	chat.MaxTokens = 2
	if text := must(chat.Send(background, "Hello!"))(t); text != "cc" || calls.applied != 2 {
		t.Errorf("replied %q, and the program's hook was asked %d times", text, calls.applied)
	}
	if _, err := chat.Session().Fork(); err != nil {
		t.Error(err)
	}
}

func TestTheGrammarOfAChatBeginsAfterTheReasoning(t *testing.T) {
	needGrammars(t)
	grammar := must(chatModel.Regex("[d-f]{4}", qinfer.GrammarOptions{}))(t)
	defer grammar.Close()
	chat := thinkingChat(t)
	chat.MaxTokens, chat.MaxReasoningTokens, chat.Grammar = 20, 4, grammar
	var parts []qinfer.Part
	for part, err := range chat.Stream(background, "Hi") {
		check(t, err)
		parts = append(parts, part)
	}
	expectText(t, "reasoning:bbbbcontent:[d-f]{4}", joined(parts))
	chat.NoReasoning = true
	expectText(t, "[d-f]{4}", must(chat.Send(background, "Hi"))(t))
}

func TestRequestsOfAnEngineHaveGrammars(t *testing.T) {
	grammar := threeLetters(t)
	cache := must(model.NewKvCache(qinfer.KvCacheOptions{BudgetBlocks: 32}))(t)
	engine := must(cache.NewEngine(qinfer.EngineOptions{}))(t)
	defer closeAll([]any{engine, cache})
	var requests []*qinfer.Request
	for at := range 6 {
		session := must(cache.NewSession(qinfer.SessionOptions{MaxTokens: 32, MaxDraft: uint32(at % 2 * 4)}))(t)
		check(t, session.AppendText(cases.Greedy[at%2].Prompt))
		if at%3 != 0 {
			check(t, session.SetGrammar(grammar))
		}
		options := qinfer.GenerateOptions{MaxTokens: cases.Greedy[at%2].NewTokens}
		requests = append(requests, must(engine.Submit(background, session, options, qinfer.RequestOptions{}))(t))
		session.Close()
	}
	for at, request := range requests {
		done := must(request.Wait())(t)
		if at%3 != 0 {
			expectText(t, "[a-c]{3}", done.Text)
		} else if done.Text != cases.Greedy[at%2].Text {
			t.Errorf("drew %q without a grammar", done.Text)
		}
	}
}

func TestAMatcherIsReleasedWithItsSession(t *testing.T) {
	needGrammars(t)
	released := make(chan bool, 1)
	func() {
		matcher := must(threeLetters(t).NewMatcher())(t)
		session := prompted(t, "Lily: ")
		check(t, session.SetMatcher(matcher))
		qinfer.OnFree(matcher, func() { released <- true })
		matcher.Close()
		select {
		case <-released:
			t.Error("it was released while the session has it")
		case <-time.After(20 * time.Millisecond):
		}
		check(t, session.SetLogitsHook(nil))
	}()
	for range 100 {
		runtime.GC()
		select {
		case <-released:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Error("the matcher was never released")
}

func TestALibraryThatIsNotThereIsNamed(t *testing.T) {
	const variable = "QINFER_GRAMMAR_LIBRARY"
	if os.Getenv("QINFER_GO_TEST_INSIDE") == "" {
		needGrammars(t)
		for _, path := range []string{"/no/such/folder/library.so", "../../LICENSE"} {
			test := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
			test.Env = append(os.Environ(), "QINFER_GO_TEST_INSIDE=1", variable+"="+path)
			if output, err := test.CombinedOutput(); err != nil || !strings.Contains(string(output), "--- PASS") {
				t.Errorf("%v: %s", err, output)
			}
		}
		return
	}
	for range 2 { // it is looked for each time
		_, err := model.Regex("a", qinfer.GrammarOptions{})
		failed := expectStatus(t, err, qinfer.ErrNotFound)
		for _, word := range []string{"libqinfer_grammar.so.0.2", variable, os.Getenv(variable), "install"} {
			if !strings.Contains(failed.Message, word) {
				t.Errorf("%v does not say %q", failed, word)
			}
		}
	}
	// All else goes on without it.
	if c := cases.Greedy[0]; generated(t, prompted(t, c.Prompt), c.NewTokens).Text != c.Text {
		t.Error("the story is another one")
	}
}
