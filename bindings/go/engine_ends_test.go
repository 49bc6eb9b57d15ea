// How requests of an engine end before their time: left, cancelled, late, failed or closed; and what is left then.

package qinfer_test

import (
	"context"
	"errors"
	"iter"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"qinfer"
)

// lasting is a session whose request goes on for its 190 tokens: what would end a text is banned, and each token takes
// a thousandth of a second.
func lasting(t *testing.T, cache *qinfer.KvCache) *qinfer.Session {
	t.Helper()
	session, bias := beginning(t, cache, "Once upon a time", qinfer.SamplerOptions{}), map[qinfer.Token]float32{}
	for _, token := range must(model.EndTokens())(t) {
		bias[token] = -1e30
	}
	check(t, session.SetBias(bias))
	check(t, session.SetLogitsHook(slowly(new(atomic.Int32))))
	return session
}

// slowly is a hook that counts tokens.
func slowly(drawn *atomic.Int32) *qinfer.LogitsHook {
	return &qinfer.LogitsHook{Accept: func(qinfer.Token) error {
		drawn.Add(1)
		time.Sleep(time.Millisecond)
		return nil
	}}
}

// unused waits until nothing runs in the engine, and no session holds blocks once they are closed.
func unused(t *testing.T, engine *qinfer.Engine, cache *qinfer.KvCache) {
	t.Helper()
	for range 500 {
		runtime.GC()
		stats := must(engine.Stats())(t)
		if stats.Running+stats.Waiting == 0 && must(cache.Stats())(t).BlocksUsed == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%+v, %+v", must(engine.Stats())(t), must(cache.Stats())(t))
}

func TestLeavingAStreamCancelsItsRequest(t *testing.T) {
	engine, cache := engineOf(t, 40, qinfer.EngineOptions{})
	for name, leave := range map[string]func(stream iter.Seq2[qinfer.Piece, error]){
		"break": func(stream iter.Seq2[qinfer.Piece, error]) {
			for range stream {
				break
			}
		},
		"panic": func(stream iter.Seq2[qinfer.Piece, error]) {
			value := panicOf(func() {
				for range stream {
					panic(ownPanic)
				}
			})
			if value != ownPanic {
				t.Errorf("panicked with %v", value)
			}
		},
		"goexit": func(stream iter.Seq2[qinfer.Piece, error]) {
			ended := make(chan bool)
			go func() {
				defer close(ended)
				for range stream {
					runtime.Goexit()
				}
			}()
			<-ended
		},
		"pull": func(stream iter.Seq2[qinfer.Piece, error]) {
			next, stop := iter.Pull2(stream)
			next()
			stop()
		},
	} {
		session := lasting(t, cache)
		request := submitted(t, engine, session, 190)
		leave(request.Stream())
		before := must(session.Len())(t) // it is the program's again
		done, err := request.Wait()
		if expectStatus(t, err, qinfer.ErrCancelled); done.NewTokens < 1 || done.NewTokens > 150 {
			t.Errorf("%s: left after %+v", name, done)
		}
		if generated(t, session, 3); must(session.Len())(t) != before+3 {
			t.Errorf("%s: the session has %d tokens, had %d", name, must(session.Len())(t), before)
		}
		session.Close()
	}
	unused(t, engine, cache)
}

func TestRequestsAreCancelledFromAnyGoroutine(t *testing.T) {
	engine, cache := engineOf(t, 40, qinfer.EngineOptions{})
	request := submitted(t, engine, lasting(t, cache), 190)
	go request.Cancel()
	done, err := request.Wait()
	expectStatus(t, err, qinfer.ErrCancelled)
	if errors.Is(err, context.Canceled) || done.Finish != qinfer.FinishNone {
		t.Errorf("got %+v, %v", done, err)
	}
	request.Cancel()

	ctx, cancel := context.WithCancelCause(background)
	defer cancel(nil)
	session, n := lasting(t, cache), 0
	request = must(engine.Submit(ctx, session, qinfer.GenerateOptions{}, qinfer.RequestOptions{}))(t)
	for _, err = range request.Stream() {
		if n++; n == 3 {
			cancel(errOwn)
		}
	}
	expectStatus(t, err, qinfer.ErrCancelled)
	if !errors.Is(err, context.Canceled) || !errors.Is(err, errOwn) {
		t.Errorf("got %v", err)
	}
	generated(t, session, 3)
	_, err = engine.Submit(ctx, session, qinfer.GenerateOptions{}, qinfer.RequestOptions{})
	expectStatus(t, err, qinfer.ErrCancelled)
	if !errors.Is(err, context.Canceled) || !errors.Is(err, errOwn) {
		t.Errorf("got %v", err)
	}
	late, stop := context.WithTimeout(background, 10*time.Millisecond)
	defer stop()
	check(t, session.Truncate(3))
	request = must(engine.Submit(late, session, qinfer.GenerateOptions{}, qinfer.RequestOptions{}))(t)
	if _, err = request.Wait(); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, qinfer.ErrCancelled) {
		t.Errorf("got %v", err)
	}
}

