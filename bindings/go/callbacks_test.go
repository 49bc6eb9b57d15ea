// Callbacks that panic, fail, or end their goroutine, of every kind that there is.

package qinfer_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"qinfer"
)

var (
	errOwn   = errors.New("an error of the test")
	ownPanic = &struct{ text string }{"a value of the test"}
)

// hooks are hooks of which one function fails.
func hooks(fail func() error) map[string]*qinfer.LogitsHook {
	return map[string]*qinfer.LogitsHook{
		"apply":  {Apply: func([]float32) error { return fail() }},
		"accept": {Accept: func(qinfer.Token) error { return fail() }},
	}
}

func failing() error { return errOwn }

func panicking() error { panic(ownPanic) }

func TestPanicsOfTokenCallbacksComeOutOfGenerate(t *testing.T) {
	for name, options := range map[string]qinfer.GenerateOptions{
		"OnText":  {OnText: func(string) bool { panic(ownPanic) }},
		"OnToken": {OnToken: func(qinfer.Token, string) bool { panic(ownPanic) }},
	} {
		session := prompted(t, "Once upon a time")
		before := must(session.Len())(t)
		if value := panicOf(func() { session.Generate(background, options) }); value != ownPanic {
			t.Errorf("%s: panicked with %v", name, value)
		}
		if made := must(session.Len())(t) - before; made != 1 {
			t.Errorf("%s: went on for %d tokens", name, made)
		}
		if done := generated(t, session, 3); done.NewTokens != 3 {
			t.Errorf("%s: the session went on with %+v", name, done)
		}
	}
}

func TestPanicsOfHooksComeOutOfTheCall(t *testing.T) {
	for name, hook := range hooks(panicking) {
		session := evaluated(t, "Once upon a time")
		check(t, session.SetLogitsHook(hook))
		for call, f := range map[string]func(){
			"sample":   func() { session.Sample() },
			"generate": func() { session.Generate(background, qinfer.GenerateOptions{MaxTokens: 3}) },
			"stream": func() {
				for range session.Stream(background, qinfer.GenerateOptions{MaxTokens: 3}) {
				}
			},
		} {
			if value := panicOf(f); value != ownPanic {
				t.Errorf("%s: %s panicked with %v", name, call, value)
			}
		}
		check(t, session.SetLogitsHook(nil))
		if done := generated(t, session, 3); done.NewTokens != 3 {
			t.Errorf("%s: the session went on with %+v", name, done)
		}
	}
}

func TestErrorsOfHooksAreInTheErrorOfTheCall(t *testing.T) {
	for name, hook := range hooks(failing) {
		session := evaluated(t, "Once upon a time")
		before := must(session.Len())(t)
		check(t, session.SetLogitsHook(hook))
		_, sampling := session.Sample()
		_, generating := session.Generate(background, qinfer.GenerateOptions{MaxTokens: 3})
		for _, err := range []error{sampling, generating} {
			if expectStatus(t, err, qinfer.ErrCancelled); !errors.Is(err, errOwn) {
				t.Errorf("%s: got %v", name, err)
			}
		}
		if n := must(session.Len())(t); n != before {
			t.Errorf("%s: %d tokens were added", name, n-before)
		}
	}
}

func TestRewindIsToldAndMayRefuse(t *testing.T) {
	session := prompted(t, "Once upon a time")
	var taken []int
	refuse := func() error { return nil }
	check(t, session.SetLogitsHook(&qinfer.LogitsHook{
		Rewind: func(n int) error { taken = append(taken, n); return refuse() },
	}))
	generated(t, session, 5)
	n := must(session.Len())(t)
	check(t, session.Truncate(n-2))
	if !slices.Equal(taken, []int{2}) {
		t.Errorf("took back %v", taken)
	}
	refuse = failing
	if err := session.Truncate(n - 3); !errors.Is(err, qinfer.ErrCancelled) || !errors.Is(err, errOwn) {
		t.Errorf("got %v", err)
	}
	refuse = panicking
	if value := panicOf(func() { session.Truncate(n - 3) }); value != ownPanic {
		t.Errorf("Truncate panicked with %v", value)
	}
	if value := panicOf(func() { session.SetTokens(nil) }); value != ownPanic {
		t.Errorf("SetTokens panicked with %v", value)
	}
	if left := must(session.Len())(t); left != n-2 {
		t.Errorf("%d tokens are left of %d", left, n-2)
	}
}

