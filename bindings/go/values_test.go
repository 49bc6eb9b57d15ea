// Wrong values: options, texts, conversations, sessions that do not go together, files that do not do as they say, and
// handles that are closed in callbacks.

package qinfer_test

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"qinfer"
)

func TestOptionsThatCannotBeAreErrors(t *testing.T) {
	path := filepath.Join(root, cases.Model)
	cache := func(o qinfer.KvCacheOptions) error { _, err := model.NewKvCache(o); return err }
	session := func(o qinfer.SessionOptions) error { _, err := model.NewSession(o); return err }
	made := func(o qinfer.RuntimeOptions) error { _, err := qinfer.NewRuntime(o); return err }
	load := func(o qinfer.LoadOptions) error { _, err := qinfer.Load(background, path, o); return err }
	plan := func(o qinfer.LoadOptions) error {
		_, err := qinfer.PlanMemory(path, qinfer.PlanOptions{Load: o})
		return err
	}
	sampler := func(o qinfer.SamplerOptions) error { return evaluated(t, "Once").SetSampler(o) }
	steps := func(letters string) error { return sampler(qinfer.SamplerOptions{Temperature: 1, Steps: letters}) }
	breakers := func(texts ...string) error { return evaluated(t, "Once").SetDryBreakers(texts...) }
	check(t, steps("t"))
	check(t, breakers())
	check(t, breakers(":", "a longer one"))
	bias := func(token qinfer.Token, value float64) error {
		return evaluated(t, "Once").SetBias(map[qinfer.Token]float32{token: float32(value)})
	}
	generate := func(stop ...string) error {
		_, err := prompted(t, "Once").Generate(background, qinfer.GenerateOptions{Stop: stop})
		return err
	}
	eval := func(o qinfer.EvaluateOptions) error { return prompted(t, "Once").Evaluate(background, o) }
	nan := float32(math.NaN())
	for says, err := range map[string]error{
		"kv_type":                       cache(qinfer.KvCacheOptions{Type: 77}),
		"kv_type is -1":                 cache(qinfer.KvCacheOptions{Type: -1}),
		"block_tokens":                  cache(qinfer.KvCacheOptions{BlockTokens: 33}),
		"budget":                        cache(qinfer.KvCacheOptions{BudgetBytes: 1}),
		"blocks":                        cache(qinfer.KvCacheOptions{BudgetBlocks: math.MaxUint64}),
		"max_tokens":                    session(qinfer.SessionOptions{MaxTokens: math.MaxUint32}),
		"max_logits":                    session(qinfer.SessionOptions{MaxLogits: math.MaxUint32}),
		"n_threads":                     made(qinfer.RuntimeOptions{Threads: math.MaxUint32}),
		"Spin is 1.5µs, expected whole": made(qinfer.RuntimeOptions{Spin: 1500 * time.Nanosecond}),
		"weight_format \"q9\" is not known, expected": load(qinfer.LoadOptions{WeightFormat: "q9"}),
		"max_batch_tokens":                            load(qinfer.LoadOptions{MaxBatchTokens: math.MaxUint32}),
		"is a zero value":                             load(qinfer.LoadOptions{Runtime: &qinfer.Runtime{}}),
		"Load.Files is set, expected":                 plan(qinfer.LoadOptions{Files: noFiles{}}),
		"Load.Runtime is set, expected":               plan(qinfer.LoadOptions{Runtime: runtimeOfTests}),
		"temperature":                                 sampler(qinfer.SamplerOptions{Temperature: nan}),
		"top_p":                                       sampler(qinfer.SamplerOptions{TopP: 2}),
		"min_p":                                       sampler(qinfer.SamplerOptions{MinP: -1}),
		"repeat_penalty":                              sampler(qinfer.SamplerOptions{RepeatPenalty: -1}),
		"typical_p":                                   sampler(qinfer.SamplerOptions{TypicalP: 2}),
		"top_n_sigma":                                 sampler(qinfer.SamplerOptions{TopNSigma: nan}),
		"dynatemp_range":                              sampler(qinfer.SamplerOptions{DynatempRange: nan}),
		"dynatemp_exponent":                           sampler(qinfer.SamplerOptions{DynatempExponent: nan}),
		"xtc_probability":                             sampler(qinfer.SamplerOptions{XtcProbability: 2}),
		"xtc_threshold":                               sampler(qinfer.SamplerOptions{XtcThreshold: 2}),
		"dry_multiplier":                              sampler(qinfer.SamplerOptions{DryMultiplier: nan}),
		"dry_base":                                    sampler(qinfer.SamplerOptions{DryBase: 0.5}),
		"mirostat is 1":                               sampler(qinfer.SamplerOptions{Mirostat: 1}),
		"mirostat_tau":                                sampler(qinfer.SamplerOptions{MirostatTau: nan}),
		"mirostat_eta":                                sampler(qinfer.SamplerOptions{MirostatEta: 2}),
		"steps has the byte 0x7a":                     steps("tz"),
		"steps has no NUL":                            steps("tttttttttttttttttttt"),
		"index 1 has 0 bytes":                         breakers("a", ""),
		"frequency_penalty":                           sampler(qinfer.SamplerOptions{FrequencyPenalty: nan}),
		"token -1":                                    bias(-1, 1),
		"the bias of token 1 is nan, expected":        bias(1, math.NaN()),
		"256":                                         generate(make([]string, 257)...),
		"4096":                                        generate(strings.Repeat("a", 4097)),
		"keep_logits":                                 eval(qinfer.EvaluateOptions{KeepLogits: 99}),
		"keep_logits is 1 beside":                     eval(qinfer.EvaluateOptions{KeepLogits: 1, NoLogits: true}),
		"pooling":                                     second(evaluated(t, "Once").Embedding(77)),
		"n_sessions":                                  qinfer.Evaluate(background, nil, qinfer.EvaluateOptions{}),
		"n is 1025: more than the 1024":               second(evaluated(t, "Once").TopLogprobs(0, 1025)),
		"no/such/file: No such":                       second(qinfer.Load(background, "no/such/file", qinfer.LoadOptions{})),
		"no/such/folder":                              evaluated(t, "Once").Save("no/such/folder/file"),
	} {
		saysOne(t, says, err)
	}
}

