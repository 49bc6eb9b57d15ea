// Models, tokens, caches and sessions beyond the cases: what they tell, how they are loaded, logits and embeddings.

package qinfer_test

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"qinfer"
)

func TestLibraryAndRuntimeTellWhatTheyAre(t *testing.T) {
	if !strings.HasPrefix(qinfer.Version(), "0.") || qinfer.BuildInfo() == "" {
		t.Errorf("version %q, build %q", qinfer.Version(), qinfer.BuildInfo())
	}
	cpu := must(qinfer.GetCPUInfo())(t)
	if cpu.LogicalCores == 0 || cpu.Target == "" || cpu.Features == "" {
		t.Errorf("the CPU is %+v", cpu)
	}
	own := must(qinfer.NewRuntime(qinfer.RuntimeOptions{Threads: 2, Exact: true, Spin: 50 * time.Microsecond}))(t)
	defer own.Close()
	if info := must(own.Info())(t); info.Threads != 2 || info.Target == "" {
		t.Errorf("the runtime is %+v", info)
	}
	exact := must(qinfer.Load(background, filepath.Join(root, cases.Model), qinfer.LoadOptions{Runtime: own}))(t)
	session := must(exact.NewSession(qinfer.SessionOptions{}))(t)
	check(t, session.AppendText(cases.Greedy[0].Prompt))
	if text := generated(t, session, 16).Text; text != cases.Greedy[0].Text {
		t.Errorf("exactly generated %q", text)
	}
	if metrics := must(own.Metrics())(t); metrics.Evals != 16 || metrics.DecodeTokens != 15 || metrics.Decode <= 0 {
		t.Errorf("metrics are %+v", metrics)
	}
}

func TestSpinningHasBounds(t *testing.T) {
	for _, spin := range []time.Duration{-time.Second, 2 * time.Hour} {
		_, err := qinfer.NewRuntime(qinfer.RuntimeOptions{Spin: spin})
		expectStatus(t, err, qinfer.ErrInvalidArgument)
	}
}

func TestModelTellsWhatItIs(t *testing.T) {
	info := must(model.Info())(t)
	if info.Vocab != 1024 || info.Architecture == "" || info.Params == 0 || !info.Tokenizer || info.KernelSet == "" {
		t.Errorf("the model is %+v", info)
	}
	if metadata := must(model.Metadata())(t); len(metadata) == 0 {
		t.Error("the model has no metadata")
	}
	for _, token := range must(chatModel.EndTokens())(t) {
		about := must(chatModel.Token(token))(t)
		if found := must(chatModel.FindToken(string(about.Text)))(t); found != token || !about.End {
			t.Errorf("token %d is %+v, found as %d", token, about, found)
		}
	}
	_, err := model.FindToken("no such token")
	expectStatus(t, err, qinfer.ErrNotFound)
	if text := string(must(model.Token(cases.Greedy[0].IDs[0]))(t).Text); text != "," {
		t.Errorf("the first token is %q", text)
	}
}

func TestPlansAreWhatIsTaken(t *testing.T) {
	path := filepath.Join(root, cases.Model)
	one := qinfer.RuntimeOptions{Threads: 1}
	taken, planned := must(model.Memory())(t), must(qinfer.PlanMemory(path, qinfer.PlanOptions{Runtime: one}))(t)
	if planned.WeightsMapped != taken.WeightsMapped || planned.WeightsPrivate != taken.WeightsPrivate ||
		planned.Scratch != taken.Scratch || planned.Total == 0 {
		t.Errorf("planned %+v, taken %+v", planned, taken)
	}
	cache := qinfer.KvCacheOptions{BudgetBlocks: 8}
	options := qinfer.PlanOptions{Cache: &cache, Session: qinfer.SessionOptions{MaxTokens: 64}}
	with := must(qinfer.PlanMemory(path, options))(t)
	if with.KvCache != 8*with.KvPerBlock || with.KvPerBlock == 0 || with.KvPerSession != 2*with.KvPerBlock {
		t.Errorf("planned %+v", with)
	}
	_, err := qinfer.PlanMemory("no/such/model", qinfer.PlanOptions{})
	expectStatus(t, err, qinfer.ErrNotFound)
}

func TestModelsWithoutWeightsHaveTokensOnly(t *testing.T) {
	bare := must(qinfer.Load(background, filepath.Join(root, cases.Model), qinfer.LoadOptions{NoWeights: true}))(t)
	defer bare.Close()
	if tokens := must(bare.Tokenize("Once", qinfer.TokenizeOptions{}))(t); len(tokens) == 0 {
		t.Error("there are no tokens")
	}
	if _, err := bare.NewSession(qinfer.SessionOptions{}); err == nil {
		t.Error("there is a session without weights")
	}
}