func TestForksHaveTheHookThatCloneMakes(t *testing.T) {
	session := evaluated(t, "Once upon a time")
	makeClone := func() (*qinfer.LogitsHook, error) { return nil, nil }
	check(t, session.SetLogitsHook(&qinfer.LogitsHook{
		Clone: func() (*qinfer.LogitsHook, error) { return makeClone() },
	}))
	fork := must(session.Fork())(t)
	defer fork.Close()
	generated(t, fork, 1)

	accepted := 0
	makeClone = func() (*qinfer.LogitsHook, error) {
		return &qinfer.LogitsHook{Accept: func(qinfer.Token) error { accepted++; return nil }}, nil
	}
	hooked := must(session.Fork())(t)
	defer hooked.Close()
	generated(t, hooked, 3)
	generated(t, session, 2)
	if accepted != 3 {
		t.Errorf("the clone saw %d tokens", accepted)
	}

	makeClone = func() (*qinfer.LogitsHook, error) { return nil, errOwn }
	if _, err := session.Fork(); !errors.Is(err, qinfer.ErrCancelled) || !errors.Is(err, errOwn) {
		t.Errorf("got %v", err)
	}
	makeClone = func() (*qinfer.LogitsHook, error) { panic(ownPanic) }
	if value := panicOf(func() { session.Fork() }); value != ownPanic {
		t.Errorf("Fork panicked with %v", value)
	}

	check(t, session.SetLogitsHook(&qinfer.LogitsHook{Apply: func([]float32) error { return errOwn }}))
	bare := must(session.Fork())(t)
	defer bare.Close()
	if must(bare.Info())(t).HasLogitsHook || !must(session.Info())(t).HasLogitsHook {
		t.Error("a hook without Clone is in the fork, or not in the session")
	}
}

func TestProgressIsReportedAndMayEndTheLoading(t *testing.T) {
	path := filepath.Join(root, cases.Model)
	var last, total uint64
	options := qinfer.LoadOptions{Runtime: runtimeOfTests, Progress: func(done, all uint64) error {
		last, total = done, all
		return nil
	}}
	must(qinfer.Load(background, path, options))(t).Close()
	if last == 0 || last != total {
		t.Errorf("progress ended at %d of %d", last, total)
	}
	options.Progress = func(uint64, uint64) error { return errOwn }
	_, err := qinfer.Load(background, path, options)
	if expectStatus(t, err, qinfer.ErrCancelled); !errors.Is(err, errOwn) {
		t.Errorf("got %v", err)
	}
	options.Progress = func(uint64, uint64) error { panic(ownPanic) }
	if value := panicOf(func() { qinfer.Load(background, path, options) }); value != ownPanic {
		t.Errorf("Load panicked with %v", value)
	}
}

// faultyFiles are files in memory of which one function fails.
type faultyFiles struct {
	*memoryFiles
	at   string
	fail func() error
}

type faultyFile struct {
	*memoryFile
	of *faultyFiles
}

func (f *faultyFiles) failAt(name string) error {
	if name == f.at {
		return f.fail()
	}
	return nil
}

func (f *faultyFiles) Open(name string, write bool) (qinfer.File, error) {
	if err := f.failAt("open"); err != nil {
		return nil, err
	}
	file, err := f.memoryFiles.Open(name, write)
	if err != nil {
		return nil, err
	}
	return &faultyFile{file.(*memoryFile), f}, nil
}

func (f *faultyFile) Size() (int64, error) {
	n, _ := f.memoryFile.Size()
	return n, f.of.failAt("size")
}

func (f *faultyFile) ReadAt(data []byte, offset int64) (int, error) {
	if err := f.of.failAt("read"); err != nil {
		return 0, err
	}
	return f.memoryFile.ReadAt(data, offset)
}