func second[T any](_ T, err error) error { return err }

func saysOne(t *testing.T, word string, err error) {
	t.Helper()
	says(t, word, err, word)
}

func TestSessionsThatDoNotGoTogetherAreErrors(t *testing.T) {
	evaluate := func(sessions ...*qinfer.Session) error {
		return qinfer.Evaluate(background, sessions, qinfer.EvaluateOptions{})
	}
	session := prompted(t, "Once upon a time")
	own := must(qinfer.NewRuntime(qinfer.RuntimeOptions{Threads: 1}))(t)
	defer own.Close()
	foreign := must(qinfer.Load(background, filepath.Join(root, cases.Model), qinfer.LoadOptions{Runtime: own}))(t)
	defer foreign.Close()
	other := must(foreign.NewSession(qinfer.SessionOptions{}))(t)
	defer other.Close()
	check(t, other.Append(1))
	closed := must(model.NewSession(qinfer.SessionOptions{}))(t)
	closed.Close()
	for says, err := range map[string]error{
		"cache":                        evaluate(session, other),
		"twice":                        evaluate(session, session),
		"sessions[1] is nil, expected": evaluate(session, nil),
		"sessions[0] is a zero value":  evaluate(&qinfer.Session{}, session),
		"sessions[1] is closed":        evaluate(session, closed),
	} {
		saysOne(t, says, err)
	}
	if failed := expectStatus(t, evaluate(session, nil), qinfer.ErrInvalidArgument); failed.Detail != 1 {
		t.Errorf("detail is %d", failed.Detail)
	}
	if n := must(session.Pending())(t); n != 4 {
		t.Errorf("%d tokens are pending", n)
	}
	saved := filepath.Join(t.TempDir(), "saved")
	check(t, session.Save(saved))
	cache := must(chatModel.NewKvCache(qinfer.KvCacheOptions{}))(t)
	defer cache.Close()
	_, _, err := cache.LoadSession(saved, qinfer.LoadSessionOptions{})
	says(t, "a session of another model", err, "model")
}

