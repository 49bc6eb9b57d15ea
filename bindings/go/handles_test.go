// Handles: closing them in any order, twice, during calls, and never.

package qinfer_test

import (
	"errors"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"qinfer"
)

func TestHandlesAreClosedInAnyOrder(t *testing.T) {
	own := must(qinfer.NewRuntime(qinfer.RuntimeOptions{Threads: 1}))(t)
	loaded := must(qinfer.Load(background, filepath.Join(root, cases.Model), qinfer.LoadOptions{Runtime: own}))(t)
	cache := must(loaded.NewKvCache(qinfer.KvCacheOptions{}))(t)
	session := must(cache.NewSession(qinfer.SessionOptions{}))(t)
	c := cases.Greedy[0]
	check(t, session.AppendText(c.Prompt))
	for _, handle := range []interface{ Close() error }{own, cache, loaded} {
		check(t, handle.Close())
		check(t, handle.Close())
	}
	if text := generated(t, session, c.NewTokens).Text; text != c.Text {
		t.Errorf("generated %q", text)
	}
	check(t, session.Close())
	check(t, session.Close())
}

func TestClosedHandlesAreErrors(t *testing.T) {
	own := must(qinfer.NewRuntime(qinfer.RuntimeOptions{Threads: 1}))(t)
	loaded := must(qinfer.Load(background, filepath.Join(root, cases.ChatModel), qinfer.LoadOptions{Runtime: own}))(t)
	cache := must(loaded.NewKvCache(qinfer.KvCacheOptions{Prefix: true}))(t)
	session := must(cache.NewSession(qinfer.SessionOptions{}))(t)
	store := must(cache.NewKvStore(t.TempDir(), 1<<30))(t)
	detokenizer := must(loaded.NewDetokenizer())(t)
	conversation := qinfer.Conversation{Messages: cases.Chat[0].Messages}
	reply := must(loaded.NewReply(background, conversation))(t)
	engine := must(cache.NewEngine(qinfer.EngineOptions{}))(t)
	for _, handle := range []interface{ Close() error }{session, cache, store, detokenizer, reply, loaded, own, engine} {
		check(t, handle.Close())
	}
	var never qinfer.Session
	for name, f := range map[string]func() error{
		"load":         func() error { _, err := qinfer.Load(background, "x", qinfer.LoadOptions{Runtime: own}); return err },
		"runtime":      func() error { _, err := own.Info(); return err },
		"model":        func() error { _, err := loaded.Info(); return err },
		"metadata":     func() error { _, err := loaded.Metadata(); return err },
		"tokenize":     func() error { _, err := loaded.Tokenize("x", qinfer.TokenizeOptions{}); return err },
		"chat":         func() error { _, err := loaded.NewChat().Send(background, "x"); return err },
		"new cache":    func() error { _, err := loaded.NewKvCache(qinfer.KvCacheOptions{}); return err },
		"stats":        func() error { _, err := cache.Stats(); return err },
		"new session":  func() error { _, err := cache.NewSession(qinfer.SessionOptions{}); return err },
		"load session": func() error { _, _, err := cache.LoadSession("x", qinfer.LoadSessionOptions{}); return err },
		"append":       func() error { return session.Append(1) },
		"evaluate":     func() error { return session.Evaluate(background, qinfer.EvaluateOptions{}) },
		"sample":       func() error { _, err := session.Sample(); return err },
		"logits":       func() error { _, err := session.Logits(0); return err },
		"generate":     func() error { _, err := session.Generate(background, qinfer.GenerateOptions{}); return err },
		"fork":         func() error { _, err := session.Fork(); return err },
		"save":         func() error { return session.Save("x") },
		"hook":         func() error { return session.SetLogitsHook(&qinfer.LogitsHook{}) },
		"detokenizer":  func() error { _, err := detokenizer.Push(1); return err },
		"reply":        func() error { _, err := reply.Push(1); return err },
		"new engine":   func() error { _, err := cache.NewEngine(qinfer.EngineOptions{}); return err },
		"engine":       func() error { _, err := engine.Stats(); return err },
		"new store":    func() error { _, err := cache.NewKvStore("x", 1); return err },
		"store":        func() error { _, err := store.Stats(); return err },
		"fetch":        func() error { _, err := store.Fetch(background, []qinfer.Token{1}, ""); return err },
		"never made":   func() error { return never.Append(1) },
	} {
		if err := f(); !errors.Is(err, qinfer.ErrClosed) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestACallKeepsWhatIsClosedDuringIt(t *testing.T) {
	c := cases.Greedy[0]
	session, text := prompted(t, c.Prompt), ""
	for piece, err := range session.Stream(background, qinfer.GenerateOptions{MaxTokens: c.NewTokens}) {
		check(t, err)
		text += piece
		session.Close() // in the midst of the call of another goroutine
	}
	if text != c.Text {
		t.Errorf("streamed %q", text)
	}
	session = prompted(t, c.Prompt)
	done, err := session.Generate(background, qinfer.GenerateOptions{
		MaxTokens: c.NewTokens, OnText: func(string) bool { return session.Close() == nil },
	})
	if check(t, err); done.Text != c.Text {
		t.Errorf("generated %q", done.Text)
	}
	if _, err := session.Len(); !errors.Is(err, qinfer.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

func TestManyGoroutinesMayCloseAndUseAModel(t *testing.T) {
	for range 20 {
		loaded := must(loaded(cases.Model))(t)
		var all sync.WaitGroup
		for at := range 4 {
			all.Add(1)
			go func() {
				defer all.Done()
				for range 20 {
					_, err := loaded.Tokenize("Once upon a time", qinfer.TokenizeOptions{})
					if err != nil && !errors.Is(err, qinfer.ErrClosed) {
						t.Error(err)
					}
				}
				if at%2 == 0 {
					loaded.Close()
				}
			}()
		}
		all.Wait()
	}
}

func TestTwoGoroutinesCannotUseOneSession(t *testing.T) {
	session, refused := prompted(t, "Once upon a time"), error(nil)
	for range session.Stream(background, qinfer.GenerateOptions{MaxTokens: 3}) {
		_, refused = session.Generate(background, qinfer.GenerateOptions{MaxTokens: 1})
	}
	expectStatus(t, refused, qinfer.ErrState)
}

func TestGoroutinesThatShareADetokenizerOrAReplyAreRefused(t *testing.T) {
	detokenizer := must(chatModel.NewDetokenizer())(t)
	defer detokenizer.Close()
	reply := must(chatModel.NewReply(background, qinfer.Conversation{Messages: cases.Chat[0].Messages}))(t)
	defer reply.Close()
	tokens := must(chatModel.Tokenize(strings.Repeat("é日本語😀 ", 150), qinfer.TokenizeOptions{}))(t)
	var all sync.WaitGroup
	for range 4 {
		all.Add(1)
		go func() {
			defer all.Done()
			for _, token := range tokens {
				_, push := detokenizer.Push(token)
				_, part := reply.Push(token)
				_, message := reply.Message()
				for _, err := range []error{push, part, message} {
					if err != nil && (!errors.Is(err, qinfer.ErrState) || !strings.Contains(err.Error(), "is in another call")) {
						t.Error(err)
					}
				}
			}
		}()
	}
	all.Wait()
}

func TestWhatIsNotReachableIsFreed(t *testing.T) {
	cache := must(model.NewKvCache(qinfer.KvCacheOptions{BudgetBlocks: 4}))(t)
	defer cache.Close()
	func() {
		session := must(cache.NewSession(qinfer.SessionOptions{}))(t)
		check(t, session.AppendText("Once upon a time"))
		check(t, session.Evaluate(background, qinfer.EvaluateOptions{}))
		if must(cache.Stats())(t).BlocksUsed == 0 {
			t.Error("the session holds no blocks")
		}
	}()
	for range 100 {
		runtime.GC()
		if must(cache.Stats())(t).BlocksUsed == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("the session was never freed")
}

func TestHooksAreReleased(t *testing.T) {
	freed := make(chan string, 3)
	hookOf := func(name string) *qinfer.LogitsHook {
		kept := &[1 << 10]byte{}
		runtime.SetFinalizer(kept, func(*[1 << 10]byte) { freed <- name })
		return &qinfer.LogitsHook{Accept: func(qinfer.Token) error { kept[0]++; return nil }}
	}
	session := must(model.NewSession(qinfer.SessionOptions{}))(t)
	check(t, session.AppendText("Once upon a time"))
	check(t, session.SetLogitsHook(hookOf("replaced")))
	check(t, session.SetLogitsHook(hookOf("of a closed session")))
	generated(t, session, 2)
	session.Close()
	for range 2 {
		freedOne := false
		for range 100 {
			runtime.GC()
			select {
			case <-freed:
				freedOne = true
			case <-time.After(10 * time.Millisecond):
				continue
			}
			break
		}
		if !freedOne {
			t.Fatal("a hook was never released")
		}
	}
}
