// Engines: requests that are drawn together give what each gives alone.

package qinfer_test

import (
	"errors"
	"iter"
	"math"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"qinfer"
)

var storyBeginnings = []string{
	"Once upon a time", "Lily saw a dog. Lily saw a dog. Lily", "The sun", "Tom and Sue went to the park",
}

// engineOf is an engine over a cache of so many blocks, which the end of the test closes.
func engineOf(t *testing.T, blocks uint64, o qinfer.EngineOptions) (*qinfer.Engine, *qinfer.KvCache) {
	t.Helper()
	cache := must(model.NewKvCache(qinfer.KvCacheOptions{BudgetBlocks: blocks}))(t)
	engine := must(cache.NewEngine(o))(t)
	t.Cleanup(func() {
		engine.Close()
		cache.Close()
	})
	return engine, cache
}

// beginning is a session of the cache with a prompt and a sampler, which the end of the test closes.
func beginning(t *testing.T, cache *qinfer.KvCache, prompt string, sampler qinfer.SamplerOptions) *qinfer.Session {
	t.Helper()
	session := must(cache.NewSession(qinfer.SessionOptions{MaxTokens: 200}))(t)
	t.Cleanup(func() { session.Close() })
	check(t, session.AppendText(prompt))
	check(t, session.SetSampler(sampler))
	return session
}

// alone is what a session without an engine gives.
func alone(t *testing.T, prompt string, sampler qinfer.SamplerOptions, o qinfer.GenerateOptions) (
	[]qinfer.Token, qinfer.Generated,
) {
	t.Helper()
	session, before := prompted(t, prompt), 0
	before = must(session.Len())(t)
	check(t, session.SetSampler(sampler))
	done := must(session.Generate(background, o))(t)
	return must(session.Tokens())(t)[before:], done
}

// submitted is a request for so many tokens.
func submitted(t *testing.T, engine *qinfer.Engine, session *qinfer.Session, n uint32) *qinfer.Request {
	t.Helper()
	return must(engine.Submit(background, session, qinfer.GenerateOptions{MaxTokens: n}, qinfer.RequestOptions{}))(t)
}

// read is all that a stream gives.
func read(stream iter.Seq2[qinfer.Piece, error]) (pieces []qinfer.Piece, text string, err error) {
	for piece, failed := range stream {
		if err = failed; err != nil {
			break
		}
		pieces, text = append(pieces, piece), text+piece.Text
	}
	return pieces, text, err
}

func TestRequestsGiveWhatEachGivesAlone(t *testing.T) {
	engine, cache := engineOf(t, 80, qinfer.EngineOptions{MaxRunning: 8, Step: 50 * time.Millisecond})
	options := qinfer.GenerateOptions{MaxTokens: 30, Stop: []string{" was zzzz", " mommy"}}
	var all sync.WaitGroup
	n := 0
	for _, prompt := range storyBeginnings {
		for _, sampler := range []qinfer.SamplerOptions{
			{}, {Temperature: 0.8, Seed: 5}, {Temperature: 1.1, TopK: 20, Seed: 6},
		} {
			wantTokens, want := alone(t, prompt, sampler, options)
			session := beginning(t, cache, prompt, sampler)
			before := must(session.Len())(t)
			n++
			shared := qinfer.RequestOptions{Key: uint64(n % 3)}
			all.Add(1)
			go func() { // each submits from a goroutine of its own
				defer all.Done()
				request, err := engine.Submit(background, session, options, shared)
				if err != nil {
					t.Error(err)
					return
				}
				pieces, text, err := read(request.Stream())
				done, waited := request.Wait()
				var tokens []qinfer.Token
				for _, piece := range pieces {
					if piece.Token != qinfer.NoToken {
						tokens = append(tokens, piece.Token)
					}
				}
				switch {
				case err != nil || waited != nil:
					t.Error(err, waited)
				case text != want.Text || done.Text != want.Text || !slices.Equal(tokens, wantTokens):
					t.Errorf("%q: streamed %q %v, result %+v; alone %q %v", prompt, text, tokens, done, want.Text, wantTokens)
				case done.Finish != want.Finish || done.NewTokens != want.NewTokens || done.PromptTokens != want.PromptTokens:
					t.Errorf("got %+v, want %+v", done, want)
				case done.Prefill <= 0 || done.Decode <= 0:
					t.Errorf("got %+v", done)
				}
				held, err := session.Tokens()
				if err != nil || !slices.Equal(held[before:], wantTokens) {
					t.Errorf("the session has %v, %v, want %v", held[before:], err, wantTokens)
				}
			}()
		}
	}
	all.Wait()
	stats := must(engine.Stats())(t)
	if stats.Submitted != uint64(n) || stats.Ended != uint64(n) || stats.Running != 0 || stats.Waiting != 0 {
		t.Errorf("got %+v", stats)
	}
	if stats.Steps == 0 || stats.DecodeRows < 100 || stats.PromptRows == 0 || stats.LastStep <= 0 ||
		stats.MemoryBytes < 1000 || stats.MemoryBytes > 1_000_000 || stats.PromisedBytes != 0 || stats.TimesParked != 0 {
		t.Errorf("got %+v", stats)
	}
}