func (f *faultyFile) WriteAt(data []byte, offset int64) (int, error) {
	if err := f.of.failAt("write"); err != nil {
		return 0, err
	}
	return f.memoryFile.WriteAt(data, offset)
}

func (f *faultyFile) Sync() error { return f.of.failAt("sync") }

func (f *faultyFile) Close() error {
	f.memoryFile.Close()
	return f.of.failAt("close")
}

func TestFilesMayFailAndPanic(t *testing.T) {
	session := evaluated(t, "Once upon a time")
	cache := must(model.NewKvCache(qinfer.KvCacheOptions{}))(t)
	store := &faultyFiles{memoryFiles: newMemoryFiles()}
	check(t, session.SaveTo(store, "saved"))
	load := func() error {
		loaded, _, err := cache.LoadSession("saved", qinfer.LoadSessionOptions{Files: store})
		if err == nil {
			loaded.Close()
		}
		return err
	}
	save := func() error { return session.SaveTo(store, "new") }
	for _, one := range []struct {
		at   string
		call func() error
	}{
		{"open", load}, {"size", load}, {"read", load},
		{"open", save}, {"size", save}, {"write", save}, {"sync", save}, {"close", save},
	} {
		store.at, store.fail = one.at, failing
		if err := one.call(); !errors.Is(err, qinfer.ErrIO) || !errors.Is(err, errOwn) {
			t.Errorf("%s: got %v", one.at, err)
		}
		delete(store.files, "new")
		store.fail = panicking
		if value := panicOf(func() { one.call() }); value != ownPanic {
			t.Errorf("%s: panicked with %v", one.at, value)
		}
		delete(store.files, "new")
		if store.open != 0 {
			t.Errorf("%s: %d files are open", one.at, store.open)
		}
	}
	store.at = "close" // of a file that was only read: an error does not count, a panic does
	if value := panicOf(func() { load() }); value != ownPanic || store.open != 0 {
		t.Errorf("panicked with %v, %d files are open", value, store.open)
	}
	store.fail = failing
	check(t, load())
}

func TestFilesMissingFullAndReadOnly(t *testing.T) {
	session := evaluated(t, "Once upon a time")
	cache := must(model.NewKvCache(qinfer.KvCacheOptions{}))(t)
	_, _, err := cache.LoadSession("nowhere", qinfer.LoadSessionOptions{Files: newMemoryFiles()})
	if expectStatus(t, err, qinfer.ErrNotFound); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	full := &faultyFiles{newMemoryFiles(), "write", func() error {
		return &qinfer.Error{Status: qinfer.StatusNoMemory, Message: "the store is full"}
	}}
	err = session.SaveTo(full, "name")
	if expectStatus(t, err, qinfer.ErrNoMemory); !strings.Contains(err.Error(), "the store is full") {
		t.Errorf("got %v", err)
	}
	expectStatus(t, session.SaveTo(readOnlyFiles{newMemoryFiles()}, "name"), qinfer.ErrUnsupported)
}

// readOnlyFiles give files that cannot be written to.
type readOnlyFiles struct{ *memoryFiles }

func (r readOnlyFiles) Open(name string, write bool) (qinfer.File, error) {
	file, err := r.memoryFiles.Open(name, write)
	return struct{ qinfer.File }{file}, err
}

func TestCallbacksEndAGeneration(t *testing.T) {
	var pieces []string
	done := must(prompted(t, "Once upon a time").Generate(background, qinfer.GenerateOptions{
		MaxTokens: 50,
		OnText:    func(text string) bool { pieces = append(pieces, text); return len(pieces) < 3 },
	}))(t)
	if done.Finish != qinfer.FinishCallback || len(pieces) != 3 || done.Text != strings.Join(pieces, "") {
		t.Errorf("got %+v, %q", done, pieces)
	}
}