func TestConversationsThatJsonWouldChangeAreErrors(t *testing.T) {
	type nested struct{ Parts []map[string]*string }
	bad := "a\xffb"
	user := qinfer.Message{Role: "user", Content: "Hello!"}
	loop := map[string]any{}
	loop["self"] = loop
	for says, conversation := range map[string]qinfer.Conversation{
		"Messages[1] is nil, expected":       {Messages: []any{user, nil}},
		"Messages[0] is nil, expected":       {Messages: []any{json.RawMessage(nil)}},
		"Messages[1] has text that is not":   {Messages: []any{user, qinfer.Message{Role: "user", Content: bad}}},
		"Messages[0] has text that is not":   {Messages: []any{nested{[]map[string]*string{{"text": &bad}}}}},
		"Messages[0] does not become JSON":   {Messages: []any{loop}},
		"Tools[0] is nil, expected":          {Messages: []any{user}, Tools: []any{nil}},
		"Tools[0] has text that is not":      {Messages: []any{user}, Tools: []any{map[string]any{bad: 1}}},
		"Variables[\"mood\"] has text":       {Messages: []any{user}, Variables: map[string]any{"mood": bad}},
		"Variables has text that is not":     {Messages: []any{user}, Variables: map[string]any{bad: 1}},
		"Variables has \"messages\"":         {Messages: []any{user}, Variables: map[string]any{"messages": 1}},
		"Variables has \"tools\"":            {Tools: []any{user}, Variables: map[string]any{"tools": 1}},
		"the template's name \"a\\x00b\"":    {Messages: []any{user}, TemplateName: "a\x00b"},
		"the date \"a\\x00b\" has a NUL":     {Messages: []any{user}, Now: "a\x00b"},
		"has no chat template \"none\", but": {Messages: []any{user}, TemplateName: "none"},
		"UTF-8":                              {Messages: []any{user}, TemplateText: bad},
	} {
		saysOne(t, says, second(chatModel.RenderChat(background, conversation)))
		saysOne(t, says, second(chatModel.TokenizeChat(background, conversation)))
		saysOne(t, says, second(chatModel.NewReply(background, conversation)))
	}
	odd := struct {
		Role    string `json:"role"`
		Content string `json:"content"`
		Other   string `json:"-"`
		bytes   []byte
		hidden  string
	}{"user", "\uFFFD\\ufffd", bad, []byte(bad), bad}
	text := must(chatModel.RenderChat(background, qinfer.Conversation{Messages: []any{&odd}}))(t)
	if !strings.Contains(text, odd.Content) || odd.hidden != string(odd.bytes) {
		t.Errorf("rendered %q", text)
	}
}

func TestChatsWithWrongValuesTakeTheMessageBack(t *testing.T) {
	chat := chatModel.NewChat()
	defer chat.Close()
	says(t, "not UTF-8", second(chat.Send(background, "a\xffb")), "Messages[0] has text that is not UTF-8")
	says(t, "no context", second(chat.Send(nil, "Hello!")), "ctx is nil, expected")
	says(t, "no model", second((&qinfer.Chat{}).Send(background, "Hello!")), "the Chat has no Model")
	none := (*qinfer.Model)(nil).NewChat()
	says(t, "a model that is nil", second(none.Send(background, "Hello!")), "the Chat has no Model")
	if len(chat.Messages) != 0 || chat.Session() != nil || (*qinfer.Chat)(nil).Session() != nil {
		t.Errorf("the messages are %v", chat.Messages)
	}
	kept := []any{cases.Chat[0].Messages[0], "kept"}
	chat.Messages = kept[:0]
	must(chat.Send(background, "Hello!"))(t)
	if kept[1] != "kept" {
		t.Errorf("a turn wrote %v over what comes after the messages", kept[1])
	}
	chat.Session().Close()
	if _, err := chat.Send(background, "Again!"); !errors.Is(err, qinfer.ErrClosed) || len(chat.Messages) != 2 {
		t.Errorf("got %v", err)
	}
}