func TestASessionGoesOnAfterItsRequest(t *testing.T) {
	engine, cache := engineOf(t, 20, qinfer.EngineOptions{})
	_, want := alone(t, "Once upon a time", qinfer.SamplerOptions{}, qinfer.GenerateOptions{MaxTokens: 30})
	session, text := beginning(t, cache, "Once upon a time", qinfer.SamplerOptions{}), ""
	for range 2 { // in the engine, alone, and again
		text += must(submitted(t, engine, session, 10).Wait())(t).Text
		if text += generated(t, session, 5).Text; text != want.Text[:len(text)] {
			t.Errorf("got %q", text)
		}
	}
	if text != want.Text {
		t.Errorf("got %q, want %q", text, want.Text)
	}
}

func TestGuessesAheadChangeNothing(t *testing.T) {
	engine, cache := engineOf(t, 40, qinfer.EngineOptions{})
	var requests []*qinfer.Request
	for _, prompt := range storyBeginnings {
		session := must(cache.NewSession(qinfer.SessionOptions{MaxTokens: 200, MaxDraft: 8}))(t)
		defer session.Close()
		check(t, session.AppendText(prompt))
		requests = append(requests, submitted(t, engine, session, 60))
	}
	for at, request := range requests {
		_, want := alone(t, storyBeginnings[at], qinfer.SamplerOptions{}, qinfer.GenerateOptions{MaxTokens: 60})
		if done := must(request.Wait())(t); done.Text != want.Text {
			t.Errorf("got %q, want %q", done.Text, want.Text)
		}
	}
}

func TestPiecesHaveLogProbabilitiesWhereAskedFor(t *testing.T) {
	engine, cache := engineOf(t, 20, qinfer.EngineOptions{})
	for _, o := range []qinfer.RequestOptions{{}, {Logprobs: true}, {TopLogprobs: 3, Priority: 1}} {
		session := beginning(t, cache, "Once upon a time", qinfer.SamplerOptions{})
		request := must(engine.Submit(background, session, qinfer.GenerateOptions{MaxTokens: 5}, o))(t)
		pieces, _, err := read(request.Stream())
		check(t, err)
		other := evaluated(t, "Once upon a time")
		for _, piece := range pieces {
			if piece.Token == qinfer.NoToken {
				continue
			}
			top := must(other.TopLogprobs(0, 3))(t)
			wanted, logprob := []qinfer.TokenLogprob(nil), 0.0
			if o.Logprobs || o.TopLogprobs != 0 {
				logprob = must(other.Logprobs(0, piece.Token))(t)[0]
			}
			if o.TopLogprobs != 0 {
				wanted = top
			}
			if piece.Logprob != logprob || !slices.Equal(piece.Top, wanted) {
				t.Errorf("%+v: got %+v, want %v, %v", o, piece, logprob, wanted)
			}
			check(t, other.Append(piece.Token))
			check(t, other.Evaluate(background, qinfer.EvaluateOptions{}))
		}
	}
	_, err := engine.Submit(background, beginning(t, cache, "Once", qinfer.SamplerOptions{}), qinfer.GenerateOptions{},
		qinfer.RequestOptions{TopLogprobs: 65})
	expectStatus(t, err, qinfer.ErrInvalidArgument)
}

