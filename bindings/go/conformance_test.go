// The cases that every binding must do alike; see bindings/conformance/README.md.

package qinfer_test

import (
	"encoding/json"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"qinfer"
)

func TestGreedyTokensAreThoseOfTheCases(t *testing.T) {
	for _, c := range cases.Greedy {
		var ids []qinfer.Token
		done := must(prompted(t, c.Prompt).Generate(background, qinfer.GenerateOptions{
			MaxTokens: c.NewTokens,
			OnToken:   func(token qinfer.Token, _ string) bool { ids = append(ids, token); return true },
		}))(t)
		if !slices.Equal(ids, c.IDs) || done.Text != c.Text || done.Finish != qinfer.FinishLength {
			t.Errorf("generated %v %+v, want %v %q", ids, done, c.IDs, c.Text)
		}
		if done.NewTokens != len(c.IDs) || done.PromptTokens == 0 || done.Prefill <= 0 || done.Decode <= 0 {
			t.Errorf("counts are %+v", done)
		}
		session, sampled := prompted(t, c.Prompt), []qinfer.Token(nil)
		for range c.IDs {
			check(t, session.Evaluate(background, qinfer.EvaluateOptions{}))
			sampled = append(sampled, must(session.Sample())(t))
		}
		if !slices.Equal(sampled, c.IDs) {
			t.Errorf("sampled %v, want %v", sampled, c.IDs)
		}
		if text := must(model.Detokenize(c.IDs))(t); text != c.Text {
			t.Errorf("detokenized %q, want %q", text, c.Text)
		}
	}
}

func TestStopTextsEndTheText(t *testing.T) {
	for _, c := range cases.Stop {
		options := qinfer.GenerateOptions{MaxTokens: c.NewTokens, Stop: c.Stop}
		done := must(prompted(t, c.Prompt).Generate(background, options))(t)
		if done.Text != c.Text || done.Finish.String() != c.Finish {
			t.Errorf("generated %q, %v, want %q, %s", done.Text, done.Finish, c.Text, c.Finish)
		}
	}
}

func TestTextsComeBackFromTheirTokens(t *testing.T) {
	for _, text := range cases.Roundtrip {
		tokens := must(model.Tokenize(text, qinfer.TokenizeOptions{Plain: true}))(t)
		if back := must(model.Detokenize(tokens))(t); back != text {
			t.Errorf("%q came back as %q", text, back)
		}
	}
}

func TestStreamsGiveTheTextInPiecesAndMayBeLeft(t *testing.T) {
	for _, c := range cases.Greedy {
		session, pieces := prompted(t, c.Prompt), []string(nil)
		for piece, err := range session.Stream(background, qinfer.GenerateOptions{MaxTokens: c.NewTokens}) {
			check(t, err)
			pieces = append(pieces, piece)
		}
		if strings.Join(pieces, "") != c.Text || len(pieces) < 5 {
			t.Errorf("streamed %q, want %q", pieces, c.Text)
		}
		session, text := prompted(t, c.Prompt), ""
		before := must(session.Len())(t)
		for piece := range session.Stream(background, qinfer.GenerateOptions{MaxTokens: 100}) {
			if text += piece; len(text) > 10 {
				break
			}
		}
		made := must(session.Len())(t) - before
		if !strings.HasPrefix(c.Text, text) || made >= len(c.IDs) {
			t.Errorf("left at %q after %d tokens", text, made)
		}
		// Nothing was generated ahead of the loop, so the text goes on where it was left.
		if rest := generated(t, session, c.NewTokens-uint32(made)).Text; text+rest != c.Text {
			t.Errorf("%q and %q are not %q", text, rest, c.Text)
		}
	}
}

