// Streams, contexts, and calls that are ended from outside.

package qinfer_test

import (
	"context"
	"errors"
	"iter"
	"runtime"
	"testing"
	"time"

	"qinfer"
)

func TestLoopsMayPanicAndEndTheirGoroutine(t *testing.T) {
	session := prompted(t, "Once upon a time")
	value := panicOf(func() {
		for range session.Stream(background, qinfer.GenerateOptions{}) {
			panic(ownPanic)
		}
	})
	if value != ownPanic {
		t.Errorf("panicked with %v", value)
	}
	ended := make(chan bool)
	go func() {
		defer close(ended)
		for range session.Stream(background, qinfer.GenerateOptions{}) {
			runtime.Goexit()
		}
	}()
	<-ended
	if done := generated(t, session, 3); done.NewTokens != 3 {
		t.Errorf("the session went on with %+v", done)
	}
}

func TestStreamsMayBePulled(t *testing.T) {
	c := cases.Greedy[0]
	session := prompted(t, c.Prompt)
	next, stop := iter.Pull2(session.Stream(background, qinfer.GenerateOptions{MaxTokens: c.NewTokens}))
	defer stop()
	text := ""
	for {
		piece, err, more := next()
		if !more {
			break
		}
		check(t, err)
		text += piece
	}
	if text != c.Text {
		t.Errorf("pulled %q, want %q", text, c.Text)
	}
}

func TestStreamsTakeStopTextsAndCallbacks(t *testing.T) {
	c, text, told := cases.Stop[0], "", ""
	options := qinfer.GenerateOptions{MaxTokens: c.NewTokens, Stop: c.Stop, OnText: func(piece string) bool {
		told += piece
		return true
	}}
	for piece, err := range prompted(t, c.Prompt).Stream(background, options) {
		check(t, err)
		text += piece
	}
	if text != c.Text || told != c.Text {
		t.Errorf("streamed %q and told %q, want %q", text, told, c.Text)
	}
}

func TestStreamsEndWithTheirError(t *testing.T) {
	session := must(model.NewSession(qinfer.SessionOptions{MaxTokens: 8}))(t)
	var last error
	for text, err := range session.Stream(background, qinfer.GenerateOptions{}) {
		if last = err; err != nil && text != "" {
			t.Errorf("%q came with an error", text)
		}
	}
	expectStatus(t, last, qinfer.ErrState) // the session is empty
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	session, n := prompted(t, "Once upon a time"), 0
	for _, err := range session.Stream(ctx, qinfer.GenerateOptions{}) {
		if n++; n == 3 {
			cancel()
		}
		last = err
	}
	if !errors.Is(last, context.Canceled) || n > 5 {
		t.Errorf("ended with %v after %d pieces", last, n)
	}
	generated(t, session, 3)
}

// endless is a session that generates until its context ends: what would end a text is banned, and the tokens are taken
// back before they are too many.
func endless(t *testing.T) *qinfer.Session {
	session, bias := prompted(t, "Once upon a time"), map[qinfer.Token]float32{}
	for _, token := range must(model.EndTokens())(t) {
		bias[token] = -1e30
	}
	check(t, session.SetBias(bias))
	return session
}

func TestAContextEndsAGenerationFromAnotherGoroutine(t *testing.T) {
	ctx, cancel := context.WithCancel(background)
	session, tokens := endless(t), 0
	before := must(session.Len())(t)
	done, err := session.Generate(ctx, qinfer.GenerateOptions{OnToken: func(qinfer.Token, string) bool {
		if tokens++; tokens == 5 {
			ended := make(chan bool)
			go func() { cancel(); close(ended) }()
			<-ended
			time.Sleep(10 * time.Millisecond) // until the request is made, on a goroutine of the context
		}
		return true
	}})
	failed := expectStatus(t, err, qinfer.ErrCancelled)
	if !errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", failed)
	}
	if done.Finish != qinfer.FinishNone || done.NewTokens < 5 || must(session.Len())(t) != before+done.NewTokens {
		t.Errorf("got %+v", done)
	}
	if again := generated(t, session, 3); again.NewTokens != 3 {
		t.Errorf("the session went on with %+v", again)
	}
}

func TestDeadlinesAndCausesAreInTheError(t *testing.T) {
	ctx, cancel := context.WithDeadline(background, time.Now().Add(-time.Second))
	defer cancel()
	session := prompted(t, "Once upon a time")
	_, err := session.Generate(ctx, qinfer.GenerateOptions{})
	if expectStatus(t, err, qinfer.ErrCancelled); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	because, give := context.WithCancelCause(background)
	give(errOwn)
	_, err = session.Generate(because, qinfer.GenerateOptions{})
	if !errors.Is(err, context.Canceled) || !errors.Is(err, errOwn) {
		t.Errorf("got %v", err)
	}
	_, err = qinfer.Load(because, root+"/"+cases.Model, qinfer.LoadOptions{Runtime: runtimeOfTests})
	if expectStatus(t, err, qinfer.ErrCancelled); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	_, err = chatModel.TokenizeChat(because, qinfer.Conversation{Messages: cases.Chat[0].Messages})
	if expectStatus(t, err, qinfer.ErrCancelled); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestACancelThatACallbackCausesIsNotTheContexts(t *testing.T) {
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	session := evaluated(t, "Once upon a time")
	check(t, session.SetLogitsHook(hooks(failing)["apply"]))
	_, err := session.Generate(ctx, qinfer.GenerateOptions{})
	if !errors.Is(err, errOwn) || errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