func TestCallbacksMayReadTheSessionButNotChangeIt(t *testing.T) {
	session := prompted(t, "Once upon a time")
	var lengths []int
	var changed error
	_, err := session.Generate(background, qinfer.GenerateOptions{MaxTokens: 2, OnText: func(string) bool {
		n, err := session.Len()
		lengths, changed = append(lengths, n), errors.Join(err, session.Append(1))
		return true
	}})
	check(t, err)
	if len(lengths) != 2 || lengths[1] != lengths[0]+1 || !errors.Is(changed, qinfer.ErrState) {
		t.Errorf("lengths %v, %v", lengths, changed)
	}
}

func TestLogitsOfAHookAreACopy(t *testing.T) {
	session := evaluated(t, "Once upon a time")
	before := must(session.Logits(0))(t)
	check(t, session.SetLogitsHook(&qinfer.LogitsHook{Apply: func(logits []float32) error {
		if !slices.Equal(logits, before) {
			t.Error("the hook does not see the logits")
		}
		for at := range logits {
			logits[at] = float32(math.Inf(-1))
		}
		logits[7] = 0
		return nil
	}}))
	if token := must(session.Sample())(t); token != 7 {
		t.Errorf("drew %d", token)
	}
	if !slices.Equal(must(session.Logits(0))(t), before) {
		t.Error("the hook changed the logits of the session")
	}
}

func TestACallbackThatEndsItsGoroutineLeavesOnlyItsSessionBusy(t *testing.T) {
	session := must(model.NewSession(qinfer.SessionOptions{}))(t)
	check(t, session.AppendText("Once upon a time"))
	ended := make(chan bool)
	go func() {
		defer close(ended)
		session.Generate(background, qinfer.GenerateOptions{OnText: func(string) bool {
			runtime.Goexit()
			return true
		}})
	}()
	<-ended
	expectStatus(t, session.Append(1), qinfer.ErrState)
	session.Close() // frees nothing: C has not returned
	if _, err := session.Len(); !errors.Is(err, qinfer.ErrClosed) {
		t.Errorf("got %v", err)
	}
	if text := generated(t, prompted(t, cases.Greedy[0].Prompt), 16).Text; text != cases.Greedy[0].Text {
		t.Errorf("another session generated %q", text)
	}
}

func TestTextThatWasHeldBackComesWithoutAToken(t *testing.T) {
	session := prompted(t, "Once upon a time")
	var tokens []qinfer.Token
	text := ""
	result := must(session.Generate(background, qinfer.GenerateOptions{
		MaxTokens: 3, Stop: []string{" was zzzz"},
		OnToken: func(token qinfer.Token, piece string) bool {
			tokens, text = append(tokens, token), text+piece
			return true
		},
	}))(t)
	all := must(session.Tokens())(t)
	if want := append(slices.Clone(all[len(all)-3:]), qinfer.NoToken); !slices.Equal(tokens, want) || text != result.Text {
		t.Errorf("got the tokens %v, want %v; the text %q", tokens, want, text)
	}
}

func TestAHookThatFailsIsOfItsOwnCallAlone(t *testing.T) {
	session := evaluated(t, "Once upon a time")
	fail := panicking
	check(t, session.SetLogitsHook(&qinfer.LogitsHook{Apply: func([]float32) error { return fail() }}))
	texts := 0
	options := qinfer.GenerateOptions{MaxTokens: 3, OnText: func(string) bool { texts++; panic("a text came") }}
	if value := panicOf(func() { session.Generate(background, options) }); value != ownPanic || texts != 0 {
		t.Errorf("panicked with %v, %d texts came", value, texts)
	}
	fail = func() error { return nil }
	if done := generated(t, session, 3); done.NewTokens != 3 {
		t.Errorf("the session went on with %+v", done)
	}
	calls := 0
	fail = func() error { // the second time, with text held back that OnText gets then
		if calls++; calls == 3 {
			return errOwn
		}
		return nil
	}
	held := qinfer.GenerateOptions{MaxTokens: 9, Stop: []string{" a", " the", "."}, OnText: func(string) bool { panic("a text came") }}
	panicOf(func() { session.Generate(background, held) })
	fail = func() error { return nil }
	cancelled, cancel := context.WithCancel(background)
	cancel()
	if _, err := session.Generate(cancelled, qinfer.GenerateOptions{MaxTokens: 3}); errors.Is(err, errOwn) {
		t.Errorf("got %v of an earlier call", err)
	}
}