func TestChatsAnswerAsTheCases(t *testing.T) {
	for _, c := range cases.Chat {
		chat := chatModel.NewChat()
		defer chat.Close()
		chat.Messages = slices.Clone(c.Messages)
		text := ""
		for part, err := range chat.Reply(background) {
			check(t, err)
			if part.Kind == qinfer.PartContent {
				text += part.Text
			}
		}
		if text != c.Reply || len(chat.Messages) != len(c.Messages)+1 {
			t.Errorf("replied %q, want %q; messages %s", text, c.Reply, chat.Messages)
		}
	}
}

func TestCallsHaveTheirWholeNames(t *testing.T) {
	reply := must(chatModel.NewReply(background, qinfer.Conversation{Messages: cases.Chat[0].Messages}))(t)
	defer reply.Close()
	var parts []qinfer.Part
	for _, token := range must(chatModel.Tokenize(cases.Call.Text, qinfer.TokenizeOptions{ParseSpecial: true}))(t) {
		parts = append(parts, must(reply.Push(token))(t)...)
	}
	parts = append(parts, must(reply.Finish())(t)...)
	if len(parts) != 1 || parts[0].Kind != qinfer.PartCall || parts[0].Name != cases.Call.Name {
		t.Errorf("the parts are %q, want a call of %q", parts, cases.Call.Name)
	}
}

func TestDocumentsFulfilTheSchema(t *testing.T) {
	needGrammars(t)
	grammar := must(model.JSONSchema(cases.Schema, qinfer.GrammarOptions{}))(t)
	defer grammar.Close()
	ended := 0
	for seed := range uint64(5) {
		session := prompted(t, "Lily: ")
		check(t, session.SetSampler(qinfer.SamplerOptions{Temperature: 1.5, Seed: seed}))
		check(t, session.SetGrammar(grammar))
		done := generated(t, session, 200)
		if done.Finish != qinfer.FinishEnd {
			continue
		}
		ended++
		document := struct {
			Name *string
			Age  int
		}{}
		decoder := json.NewDecoder(strings.NewReader(done.Text))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&document); err != nil || document.Name == nil || decoder.More() ||
			utf8.RuneCountInString(*document.Name) > 12 || document.Age != 4 && document.Age != 5 {
			t.Errorf("the document is %q: %v", done.Text, err)
		}
	}
	if ended == 0 {
		t.Error("no document was completed")
	}
}

func TestHookBansATokenAndSeesEveryToken(t *testing.T) {
	c, session := cases.Hook, prompted(t, cases.Hook.Prompt)
	var seen []qinfer.Token
	check(t, session.SetLogitsHook(&qinfer.LogitsHook{
		Apply: func(logits []float32) error {
			logits[c.Ban] = float32(math.Inf(-1))
			return nil
		},
		Accept: func(token qinfer.Token) error { seen = append(seen, token); return nil },
	}))
	done := generated(t, session, c.NewTokens)
	if done.Text != c.Text || !slices.Equal(seen, c.IDs) {
		t.Errorf("drew %v %q, want %v %q", seen, done.Text, c.IDs, c.Text)
	}
}

func TestCachesKeepPrefixes(t *testing.T) {
	c := cases.Prefix
	cache := must(model.NewKvCache(qinfer.KvCacheOptions{Prefix: true, BudgetBlocks: c.BudgetBlocks}))(t)
	defer cache.Close()
	for _, found := range []bool{false, true} {
		session := must(cache.NewSession(qinfer.SessionOptions{}))(t)
		check(t, session.AppendText(strings.Repeat(c.Text, c.Times)))
		if done := generated(t, session, 1); (done.CachedTokens > 0) != found {
			t.Errorf("%d cached tokens", done.CachedTokens)
		}
		session.Close()
	}
	if stats := must(cache.Stats())(t); stats.BlocksTotal != c.BudgetBlocks || stats.BlocksCached == 0 {
		t.Errorf("the cache has %+v", stats)
	}
}

