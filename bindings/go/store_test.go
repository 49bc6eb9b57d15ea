// Stores: conversations that are kept in a folder go on in other caches, with the same text.

package qinfer_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"qinfer"
)

const (
	plenty   = 1 << 30
	perBlock = 32 // tokens
)

// story are tokens of some blocks.
func story(t *testing.T) []qinfer.Token {
	t.Helper()
	text := strings.Repeat(cases.Prefix.Text, cases.Prefix.Times)
	tokens := must(model.Tokenize(text, qinfer.TokenizeOptions{}))(t)
	if len(tokens) <= 2*perBlock {
		t.Fatalf("the story has %d tokens", len(tokens))
	}
	return tokens
}

// full is how many of n tokens fill blocks.
func full(n int) int { return n / perBlock * perBlock }

func prefixCache(t *testing.T) *qinfer.KvCache {
	t.Helper()
	cache := must(model.NewKvCache(qinfer.KvCacheOptions{Prefix: true, BudgetBlocks: 32}))(t)
	t.Cleanup(func() { cache.Close() })
	return cache
}

func opened(t *testing.T, cache *qinfer.KvCache, folder string) *qinfer.KvStore {
	t.Helper()
	store := must(cache.NewKvStore(folder, plenty))(t)
	t.Cleanup(func() { store.Close() })
	return store
}

// told is a session of the cache that has gone on after the tokens.
func told(t *testing.T, cache *qinfer.KvCache, tokens []qinfer.Token) *qinfer.Session {
	t.Helper()
	session := must(cache.NewSession(qinfer.SessionOptions{}))(t)
	t.Cleanup(func() { session.Close() })
	check(t, session.Append(tokens...))
	generated(t, session, 12)
	return session
}

func TestAConversationGoesOnInAnotherCache(t *testing.T) {
	folder, cache := filepath.Join(t.TempDir(), "kept"), prefixCache(t)
	store, session := opened(t, cache, folder), told(t, cache, story(t))
	tokens := must(session.Tokens())(t)
	kept := must(store.Keep(background, session, ""))(t)
	stats := must(store.Stats())(t)
	if kept != full(len(tokens)-1) || stats.Files != uint64(kept/perBlock) || stats.Written != stats.Files ||
		stats.Bytes == 0 || stats.Read != 0 {
		t.Errorf("kept %d of %d tokens: %+v", kept, len(tokens), stats)
	}
	want := generated(t, session, 12).Text
	check(t, store.Close())

	cache = prefixCache(t)
	store = opened(t, cache, folder)
	for range 2 { // the second time the cache has them
		if found := must(store.Fetch(background, tokens, ""))(t); found != kept {
			t.Errorf("found %d tokens, want %d", found, kept)
		}
	}
	stats.Read, stats.Written = stats.Written, 0
	if now := must(store.Stats())(t); now != stats {
		t.Errorf("the store has %+v, want %+v", now, stats)
	}
	session = must(cache.NewSession(qinfer.SessionOptions{}))(t)
	defer session.Close()
	check(t, session.Append(tokens...))
	done, metrics := generated(t, session, 12), must(session.Metrics())(t)
	if done.Text != want || done.CachedTokens != kept || metrics.CachedTokens != uint64(kept) {
		t.Errorf("went on with %q after %d cached tokens, want %q after %d", done.Text, done.CachedTokens, want, kept)
	}
}

func TestAnEngineGoesOnWithWhatIsFetched(t *testing.T) {
	folder, cache, tokens := t.TempDir(), prefixCache(t), story(t)
	store, session := opened(t, cache, folder), told(t, cache, tokens)
	kept := must(store.Keep(background, session, ""))(t)
	store.Close()
	cache = prefixCache(t)
	store = opened(t, cache, folder)
	must(store.Fetch(background, tokens, ""))(t)
	session = must(cache.NewSession(qinfer.SessionOptions{MaxTokens: 200}))(t)
	defer session.Close()
	check(t, session.Append(tokens...))
	engine := must(cache.NewEngine(qinfer.EngineOptions{}))(t)
	defer engine.Close()
	options := qinfer.GenerateOptions{MaxTokens: 100}
	request := must(engine.Submit(background, session, options, qinfer.RequestOptions{}))(t)
	_, err := store.Keep(background, session, "") // it is the engine's
	if err != nil {
		expectStatus(t, err, qinfer.ErrState)
	}
	if done := must(request.Wait())(t); done.CachedTokens != full(len(tokens)-1) {
		t.Errorf("%d cached tokens", done.CachedTokens)
	}
	if now := must(store.Keep(background, session, ""))(t); now <= kept {
		t.Errorf("kept %d tokens, %d before", now, kept)
	}
}