func TestTextThatWasHeldBackComesAtTheEndOfARequest(t *testing.T) {
	engine, cache := engineOf(t, 20, qinfer.EngineOptions{})
	session := beginning(t, cache, "Once upon a time", qinfer.SamplerOptions{})
	options := qinfer.GenerateOptions{MaxTokens: 3, Stop: []string{" was zzzz"}}
	request := must(engine.Submit(background, session, options, qinfer.RequestOptions{}))(t)
	pieces, text, err := read(request.Stream())
	check(t, err)
	_, want := alone(t, "Once upon a time", qinfer.SamplerOptions{}, options)
	if last := pieces[len(pieces)-1]; last.Token != qinfer.NoToken || last.Text == "" || text != want.Text {
		t.Errorf("got %+v, want %q", pieces, want.Text)
	}

	// Also where the request ends with an error.
	must(session.SetTokens(nil))(t)
	check(t, session.AppendText("Once upon a time"))
	drawn := 0
	check(t, session.SetLogitsHook(&qinfer.LogitsHook{Apply: func([]float32) error {
		if drawn++; drawn == 4 {
			return errOwn
		}
		return nil
	}}))
	options.MaxTokens = 9
	request = must(engine.Submit(background, session, options, qinfer.RequestOptions{}))(t)
	pieces, text, err = read(request.Stream())
	done, _ := request.Wait()
	if last := pieces[len(pieces)-1]; !errors.Is(err, errOwn) || last.Token != qinfer.NoToken || text != want.Text {
		t.Errorf("got %+v, %v, want %q", pieces, err, want.Text)
	}
	if done.Text != text || done.NewTokens != 3 || done.Finish != qinfer.FinishNone {
		t.Errorf("got %+v", done)
	}
}

func TestRequestsHaveThePartsOfAReply(t *testing.T) {
	cache := must(chatModel.NewKvCache(qinfer.KvCacheOptions{BudgetBlocks: 200}))(t)
	defer cache.Close()
	engine := must(cache.NewEngine(qinfer.EngineOptions{}))(t)
	defer engine.Close()
	c := cases.Chat[0]
	conversation := qinfer.Conversation{Messages: c.Messages}
	reply := must(chatModel.NewReply(background, conversation))(t)
	defer reply.Close()
	session := must(cache.NewSession(qinfer.SessionOptions{}))(t)
	defer session.Close()
	check(t, session.Append(must(chatModel.TokenizeChat(background, conversation))(t)...))
	gate := make(chan bool)
	check(t, session.SetLogitsHook(&qinfer.LogitsHook{Apply: func([]float32) error { <-gate; return nil }}))
	options := qinfer.GenerateOptions{Reply: reply, MaxTokens: 200}
	request := must(engine.Submit(background, session, options, qinfer.RequestOptions{}))(t)
	_, refused := reply.Push(5)
	close(gate)
	says(t, "Reply.Push", refused, "the Reply is the Engine's")
	content := ""
	add := func(parts []qinfer.Part) {
		for _, part := range parts {
			if part.Kind == qinfer.PartContent {
				content += part.Text
			}
		}
	}
	for piece, err := range request.Stream() {
		check(t, err)
		add(piece.Parts)
	}
	add(must(reply.Finish())(t))
	if content != c.Reply {
		t.Errorf("got %q, want %q", content, c.Reply)
	}
}

func TestRequestsAreParkedWhereBlocksRunOut(t *testing.T) {
	folder, sampler := t.TempDir(), qinfer.SamplerOptions{Temperature: 0.8, Seed: 3}
	engine, cache := engineOf(t, 9, qinfer.EngineOptions{Park: folder})
	_, want := alone(t, "Once upon a time", sampler, qinfer.GenerateOptions{MaxTokens: 150})
	var requests []*qinfer.Request
	for range 4 {
		session := beginning(t, cache, "Once upon a time", sampler)
		requests = append(requests, submitted(t, engine, session, 150))
		check(t, session.Close()) // its blocks are the others' once its request has ended
	}
	for _, request := range requests {
		_, text, err := read(request.Stream())
		if err != nil || text != want.Text {
			t.Errorf("got %q, %v, want %q", text, err, want.Text)
		}
	}
	stats := must(engine.Stats())(t)
	if stats.TimesParked == 0 || stats.Parked != 0 || stats.ParkedBytes != 0 {
		t.Errorf("got %+v", stats)
	}
	check(t, engine.Close())
	if left := must(os.ReadDir(folder))(t); len(left) != 0 {
		t.Errorf("%v are left", left)
	}
	_, err := cache.NewEngine(qinfer.EngineOptions{Park: folder + "/none"})
	expectStatus(t, err, qinfer.ErrNotFound)
	_, err = cache.NewEngine(qinfer.EngineOptions{ParkBytes: 1})
	expectStatus(t, err, qinfer.ErrInvalidArgument)
}