func TestForksAndSnapshotsGoOnAlike(t *testing.T) {
	c, session := cases.Snapshot, prompted(t, cases.Snapshot.Prompt)
	generated(t, session, c.Before)
	copies := []*qinfer.Session{session, must(session.Fork())(t)}

	path := filepath.Join(t.TempDir(), "snapshot")
	check(t, session.Save(path))
	store := newMemoryFiles()
	check(t, session.SaveTo(store, c.Name))
	check(t, session.SaveTo(store, c.Name)) // over its own beginning
	cache := must(model.NewKvCache(qinfer.KvCacheOptions{}))(t)
	for _, from := range []struct {
		path  string
		files qinfer.Files
	}{{path, nil}, {c.Name, store}} {
		own := must(model.NewKvCache(qinfer.KvCacheOptions{}))(t)
		loaded, found, err := own.LoadSession(from.path, qinfer.LoadSessionOptions{Files: from.files})
		check(t, err)
		if int(found.Tokens) != must(session.Len())(t) || found.Recovered || found.OtherBits {
			t.Errorf("found %+v", found)
		}
		copies = append(copies, loaded)
	}
	if store.open != 0 || len(store.files) != 1 || len(store.files[c.Name].data) == 0 {
		t.Errorf("%d files are open of %d", store.open, len(store.files))
	}
	var tokens [][]qinfer.Token
	for _, one := range copies {
		generated(t, one, c.After)
		tokens = append(tokens, must(one.Tokens())(t))
		one.Close()
		if !slices.Equal(tokens[0], tokens[len(tokens)-1]) {
			t.Errorf("went on with %v, want %v", tokens[len(tokens)-1], tokens[0])
		}
	}
	cache.Close()
}

func TestEightSessionsOfOneCacheAtOnce(t *testing.T) {
	c := cases.Concurrent
	cache := must(model.NewKvCache(qinfer.KvCacheOptions{BudgetBlocks: c.BudgetBlocks}))(t)
	defer cache.Close()
	var all sync.WaitGroup
	for at := range c.Sessions {
		all.Add(1)
		go func() {
			defer all.Done()
			tellStories(t, cache, cases.Greedy[at%len(cases.Greedy)])
		}()
	}
	all.Wait()
}

func tellStories(t *testing.T, cache *qinfer.KvCache, story greedyCase) {
	session, err := cache.NewSession(qinfer.SessionOptions{MaxTokens: cases.Concurrent.MaxTokens})
	if err != nil {
		t.Error(err)
		return
	}
	defer session.Close()
	for range cases.Concurrent.Rounds {
		err := session.Truncate(0)
		if err == nil {
			err = session.AppendText(story.Prompt)
		}
		if err != nil {
			t.Error(err)
			return
		}
		done, err := session.Generate(background, qinfer.GenerateOptions{MaxTokens: story.NewTokens})
		if err != nil || done.Text != story.Text {
			t.Errorf("generated %q, %v, want %q", done.Text, err, story.Text)
		}
	}
}

func TestBatchesGiveTheTokensOfEachSession(t *testing.T) {
	cache := must(model.NewKvCache(qinfer.KvCacheOptions{BudgetBlocks: 16}))(t)
	defer cache.Close()
	var sessions []*qinfer.Session
	for _, c := range cases.Greedy {
		session := must(cache.NewSession(qinfer.SessionOptions{MaxTokens: 64}))(t)
		defer session.Close()
		check(t, session.AppendText(c.Prompt))
		sessions = append(sessions, session)
	}
	drawn := make([][]qinfer.Token, len(sessions))
	for range cases.Greedy[0].IDs {
		check(t, qinfer.Evaluate(background, sessions, qinfer.EvaluateOptions{}))
		for at, session := range sessions {
			drawn[at] = append(drawn[at], must(session.Sample())(t))
		}
	}
	for at, c := range cases.Greedy {
		if !slices.Equal(drawn[at], c.IDs) {
			t.Errorf("drew %v, want %v", drawn[at], c.IDs)
		}
	}
}