func TestTenantsFindTheirOwn(t *testing.T) {
	folder, cache, tokens := t.TempDir(), prefixCache(t), story(t)
	store := opened(t, cache, folder)
	must(store.Keep(background, told(t, cache, tokens), "Zoë"))(t)
	store.Close()
	for tenant, want := range map[string]int{"": 0, "Zoe": 0, "Zoë\n": 0, "Zoë": full(len(tokens))} {
		store := opened(t, prefixCache(t), folder)
		if found := must(store.Fetch(background, append(tokens, 1), tenant))(t); found != want {
			t.Errorf("%q finds %d tokens, want %d", tenant, found, want)
		}
		store.Close()
	}
}

func TestWhatWasUsedLongestAgoMakesRoom(t *testing.T) {
	folder, cache, tokens := t.TempDir(), prefixCache(t), story(t)
	store, session := opened(t, cache, folder), told(t, cache, tokens)
	must(store.Keep(background, session, ""))(t)
	stats := must(store.Stats())(t)
	size := stats.Bytes / stats.Files
	store.Close()
	store = must(cache.NewKvStore(folder, size))(t)
	if now := must(store.Stats())(t); now.Files != 1 || now.Removed != stats.Files-1 {
		t.Errorf("the store has %+v", now)
	}
	store.Close()
	for _, entry := range must(os.ReadDir(folder))(t) {
		if info := must(entry.Info())(t); uint64(info.Size()) == size {
			check(t, os.WriteFile(filepath.Join(folder, entry.Name()), []byte("damaged"), 0o600))
		}
	}
	store = opened(t, prefixCache(t), folder)
	if found := must(store.Fetch(background, tokens, ""))(t); found != 0 || must(store.Stats())(t).Damaged != 1 {
		t.Errorf("found %d tokens in %+v", found, must(store.Stats())(t))
	}
}

func TestFoldersAndCachesThatCannotBe(t *testing.T) {
	folder, cache := filepath.Join(t.TempDir(), "kept"), prefixCache(t)
	store := opened(t, cache, folder)
	refused := func(its *qinfer.KvCache, path string, maxBytes uint64, status error, says string) {
		t.Helper()
		store, err := its.NewKvStore(path, maxBytes)
		if failed := expectStatus(t, err, status); store != nil || !strings.Contains(failed.Message, says) {
			t.Errorf("got %v, expected one that says %q", err, says)
		}
	}
	refused(cache, folder, plenty, qinfer.ErrState, "in use")
	check(t, store.Close())
	check(t, opened(t, cache, folder).Close())
	plain := must(model.NewKvCache(qinfer.KvCacheOptions{}))(t)
	defer plain.Close()
	refused(plain, folder, plenty, qinfer.ErrUnsupported, "QINFER_CACHE_PREFIX")
	refused(cache, folder+"/a/b", plenty, qinfer.ErrNotFound, "/a/b")
	refused(cache, folder+"/a/b", plenty, os.ErrNotExist, "/a/b")
	refused(cache, "/dev/null", plenty, qinfer.ErrIO, "/dev/null")
	refused(cache, folder, 0, qinfer.ErrInvalidArgument, "max_bytes")
	refused(cache, "a\x00b", plenty, qinfer.ErrInvalidArgument, "NUL at byte 1")
	check(t, os.WriteFile(filepath.Join(folder, "secret"), []byte("short"), 0o600))
	refused(cache, folder, plenty, qinfer.ErrFormat, "secret")
}