// folderFiles reads files of a folder that the library never hears of.
type folderFiles struct{ folder string }

type folderFile struct{ *os.File }

func (f folderFiles) Open(name string, _ bool) (qinfer.File, error) {
	path := filepath.Join(f.folder, name)
	if about, err := os.Stat(path); err != nil || about.IsDir() {
		return nil, os.ErrNotExist
	}
	file, err := os.Open(path)
	return folderFile{file}, err
}

func (f folderFile) Size() (int64, error) {
	about, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return about.Size(), nil
}

func TestModelsComeFromFilesOfTheProgramAndFromPackedOnes(t *testing.T) {
	c, path := cases.Greedy[0], filepath.Join(root, cases.Model)
	packed := filepath.Join(t.TempDir(), "packed")
	check(t, qinfer.Pack(background, path, packed, qinfer.LoadOptions{Runtime: runtimeOfTests}))
	expectStatus(t, qinfer.Pack(background, path, packed, qinfer.LoadOptions{Files: folderFiles{}}), qinfer.ErrUnsupported)
	for name, load := range map[string]struct {
		path    string
		options qinfer.LoadOptions
	}{
		"files":      {"", qinfer.LoadOptions{Files: folderFiles{path}}},
		"packed":     {packed, qinfer.LoadOptions{Verify: true}},
		"packedPath": {path, qinfer.LoadOptions{PackedPath: packed}},
		"private":    {path, qinfer.LoadOptions{NoMmap: true, MaxBatchTokens: 64, MemoryBudget: 1 << 30}},
	} {
		load.options.Runtime = runtimeOfTests
		loaded := must(qinfer.Load(background, load.path, load.options))(t)
		session := must(loaded.NewSession(qinfer.SessionOptions{}))(t)
		check(t, session.AppendText(c.Prompt))
		if text := generated(t, session, c.NewTokens).Text; text != c.Text {
			t.Errorf("%s: generated %q", name, text)
		}
		session.Close()
		loaded.Close()
	}
}

func TestSetTokensKeepsWhatIsCommon(t *testing.T) {
	session := prompted(t, "Once upon a time")
	generated(t, session, 4)
	tokens := must(session.Tokens())(t)
	changed := append(slices.Clone(tokens[:len(tokens)-2]), 5, 6, 7)
	if kept := must(session.SetTokens(changed))(t); kept != len(tokens)-2 {
		t.Errorf("%d of %d tokens were kept", kept, len(tokens))
	}
	if !slices.Equal(must(session.Tokens())(t), changed) || must(session.Pending())(t) < 3 {
		t.Errorf("the tokens are %v", must(session.Tokens())(t))
	}
}

func TestSamplersDrawFromTheirSeed(t *testing.T) {
	texts := map[string]bool{}
	for _, seed := range []uint64{1, 1, 2, 3} {
		session := prompted(t, "Once upon a time")
		check(t, session.SetSampler(qinfer.SamplerOptions{Temperature: 1.5, TopK: 50, Seed: seed}))
		texts[generated(t, session, 20).Text] = true
	}
	if len(texts) != 3 {
		t.Errorf("three seeds drew %d texts", len(texts))
	}
	session := prompted(t, "Once upon a time")
	expectStatus(t, session.SetSampler(qinfer.SamplerOptions{Temperature: -1}), qinfer.ErrInvalidArgument)
}

func TestBiasForcesAToken(t *testing.T) {
	session := evaluated(t, "Once upon a time")
	check(t, session.SetBias(map[qinfer.Token]float32{7: 1e6}))
	if token := must(session.Sample())(t); token != 7 || must(session.Info())(t).Bias != 1 {
		t.Errorf("drew %d", token)
	}
	check(t, session.SetBias(nil))
	if bias := must(session.Info())(t).Bias; bias != 0 {
		t.Errorf("%d entries are left", bias)
	}
}