// oddFiles are files in memory whose sizes and writes are wrong.
type oddFiles struct {
	*memoryFiles
	size       int64
	shortWrite bool
}

type oddFile struct {
	*memoryFile
	of *oddFiles
}

func (f *oddFiles) Open(name string, write bool) (qinfer.File, error) {
	file, err := f.memoryFiles.Open(name, write)
	if err != nil {
		return nil, err
	}
	return oddFile{file.(*memoryFile), f}, nil
}

func (f oddFile) Size() (int64, error) {
	if f.of.size != 0 {
		return f.of.size, nil
	}
	return f.memoryFile.Size()
}

func (f oddFile) WriteAt(data []byte, offset int64) (int, error) {
	if f.of.shortWrite {
		return len(data) - 1, nil
	}
	return f.memoryFile.WriteAt(data, offset)
}

func TestFilesThatDoNotDoAsTheySayAreErrors(t *testing.T) {
	session := evaluated(t, "Once upon a time")
	cache := must(model.NewKvCache(qinfer.KvCacheOptions{}))(t)
	defer cache.Close()
	store := &oddFiles{memoryFiles: newMemoryFiles(), shortWrite: true}
	if err := session.SaveTo(store, "saved"); !errors.Is(err, qinfer.ErrIO) || !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("got %v", err)
	}
	store.shortWrite = false
	delete(store.files, "saved")
	check(t, session.SaveTo(store, "saved"))
	for size, words := range map[int64]string{
		-1: "Size gave -1, expected 0 or more", math.MinInt64: "Size gave -9223372036854775808, expected", 1: "saved",
	} {
		store.size = size
		_, _, err := cache.LoadSession("saved", qinfer.LoadSessionOptions{Files: store})
		says(t, words, err, words)
	}
	if store.open != 0 {
		t.Errorf("%d files are open", store.open)
	}
	for _, name := range []string{"m/config.json", "m"} { // an empty file
		empty := newMemoryFiles()
		empty.files[name] = &memoryFile{store: empty}
		says(t, name, second(qinfer.Load(background, "m", qinfer.LoadOptions{Files: empty})), filepath.Base(name))
	}
}

func TestErrorsThatAreNilPointersAreErrorsOfFiles(t *testing.T) {
	var none *qinfer.Error
	session := evaluated(t, "Once upon a time")
	for _, at := range []string{"open", "size", "write", "sync", "close"} {
		store := &faultyFiles{newMemoryFiles(), at, func() error { return none }}
		expectStatus(t, session.SaveTo(store, "saved"), qinfer.ErrIO)
	}
	check(t, session.SetLogitsHook(&qinfer.LogitsHook{Apply: func([]float32) error { return none }}))
	says(t, "sample", second(session.Sample()), "<nil>")
}

func TestFilesAreCutWhenAShorterSnapshotReplacesOne(t *testing.T) {
	long, short := evaluated(t, strings.Repeat("Once upon a time ", 50)), evaluated(t, "Once")
	store := newMemoryFiles()
	check(t, long.SaveTo(store, "saved"))
	before := len(store.files["saved"].data)
	for range 2 { // the first goes after the old one, which may then be cut off
		check(t, short.SaveTo(store, "saved"))
		generated(t, short, 1)
	}
	if after := len(store.files["saved"].data); after >= before {
		t.Errorf("the file has %d bytes after %d", after, before)
	}
	cache := must(model.NewKvCache(qinfer.KvCacheOptions{}))(t)
	defer cache.Close()
	loaded, _, err := cache.LoadSession("saved", qinfer.LoadSessionOptions{Files: store})
	check(t, err)
	defer loaded.Close()
	if n := must(loaded.Len())(t); n != must(short.Len())(t)-1 {
		t.Errorf("%d tokens were loaded", n)
	}
}