func TestRequestsEndAfterTheirTime(t *testing.T) {
	engine, cache := engineOf(t, 40, qinfer.EngineOptions{})
	for _, timeout := range []time.Duration{1, 10 * time.Millisecond} {
		request := must(engine.Submit(background, lasting(t, cache), qinfer.GenerateOptions{},
			qinfer.RequestOptions{Timeout: timeout}))(t)
		_, err := request.Wait()
		if expectStatus(t, err, qinfer.ErrCancelled); !errors.Is(err, context.DeadlineExceeded) ||
			!strings.Contains(err.Error(), "deadline") || errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}
	request := must(engine.Submit(background, beginning(t, cache, "Once", qinfer.SamplerOptions{}),
		qinfer.GenerateOptions{MaxTokens: 3}, qinfer.RequestOptions{Timeout: time.Duration(1<<63 - 1)}))(t)
	must(request.Wait())(t)
}

func TestARequestThatNobodyHoldsIsCancelled(t *testing.T) {
	engine, cache := engineOf(t, 60, qinfer.EngineOptions{MaxRunning: 1})
	var drawn atomic.Int32
	func() {
		for range 4 {
			session := must(cache.NewSession(qinfer.SessionOptions{MaxTokens: 200}))(t)
			check(t, session.AppendText("Once upon a time"))
			check(t, session.SetLogitsHook(slowly(&drawn)))
			submitted(t, engine, session, 190)
			check(t, session.Close())
		}
	}()
	unused(t, engine, cache)
	if n := drawn.Load(); n > 400 { // for those that run for the first collections, of 760
		t.Errorf("%d tokens were drawn", n)
	}
}

func TestTheMemoryOfAnEngineThatNobodyHoldsComesBack(t *testing.T) {
	large := qinfer.EngineOptions{MaxWaiting: 1 << 20}
	engine, _ := engineOf(t, 2, large)
	planned := must(engine.Stats())(t).MemoryBytes
	budget := must(model.Memory())(t).Total + planned + planned/2 // there is room for one
	path := filepath.Join(root, cases.Model)
	small := must(qinfer.Load(background, path, qinfer.LoadOptions{Runtime: runtimeOfTests, MemoryBudget: budget}))(t)
	defer small.Close()
	cache := must(small.NewKvCache(qinfer.KvCacheOptions{BudgetBlocks: 4}))(t)
	defer cache.Close()
	kept := must(cache.NewEngine(large))(t)
	_, err := cache.NewEngine(large)
	expectStatus(t, err, qinfer.ErrNoMemory)
	check(t, kept.Close())
	for range 3 {
		for try := 0; ; try++ {
			engine, err := cache.NewEngine(large)
			if err == nil {
				session := must(cache.NewSession(qinfer.SessionOptions{MaxTokens: 64}))(t)
				check(t, session.AppendText("Once upon a time"))
				must(submitted(t, engine, session, 3).Wait())(t)
				check(t, session.Close())
				break
			}
			if expectStatus(t, err, qinfer.ErrNoMemory); try == 500 {
				t.Fatal("the engine before was never freed")
			}
			runtime.GC()
			time.Sleep(10 * time.Millisecond)
		}
	}
}