func TestSessionsThatAStoreDoesNotKeep(t *testing.T) {
	folder, cache, other, tokens := t.TempDir(), prefixCache(t), prefixCache(t), story(t)
	store, session := opened(t, cache, filepath.Join(folder, "kept")), told(t, cache, tokens)
	refused := func(status error, f func() (int, error)) *qinfer.Error {
		t.Helper()
		n, err := f()
		if n != 0 {
			t.Errorf("%d tokens", n)
		}
		return expectStatus(t, err, status)
	}
	refused(qinfer.ErrInvalidArgument, func() (int, error) { return store.Keep(background, told(t, other, tokens), "") })
	refused(qinfer.ErrInvalidArgument, func() (int, error) { return store.Keep(background, nil, "") })
	refused(qinfer.ErrInvalidArgument, func() (int, error) { return store.Keep(background, session, "a\x00b") })
	refused(qinfer.ErrInvalidArgument, func() (int, error) { return store.Fetch(background, tokens, "a\x00b") })
	check(t, session.Save(filepath.Join(folder, "snapshot")))
	loaded, _, err := cache.LoadSession(filepath.Join(folder, "snapshot"), qinfer.LoadSessionOptions{})
	check(t, err)
	defer loaded.Close()
	refused(qinfer.ErrUnsupported, func() (int, error) { return store.Keep(background, loaded, "") })
	ended, end := context.WithCancel(background)
	end()
	refused(qinfer.ErrCancelled, func() (int, error) { return store.Keep(ended, session, "") })
	if must(store.Stats())(t).Files != 0 {
		t.Errorf("the store has %+v", must(store.Stats())(t))
	}
	must(store.Keep(background, session, ""))(t)
	store.Close()
	store = opened(t, prefixCache(t), filepath.Join(folder, "kept"))
	refused(context.Canceled, func() (int, error) { return store.Fetch(ended, tokens, "") })
	for _, few := range [][]qinfer.Token{nil, {1}, make([]qinfer.Token, 5000)} {
		if found := must(store.Fetch(background, few, ""))(t); found != 0 {
			t.Errorf("found %d tokens", found)
		}
	}
	if failed := refused(qinfer.ErrInvalidArgument, func() (int, error) {
		return store.Fetch(background, []qinfer.Token{1, 1 << 30}, "")
	}); failed.Detail != 1 {
		t.Errorf("got %v, detail %d", failed, failed.Detail)
	}
	session.Close()
	refused(qinfer.ErrClosed, func() (int, error) { return store.Keep(background, session, "") })
}

func TestAStoreKeepsItsCache(t *testing.T) {
	cache, tokens := prefixCache(t), story(t)
	store, session := opened(t, cache, t.TempDir()), told(t, cache, tokens)
	cache.Close()
	must(store.Keep(background, session, ""))(t)
	session.Close()
	if found := must(store.Fetch(background, tokens, ""))(t); found == 0 {
		t.Error("nothing was found")
	}
}

func TestGoroutinesUseAStoreThatIsClosed(t *testing.T) {
	cache, tokens := prefixCache(t), story(t)
	folder := t.TempDir()
	for turn := range 5 {
		store := opened(t, cache, folder)
		var all sync.WaitGroup
		for at := range 4 {
			session := told(t, cache, tokens[at:])
			all.Add(1)
			go func() {
				defer all.Done()
				defer session.Close()
				for {
					_, keep := store.Keep(background, session, strconv.Itoa(at))
					_, fetch := store.Fetch(background, tokens[at:], strconv.Itoa(at))
					_, stats := store.Stats()
					for _, err := range []error{keep, fetch, stats} {
						if err != nil && !errors.Is(err, qinfer.ErrClosed) {
							t.Error(err)
						}
					}
					if stats != nil {
						return
					}
				}
			}()
		}
		time.Sleep(time.Duration(turn) * 5 * time.Millisecond)
		check(t, store.Close())
		all.Wait()
	}
	opened(t, cache, folder).Close() // nobody has the folder any more
}

func TestAStoreThatIsNotReachableIsClosed(t *testing.T) {
	cache, folder := prefixCache(t), t.TempDir()
	func() { must(cache.NewKvStore(folder, plenty))(t) }()
	for range 100 {
		runtime.GC()
		store, err := cache.NewKvStore(folder, plenty)
		if err == nil {
			store.Close()
			return
		}
		expectStatus(t, err, qinfer.ErrState)
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("the folder stays in use")
}