func TestACloneMayGiveNoHook(t *testing.T) {
	session := evaluated(t, "Once upon a time")
	check(t, session.SetLogitsHook(&qinfer.LogitsHook{Clone: func() (*qinfer.LogitsHook, error) { return nil, nil }}))
	fork := must(session.Fork())(t)
	defer fork.Close()
	if must(fork.Info())(t).HasLogitsHook || !must(session.Info())(t).HasLogitsHook {
		t.Error("the fork has a hook, or the session none")
	}
}

func TestForksOfForksHaveNoHookWithoutClone(t *testing.T) {
	session := evaluated(t, "Once upon a time")
	check(t, session.SetLogitsHook(&qinfer.LogitsHook{Clone: func() (*qinfer.LogitsHook, error) {
		return &qinfer.LogitsHook{}, nil
	}}))
	fork := must(session.Fork())(t)
	defer fork.Close()
	second := must(fork.Fork())(t)
	defer second.Close()
	if !must(fork.Info())(t).HasLogitsHook || must(second.Info())(t).HasLogitsHook {
		t.Error("the fork has no hook, or its fork one")
	}
}

func TestACallThatIsRefusedLeavesTheFailureOfTheHook(t *testing.T) {
	session := evaluated(t, "Once upon a time")
	drawn := 0
	check(t, session.SetLogitsHook(&qinfer.LogitsHook{Apply: func([]float32) error {
		if drawn++; drawn == 2 {
			return errOwn
		}
		return nil
	}}))
	_, err := session.Generate(background, qinfer.GenerateOptions{MaxTokens: 3, Stop: []string{", zzzz"}, OnText: func(string) bool {
		_, refused := session.Sample()
		expectStatus(t, refused, qinfer.ErrState)
		return true
	}})
	if !errors.Is(err, errOwn) {
		t.Errorf("got %v", err)
	}
}

// noFiles open nothing, and say that they did.
type noFiles struct{}

func (noFiles) Open(string, bool) (qinfer.File, error) { return nil, nil }

func TestFilesThatAreNilAreAnError(t *testing.T) {
	session := evaluated(t, "Once upon a time")
	err := session.SaveTo(noFiles{}, "saved")
	if expectStatus(t, err, qinfer.ErrInvalidArgument); !strings.Contains(err.Error(), "no file and no error") {
		t.Errorf("got %v", err)
	}
}

func TestTheFirstErrorOfAFileCounts(t *testing.T) {
	session := evaluated(t, "Once upon a time")
	cache := must(model.NewKvCache(qinfer.KvCacheOptions{}))(t)
	store := &faultyFiles{memoryFiles: newMemoryFiles()}
	check(t, session.SaveTo(store, "saved"))
	errClose := errors.New("the file does not close")
	at := ""
	store.fail = func() error { return map[string]error{"read": errOwn, "close": errClose}[at] }
	_, _, err := cache.LoadSession("saved", qinfer.LoadSessionOptions{Files: twoFaults{store, &at}})
	if !errors.Is(err, errOwn) || errors.Is(err, errClose) {
		t.Errorf("got %v", err)
	}
}

// twoFaults are files whose reading and closing fail.
type twoFaults struct {
	*faultyFiles
	at *string
}

func (f twoFaults) Open(name string, write bool) (qinfer.File, error) {
	file, err := f.faultyFiles.Open(name, write)
	if err != nil {
		return nil, err
	}
	return twoFaultsFile{file, f}, nil
}

type twoFaultsFile struct {
	qinfer.File
	of twoFaults
}

func (f twoFaultsFile) ReadAt([]byte, int64) (int, error) {
	*f.of.at = "read"
	return 0, f.of.fail()
}

func (f twoFaultsFile) Close() error {
	f.File.Close()
	*f.of.at = "close"
	return f.of.fail()
}