func TestAnEngineThatNobodyHoldsIsFreed(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 3 {
		cache := must(model.NewKvCache(qinfer.KvCacheOptions{BudgetBlocks: 40}))(t)
		engine := must(cache.NewEngine(qinfer.EngineOptions{}))(t)
		session := must(cache.NewSession(qinfer.SessionOptions{MaxTokens: 64}))(t)
		check(t, session.AppendText("Once upon a time"))
		request := submitted(t, engine, session, 20)
		engine, cache = nil, nil // the request is held, and goes on
		for range 3 {
			runtime.GC()
		}
		must(request.Wait())(t)
	}
	for range 500 {
		if runtime.GC(); runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), before)
}

func TestTheSessionIsTheEnginesUntilItsRequestHasEnded(t *testing.T) {
	engine, cache := engineOf(t, 40, qinfer.EngineOptions{})
	session := lasting(t, cache)
	gate := make(chan bool)
	check(t, session.SetLogitsHook(&qinfer.LogitsHook{Apply: func([]float32) error { <-gate; return nil }}))
	request := submitted(t, engine, session, 3)
	for name, f := range map[string]func() error{
		"append":   func() error { return session.Append(1) },
		"len":      func() error { _, err := session.Len(); return err },
		"tokens":   func() error { _, err := session.Tokens(); return err },
		"truncate": func() error { return session.Truncate(0) },
		"fork":     func() error { _, err := session.Fork(); return err },
		"hook":     func() error { return session.SetLogitsHook(nil) },
		"info":     func() error { _, err := session.Info(); return err },
		"save":     func() error { return session.SaveTo(newMemoryFiles(), "x") },
		"generate": func() error { _, err := session.Generate(background, qinfer.GenerateOptions{}); return err },
		"batch": func() error {
			return qinfer.Evaluate(background, []*qinfer.Session{session}, qinfer.EvaluateOptions{})
		},
		"submit": func() error {
			_, err := engine.Submit(background, session, qinfer.GenerateOptions{}, qinfer.RequestOptions{})
			return err
		},
	} {
		err := f()
		says(t, name, err, "is the Engine's, expected one whose Request has ended")
		if !errors.Is(err, qinfer.ErrState) || errors.Is(err, qinfer.ErrClosed) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	close(gate)
	must(request.Wait())(t)
	check(t, session.Append(1))

	// One that is closed meanwhile is freed at the end.
	request = submitted(t, engine, session, 3)
	check(t, session.Close())
	must(request.Wait())(t)
	_, err := session.Len()
	if !errors.Is(err, qinfer.ErrClosed) {
		t.Errorf("got %v", err)
	}
	unused(t, engine, cache)

	// One that another call uses is not taken.
	other, refused := beginning(t, cache, "Once upon a time", qinfer.SamplerOptions{}), error(nil)
	for range other.Stream(background, qinfer.GenerateOptions{MaxTokens: 3}) {
		_, refused = engine.Submit(background, other, qinfer.GenerateOptions{}, qinfer.RequestOptions{})
	}
	expectStatus(t, refused, qinfer.ErrState)
	says(t, "submit", refused, "is in another call")
}

func TestWhatFailsOfOneRequestLeavesTheOthersAlone(t *testing.T) {
	engine, cache := engineOf(t, 60, qinfer.EngineOptions{})
	_, want := alone(t, "The sun", qinfer.SamplerOptions{}, qinfer.GenerateOptions{MaxTokens: 40})
	others := []*qinfer.Request{}
	for range 3 {
		others = append(others, submitted(t, engine, beginning(t, cache, "The sun", qinfer.SamplerOptions{}), 40))
	}
	for name, hook := range hooks(failing) {
		session := beginning(t, cache, "Once upon a time", qinfer.SamplerOptions{})
		check(t, session.SetLogitsHook(hook))
		_, err := submitted(t, engine, session, 5).Wait()
		if expectStatus(t, err, qinfer.ErrCancelled); !errors.Is(err, errOwn) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for name, hook := range hooks(panicking) {
		session := beginning(t, cache, "Once upon a time", qinfer.SamplerOptions{})
		check(t, session.SetLogitsHook(hook))
		request := submitted(t, engine, session, 5)
		for call, f := range map[string]func(){
			"Stream": func() { read(request.Stream()) },
			"Wait":   func() { request.Wait() },
		} {
			if value := panicOf(f); value != ownPanic {
				t.Errorf("%s: %s panicked with %v", name, call, value)
			}
		}
		check(t, session.SetLogitsHook(nil))
		if done := must(submitted(t, engine, session, 3).Wait())(t); done.NewTokens != 3 {
			t.Errorf("%s: the session went on with %+v", name, done)
		}
	}
	for _, request := range others {
		if done := must(request.Wait())(t); done.Text != want.Text {
			t.Errorf("got %q, want %q", done.Text, want.Text)
		}
	}
}

func TestAHookInAnEngineMayReadItsSession(t *testing.T) {
	engine, cache := engineOf(t, 40, qinfer.EngineOptions{})
	session := beginning(t, cache, "Once upon a time", qinfer.SamplerOptions{})
	other := lasting(t, cache)
	before := must(session.Len())(t)
	var lengths []int
	var read, changed, elsewhere, waited, ofOther error
	var request *qinfer.Request
	begun := make(chan bool)
	check(t, session.SetLogitsHook(&qinfer.LogitsHook{Apply: func([]float32) error {
		<-begun
		var n int
		n, read = session.Len()
		lengths, changed = append(lengths, n), session.Append(1)
		_, ofOther = other.Len()
		_, waited = request.Wait()
		ended := make(chan bool)
		go func() { _, elsewhere = session.Len(); close(ended) }()
		<-ended
		return nil
	}}))
	submitted(t, engine, other, 150)
	request = submitted(t, engine, session, 2)
	close(begun)
	check(t, second(request.Wait()))
	check(t, read)
	if len(lengths) != 2 || lengths[0] != before || lengths[1] != before+1 {
		t.Errorf("lengths %v after %d", lengths, before)
	}
	for _, err := range []error{changed, elsewhere, waited, ofOther} {
		expectStatus(t, err, qinfer.ErrState)
	}
	check(t, session.SetLogitsHook(nil))
}

func TestAHookThatEndsItsGoroutineEndsTheEngine(t *testing.T) {
	cache := must(model.NewKvCache(qinfer.KvCacheOptions{BudgetBlocks: 40}))(t)
	engine := must(cache.NewEngine(qinfer.EngineOptions{}))(t)
	session, other := lasting(t, cache), lasting(t, cache)
	check(t, session.SetLogitsHook(&qinfer.LogitsHook{Accept: func(qinfer.Token) error {
		runtime.Goexit()
		return nil
	}}))
	requests := []*qinfer.Request{submitted(t, engine, other, 190), submitted(t, engine, session, 5)}
	for _, request := range requests {
		_, _, err := read(request.Stream())
		expectStatus(t, err, qinfer.ErrState)
		says(t, "Stream", err, "ended the goroutine of the Engine")
	}
	expectStatus(t, session.Append(1), qinfer.ErrState)
	_, err := engine.Submit(background, beginning(t, cache, "Once", qinfer.SamplerOptions{}), qinfer.GenerateOptions{},
		qinfer.RequestOptions{})
	expectStatus(t, err, qinfer.ErrState)
	check(t, engine.Close())
	check(t, cache.Close())
}

func TestAnEngineTakesMaxWaitingRequests(t *testing.T) {
	engine, cache := engineOf(t, 60, qinfer.EngineOptions{MaxRunning: 1, MaxWaiting: 1})
	var taken []*qinfer.Request
	var refused error
	session := lasting(t, cache)
	for len(taken) < 5 {
		var request *qinfer.Request
		request, refused = engine.Submit(background, session, qinfer.GenerateOptions{MaxTokens: 150}, qinfer.RequestOptions{})
		if refused != nil {
			break
		}
		taken, session = append(taken, request), lasting(t, cache)
	}
	expectStatus(t, refused, qinfer.ErrNoMemory)
	says(t, "Submit", refused, "max_waiting")
	if len(taken) < 1 || len(taken) > 2 {
		t.Errorf("%d were taken", len(taken))
	}
	generated(t, session, 3) // it was not taken
	for _, request := range taken {
		if done := must(request.Wait())(t); done.NewTokens != 150 {
			t.Errorf("got %+v", done)
		}
	}
	small, few := engineOf(t, 2, qinfer.EngineOptions{})
	_, err := small.Submit(background, lasting(t, few), qinfer.GenerateOptions{MaxTokens: 100}, qinfer.RequestOptions{})
	expectStatus(t, err, qinfer.ErrKvFull)
}

func TestClosingAnEngineEndsItsRequests(t *testing.T) {
	engine, cache := engineOf(t, 60, qinfer.EngineOptions{})
	var all sync.WaitGroup
	var read atomic.Int32
	for range 4 {
		session := lasting(t, cache)
		request := submitted(t, engine, session, 190)
		all.Add(1)
		go func() {
			defer all.Done()
			var last error
			n := 0
			for _, err := range request.Stream() {
				if n++; n == 3 && read.Add(1) == 4 {
					engine.Close() // in the loop of one of them
				}
				last = err
			}
			if !errors.Is(last, qinfer.ErrState) || !errors.Is(last, qinfer.ErrClosed) ||
				!strings.Contains(last.Error(), "was closed") {
				t.Errorf("got %v after %d", last, n)
			}
			if _, err := session.Generate(background, qinfer.GenerateOptions{MaxTokens: 3}); err != nil {
				t.Error(err)
			}
		}()
	}
	all.Wait()
	check(t, engine.Close())
	_, err := engine.Submit(background, lasting(t, cache), qinfer.GenerateOptions{}, qinfer.RequestOptions{})
	if expectStatus(t, err, qinfer.ErrState); !errors.Is(err, qinfer.ErrClosed) {
		t.Errorf("got %v", err)
	}
	if _, err = engine.Stats(); !errors.Is(err, qinfer.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

func TestAHookMayCloseItsEngine(t *testing.T) {
	engine, cache := engineOf(t, 60, qinfer.EngineOptions{})
	session, other := lasting(t, cache), lasting(t, cache)
	check(t, session.SetLogitsHook(&qinfer.LogitsHook{Accept: func(qinfer.Token) error { return engine.Close() }}))
	for _, request := range []*qinfer.Request{submitted(t, engine, other, 190), submitted(t, engine, session, 190)} {
		if _, err := request.Wait(); !errors.Is(err, qinfer.ErrClosed) {
			t.Errorf("got %v", err)
		}
	}
	check(t, engine.Close())
	check(t, session.SetLogitsHook(nil))
	generated(t, session, 3)
}

func TestClosingAtAnyMomentLeavesNobodyWaiting(t *testing.T) {
	before := runtime.NumGoroutine()
	cache := must(model.NewKvCache(qinfer.KvCacheOptions{BudgetBlocks: 60}))(t)
	defer cache.Close()
	for round := range 40 {
		engine := must(cache.NewEngine(qinfer.EngineOptions{}))(t)
		var all sync.WaitGroup
		for range 4 {
			all.Add(1)
			go func() {
				defer all.Done()
				session, err := cache.NewSession(qinfer.SessionOptions{MaxTokens: 64})
				if err != nil {
					t.Error(err)
					return
				}
				defer session.Close()
				if err = session.AppendText("Once upon a time"); err != nil {
					t.Error(err)
				}
				for range 10 {
					request, err := engine.Submit(background, session, qinfer.GenerateOptions{MaxTokens: 4}, qinfer.RequestOptions{})
					if err == nil {
						_, _, err = read(request.Stream())
					}
					if errors.Is(err, qinfer.ErrClosed) {
						return
					}
					if err != nil {
						t.Error(err)
					}
				}
			}()
		}
		time.Sleep(time.Duration(round) * 200 * time.Microsecond)
		for range 2 {
			all.Add(1)
			go func() { defer all.Done(); engine.Close() }()
		}
		all.Wait()
	}
	for range 500 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), before)
}