func TestHandlesMayBeClosedInCallbacks(t *testing.T) {
	own := must(qinfer.NewRuntime(qinfer.RuntimeOptions{Threads: 1}))(t)
	loaded := must(qinfer.Load(background, filepath.Join(root, cases.ChatModel), qinfer.LoadOptions{
		Runtime: own, Progress: func(uint64, uint64) error { return own.Close() },
	}))(t)
	cache := must(loaded.NewKvCache(qinfer.KvCacheOptions{}))(t)
	conversation := qinfer.Conversation{Messages: cases.Chat[0].Messages}
	reply := must(loaded.NewReply(background, conversation))(t)
	prompt := must(loaded.TokenizeChat(background, conversation))(t)
	session := must(cache.NewSession(qinfer.SessionOptions{}))(t)
	check(t, session.Append(prompt...))
	hook := &qinfer.LogitsHook{
		Apply:  func([]float32) error { return errors.Join(cache.Close(), loaded.Close(), session.Close()) },
		Accept: func(qinfer.Token) error { return session.Close() },
	}
	check(t, session.SetLogitsHook(hook))
	done := must(session.Generate(background, qinfer.GenerateOptions{
		OnToken: func(qinfer.Token, string) bool { return session.Close() == nil && reply.Close() == nil },
	}))(t)
	if done.Text != cases.Chat[0].Reply {
		t.Errorf("generated %q", done.Text)
	}
	for _, err := range []error{second(own.Info()), second(loaded.Info()), second(cache.Stats()), second(reply.Finish()),
		second(session.Len()), second(session.Sample())} {
		if !errors.Is(err, qinfer.ErrClosed) {
			t.Errorf("got %v", err)
		}
	}
	forked := evaluated(t, "Once upon a time")
	check(t, forked.SetLogitsHook(&qinfer.LogitsHook{
		Clone:  func() (*qinfer.LogitsHook, error) { return &qinfer.LogitsHook{}, forked.Close() },
		Rewind: func(int) error { return forked.Close() },
	}))
	fork := must(forked.Fork())(t)
	defer fork.Close()
	if generated(t, fork, 3); !errors.Is(forked.Truncate(1), qinfer.ErrClosed) {
		t.Error("the session is not closed")
	}
}

func TestHooksWithoutFunctionsChangeNothing(t *testing.T) {
	session := prompted(t, cases.Greedy[0].Prompt)
	check(t, session.SetLogitsHook(&qinfer.LogitsHook{}))
	if text := generated(t, session, cases.Greedy[0].NewTokens).Text; text != cases.Greedy[0].Text {
		t.Errorf("generated %q", text)
	}
	check(t, session.Truncate(2))
	must(session.SetTokens(nil))(t)
	check(t, session.Append())
	if tokens := must(session.Tokens())(t); len(tokens) != 0 {
		t.Errorf("the tokens are %v", tokens)
	}
}

func TestTextsThatAreNotUtf8AreErrors(t *testing.T) {
	_, err := prompted(t, "Once").Generate(background, qinfer.GenerateOptions{Stop: []string{"a", "\xff"}})
	says(t, "stop", err, "Stop[1] is not UTF-8, expected")
	if failed := expectStatus(t, err, qinfer.ErrInvalidArgument); failed.Detail != 1 {
		t.Errorf("detail is %d", failed.Detail)
	}
	says(t, "find", second(model.FindToken("\xff")), "has no entry")
	says(t, "append", prompted(t, "Once").AppendText("\xff"), "UTF-8")
	for _, err := range []error{second(loaded("a\xffb")), prompted(t, "Once").Save("no/\xff/b")} {
		says(t, "a path", err) // a path is any bytes
	}
}