func TestLogprobsAreThoseOfTheLogits(t *testing.T) {
	session := must(model.NewSession(qinfer.SessionOptions{MaxLogits: 2}))(t)
	defer session.Close()
	check(t, session.AppendText("Once upon a time"))
	check(t, session.Evaluate(background, qinfer.EvaluateOptions{KeepLogits: 2}))
	logits, before := must(session.Logits(0))(t), must(session.Logits(1))(t)
	best := 0
	sum := 0.0
	for at, value := range logits {
		if value > logits[best] {
			best = at
		}
		sum += math.Exp(float64(value))
	}
	top := must(session.TopLogprobs(0, 3))(t)
	want := float64(logits[best]) - math.Log(sum)
	if top[0].Token != qinfer.Token(best) || math.Abs(top[0].Logprob-want) > 1e-6 || top[1].Logprob > top[0].Logprob {
		t.Errorf("the best are %v, want %d at %g", top, best, want)
	}
	own := must(session.Logprobs(0, top[2].Token, top[0].Token))(t)
	if own[0] != top[2].Logprob || own[1] != top[0].Logprob {
		t.Errorf("log probabilities are %v, want %v", own, top)
	}
	if slices.Equal(logits, before) || len(logits) != 1024 {
		t.Error("both rows are the same")
	}
	_, err := session.Logits(5)
	expectStatus(t, err, qinfer.ErrState)
	for _, n := range []int{-1, 1025} {
		_, err = session.TopLogprobs(0, n)
		expectStatus(t, err, qinfer.ErrInvalidArgument)
	}
}

func TestEmbeddingsAreCloseForCloseTexts(t *testing.T) {
	embed := func(text string) []float32 {
		session := must(model.NewSession(qinfer.SessionOptions{Embeddings: true}))(t)
		defer session.Close()
		check(t, session.AppendText(text))
		check(t, session.Evaluate(background, qinfer.EvaluateOptions{}))
		return must(session.Embedding(qinfer.PoolDefault))(t)
	}
	dot := func(a, b []float32) (sum float64) {
		for at := range a {
			sum += float64(a[at]) * float64(b[at])
		}
		return sum
	}
	cat, tree, crash := embed("The cat sat by the house."), embed("The cat sat by the tree."), embed("Crash!")
	if math.Abs(dot(cat, cat)-1) > 1e-5 || dot(cat, tree) <= dot(cat, crash) {
		t.Errorf("%g, %g, %g", dot(cat, cat), dot(cat, tree), dot(cat, crash))
	}
	_, err := evaluated(t, "Once").Embedding(qinfer.PoolDefault)
	expectStatus(t, err, qinfer.ErrState)
}

func TestSessionsTellWhatTheyTake(t *testing.T) {
	session := evaluated(t, "Once upon a time")
	info, n := must(session.Info())(t), must(session.Len())(t)
	if info.Tokens != uint64(n) || info.Evaluated != uint64(n) || info.Logits != 1 || info.MaxLogits != 1 {
		t.Errorf("the session is %+v", info)
	}
	if memory := must(session.Memory())(t); memory.KvPrivate == 0 || memory.Other == 0 {
		t.Errorf("it takes %+v", memory)
	}
	if metrics := must(session.Metrics())(t); metrics.PrefillTokens != uint64(n) || metrics.Evals != 1 {
		t.Errorf("its metrics are %+v", metrics)
	}
}

func TestTextsBecomeVectorsAndScores(t *testing.T) {
	if prompts := must(model.Prompts())(t); len(prompts) != 0 || must(model.DefaultPrompt())(t) != "" {
		t.Errorf("the model has prompts: %v", prompts)
	}
	tokens, cut, err := model.EmbeddingTokens("Once upon a time", qinfer.EmbeddingTextOptions{Truncate: true, MaxTokens: 3})
	if err != nil || len(tokens) != 3 || cut == 0 {
		t.Errorf("got %v, %d cut off, %v", tokens, cut, err)
	}
	_, _, err = model.EmbeddingTokens("Once upon a time", qinfer.EmbeddingTextOptions{MaxTokens: 3})
	expectStatus(t, err, qinfer.ErrContextFull)
	session := must(model.NewSession(qinfer.SessionOptions{Embeddings: true}))(t)
	defer session.Close()
	check(t, session.Append(tokens...))
	check(t, session.Evaluate(background, qinfer.EvaluateOptions{}))
	if values := must(session.EmbeddingWith(qinfer.EmbeddingOptions{Dims: 8}))(t); len(values) != 8 {
		t.Errorf("got %d values", len(values))
	}
	options := qinfer.ScoreOptions{TemplateText: "{query} said: {document}", Yes: "a", No: "b", Raw: true}
	if cut, err = session.SetPair("Tom", "a cat", options); err != nil || cut != 0 {
		t.Errorf("%d cut off, %v", cut, err)
	}
	check(t, session.Evaluate(background, qinfer.EvaluateOptions{}))
	raw := float64(must(session.Score(options))(t))
	options.Raw = false
	if score := float64(must(session.Score(options))(t)); math.Abs(score-1/(1+math.Exp(-raw))) > 1e-6 {
		t.Errorf("the score of %v is %v", raw, score)
	}
	_, err = session.SetPair("Tom", "a cat", qinfer.ScoreOptions{})
	expectStatus(t, err, qinfer.ErrUnsupported)
}
