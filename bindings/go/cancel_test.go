// Contexts that end from another goroutine: calls end soon after, and the session goes on at once.

package qinfer_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"qinfer"
)

// soon is how long a call may take after its context has ended.
const soon = 500 * time.Millisecond

// slow is a session with a prompt that takes seconds.
func slow(t *testing.T, o qinfer.SessionOptions) *qinfer.Session {
	portable := must(qinfer.NewRuntime(qinfer.RuntimeOptions{Threads: 1, CPUTarget: "reference"}))(t)
	defer portable.Close()
	loaded := must(qinfer.Load(background, filepath.Join(root, cases.ChatModel), qinfer.LoadOptions{Runtime: portable}))(t)
	defer loaded.Close()
	session := must(loaded.NewSession(o))(t)
	t.Cleanup(func() { session.Close() })
	for at := range must(loaded.Info())(t).ContextTokens - 4 {
		check(t, session.Append(qinfer.Token(5+at%50)))
	}
	return session
}

// endSoon makes a call with a context that ends in the midst of it.
func endSoon(t *testing.T, call func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(background)
	ended := make(chan time.Time, 1)
	time.AfterFunc(100*time.Millisecond, func() {
		ended <- time.Now()
		cancel()
	})
	err := call(ctx)
	over := time.Now()
	if expectStatus(t, err, qinfer.ErrCancelled); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if took := over.Sub(<-ended); took > soon {
		t.Errorf("the call went on for %v", took)
	}
}

func TestContextsEndPromptsSoon(t *testing.T) {
	session := slow(t, qinfer.SessionOptions{})
	tokens := must(session.Tokens())(t)
	for name, call := range map[string]func(ctx context.Context) error{
		"Evaluate": func(ctx context.Context) error { return session.Evaluate(ctx, qinfer.EvaluateOptions{}) },
		"Generate": func(ctx context.Context) error { return second(session.Generate(ctx, qinfer.GenerateOptions{})) },
		"Stream": func(ctx context.Context) (last error) {
			for _, err := range session.Stream(ctx, qinfer.GenerateOptions{}) {
				last = err
			}
			return last
		},
	} {
		must(session.SetTokens(nil))(t)
		check(t, session.Append(tokens...))
		if endSoon(t, call); must(session.Pending())(t) == 0 || must(session.Len())(t) != len(tokens) {
			t.Errorf("%s: %v of %d tokens are pending", name, must(session.Pending())(t), len(tokens))
		}
		check(t, session.Truncate(3))
		check(t, session.Evaluate(background, qinfer.EvaluateOptions{}))
		if done := generated(t, session, 2); done.NewTokens != 2 {
			t.Errorf("%s: the session went on with %+v", name, done)
		}
	}
}

func TestContextsEndEmbeddingsSoon(t *testing.T) {
	session := slow(t, qinfer.SessionOptions{Embeddings: true})
	endSoon(t, func(ctx context.Context) error { return session.Evaluate(ctx, qinfer.EvaluateOptions{}) })
	expectStatus(t, second(session.Embedding(qinfer.PoolMean)), qinfer.ErrState)
	check(t, session.Truncate(3))
	check(t, session.Evaluate(background, qinfer.EvaluateOptions{}))
	fresh := slow(t, qinfer.SessionOptions{Embeddings: true})
	check(t, fresh.Truncate(3))
	check(t, fresh.Evaluate(background, qinfer.EvaluateOptions{}))
	if !slices.Equal(must(session.Embedding(qinfer.PoolMean))(t), must(fresh.Embedding(qinfer.PoolMean))(t)) {
		t.Error("the embedding is another one than that of a fresh session")
	}
}

func TestContextsEndLoadingSoon(t *testing.T) {
	path := wideModel(t)
	ctx, cancel := context.WithCancel(background)
	var ended time.Time
	var read, all uint64
	options := qinfer.LoadOptions{Runtime: runtimeOfTests, NoMmap: true}
	options.Progress = func(done, total uint64) error {
		if read, all = done, total; ended.IsZero() {
			ended = time.Now()
			cancel()
			time.Sleep(10 * time.Millisecond) // until the request is made, on a goroutine of the context
		}
		return nil
	}
	_, err := qinfer.Load(ctx, path, options)
	took := time.Since(ended)
	if expectStatus(t, err, qinfer.ErrCancelled); !errors.Is(err, context.Canceled) || read > all/2 {
		t.Errorf("got %v at %d of %d bytes", err, read, all)
	}
	if took > soon {
		t.Errorf("loading went on for %v", took)
	}
	must(loaded(cases.Model))(t).Close()
}

func TestAContextThatEndsInACallbackEndsTheGenerationThere(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // the goroutine of the context does not come in between
	for range 5 {
		ctx, cancel := context.WithCancel(background)
		session, drawn := prompted(t, "Once upon a time"), 0
		done, err := session.Generate(ctx, qinfer.GenerateOptions{OnToken: func(qinfer.Token, string) bool {
			if drawn++; drawn == 3 {
				cancel()
			}
			return true
		}})
		if expectStatus(t, err, qinfer.ErrCancelled); !errors.Is(err, context.Canceled) || done.NewTokens != 3 {
			t.Errorf("got %v after %d tokens", err, done.NewTokens)
		}
		if again := generated(t, session, 3); again.NewTokens != 3 {
			t.Errorf("the session went on with %+v", again)
		}
	}
}

// wideModel is the story model with tensors of zeros that are eight times as wide: a file of some 230 MB with holes.
func wideModel(t *testing.T) string {
	const factor = 8
	from, to := filepath.Join(root, cases.Model), t.TempDir()
	for _, name := range []string{"tokenizer.json", "tokenizer_config.json", "generation_config.json"} {
		check(t, os.WriteFile(filepath.Join(to, name), must(os.ReadFile(filepath.Join(from, name)))(t), 0o600))
	}
	var config map[string]any
	check(t, json.Unmarshal(must(os.ReadFile(filepath.Join(from, "config.json")))(t), &config))
	for _, name := range []string{"hidden_size", "intermediate_size", "head_dim"} {
		config[name] = config[name].(float64) * factor
	}
	check(t, os.WriteFile(filepath.Join(to, "config.json"), must(json.Marshal(config))(t), 0o600))

	weights := must(os.ReadFile(filepath.Join(from, "model.safetensors")))(t)
	length := binary.LittleEndian.Uint64(weights)
	var header map[string]map[string]any
	check(t, json.Unmarshal(weights[8:8+length], &header))
	delete(header, "__metadata__")
	bytesSoFar := 0.0
	for _, tensor := range header {
		size := 2.0 // BF16
		shape := tensor["shape"].([]any)
		for at, n := range shape {
			if n != config["vocab_size"] {
				shape[at] = n.(float64) * factor
			}
			size *= shape[at].(float64)
		}
		tensor["data_offsets"] = []float64{bytesSoFar, bytesSoFar + size}
		bytesSoFar += size
	}
	var text bytes.Buffer
	check(t, json.NewEncoder(&text).Encode(header))
	text.WriteString(strings.Repeat(" ", 8-text.Len()%8))
	name := filepath.Join(to, "model.safetensors")
	check(t, os.WriteFile(name, append(binary.LittleEndian.AppendUint64(nil, uint64(text.Len())), text.Bytes()...), 0o600))
	check(t, os.Truncate(name, 8+int64(text.Len())+int64(bytesSoFar)))
	return to
}