func TestManyGoroutinesSubmitAtOnce(t *testing.T) {
	engine, cache := engineOf(t, 200, qinfer.EngineOptions{MaxRunning: 12})
	texts := map[string]string{}
	for _, prompt := range storyBeginnings {
		_, done := alone(t, prompt, qinfer.SamplerOptions{}, qinfer.GenerateOptions{MaxTokens: 12})
		texts[prompt] = done.Text
	}
	var all sync.WaitGroup
	for at := range 24 {
		all.Add(1)
		go func() {
			defer all.Done()
			prompt := storyBeginnings[at%len(storyBeginnings)]
			session, err := cache.NewSession(qinfer.SessionOptions{MaxTokens: 64})
			if err != nil {
				t.Error(err)
				return
			}
			defer session.Close()
			for range 3 {
				_, cleared := session.SetTokens(nil)
				err := errors.Join(cleared, session.AppendText(prompt))
				request, failed := engine.Submit(background, session, qinfer.GenerateOptions{MaxTokens: 12},
					qinfer.RequestOptions{Key: uint64(at)})
				if err = errors.Join(err, failed); err != nil {
					t.Error(err)
					return
				}
				if done, err := request.Wait(); err != nil || done.Text != texts[prompt] {
					t.Errorf("got %q, %v, want %q", done.Text, err, texts[prompt])
				}
			}
		}()
	}
	all.Wait()
	if stats := must(engine.Stats())(t); stats.Ended != 72 {
		t.Errorf("got %+v", stats)
	}
}

func TestWhatAnEngineCannotTakeIsAnError(t *testing.T) {
	engine, cache := engineOf(t, 20, qinfer.EngineOptions{})
	session := beginning(t, cache, "Once upon a time", qinfer.SamplerOptions{})
	told := func(string) bool { return true }
	for name, f := range map[string]func() error{
		"expected nil": func() error {
			_, err := engine.Submit(background, session, qinfer.GenerateOptions{OnText: told}, qinfer.RequestOptions{})
			return err
		},
		"Timeout is -1s": func() error {
			_, err := engine.Submit(background, session, qinfer.GenerateOptions{}, qinfer.RequestOptions{Timeout: -time.Second})
			return err
		},
		"the Session is nil": func() error {
			_, err := engine.Submit(background, nil, qinfer.GenerateOptions{}, qinfer.RequestOptions{})
			return err
		},
		"the Reply is a zero value": func() error {
			o := qinfer.GenerateOptions{Reply: &qinfer.Reply{}}
			_, err := engine.Submit(background, session, o, qinfer.RequestOptions{})
			return err
		},
		"another KV cache": func() error {
			other := prompted(t, "Once upon a time")
			_, err := engine.Submit(background, other, qinfer.GenerateOptions{MaxTokens: 3}, qinfer.RequestOptions{})
			return err
		},
		"Step is -1ns": func() error { _, err := cache.NewEngine(qinfer.EngineOptions{Step: -1}); return err },
		"has a NUL":    func() error { _, err := cache.NewEngine(qinfer.EngineOptions{Park: "a\x00b"}); return err },
		"max_running is": func() error {
			_, err := cache.NewEngine(qinfer.EngineOptions{MaxRunning: math.MaxUint32})
			return err
		},
		"Stop[0] is not UTF-8": func() error {
			o := qinfer.GenerateOptions{Stop: []string{"\xff"}}
			_, err := engine.Submit(background, session, o, qinfer.RequestOptions{})
			return err
		},
	} {
		says(t, name, f(), name)
	}
	if done := generated(t, session, 3); done.NewTokens != 3 { // it was given back each time
		t.Errorf("got %+v", done)
	}
	var none *qinfer.Request
	_, err := none.Wait()
	says(t, "a nil Request", err, "the Request is nil, expected a Request of Engine.Submit")
	_, _, err = read((&qinfer.Request{}).Stream())
	says(t, "a zero Request", err, "the Request is a zero value")
	none.Cancel()
	(&qinfer.Request{}).Cancel()
}
