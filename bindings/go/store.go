// Stores: keys and values in a folder, for conversations that go on later.

package qinfer

// #include "trampolines.h"
import "C"

import (
	"context"
	"fmt"
	"unsafe"
)

// KvStore is a folder with blocks of keys and values, so that a conversation that goes on later, in another process
// too, is not evaluated again. Blocks are found by their tokens and all tokens before them; conversations that begin
// alike share the files of their beginning. It is for any number of goroutines.
type KvStore struct {
	object *object
	c      *C.qinfer_kv_store
	vocab  int // tokens of the model's vocabulary
}

// NewKvStore opens a folder, made for its owner alone where there is none, for a cache with
// [KvCacheOptions].Prefix, which the store keeps. maxBytes is of its files: those used longest ago are removed for
// others. [ErrState] while another store has the folder, of this process or another.
func (k *KvCache) NewKvStore(path string, maxBytes uint64) (*KvStore, error) {
	var t texts
	defer t.free()
	options := C.qinfer_kv_store_options{path: t.add("the path", path), max_bytes: C.uint64_t(maxBytes)}
	options.struct_size = C.uint32_t(unsafe.Sizeof(options))
	if t.err != nil {
		return nil, t.err
	}
	var made *C.qinfer_kv_store
	err := call(func(e *C.qinfer_error) C.qinfer_status {
		return C.qinfer_kv_store_open(k.c, &options, &made, e)
	}, k.used())
	if err != nil {
		return nil, err
	}
	return &KvStore{object: newObject(func() { C.qinfer_kv_store_free(made) }), c: made, vocab: k.vocab}, nil
}

// used is for the calls that use the handle, which may be nil.
func (s *KvStore) used() use {
	if s == nil {
		return use{kind: "KvStore", from: "KvCache.NewKvStore", isNil: true}
	}
	return use{kind: "KvStore", from: "KvCache.NewKvStore", object: s.object}
}

// Close lets go of the folder, or the last call that uses the store does. It always returns nil.
func (s *KvStore) Close() error {
	if s != nil {
		s.object.close()
	}
	return nil
}

// Keep writes the full blocks of a session of the cache that are not in the folder, best when its conversation rests.
// It returns how many of the session's tokens are there now, from the first on. Only the same tenant, which may be "",
// finds them. A session of [KvCache.LoadSession] is [ErrUnsupported]. What was written before the context ended stays.
func (s *KvStore) Keep(ctx context.Context, session *Session, tenant string) (kept int, err error) {
	var n C.size_t
	err = withTenant(ctx, tenant, func(tenant *C.char, cancel *C.qinfer_cancel) error {
		return call(func(e *C.qinfer_error) C.qinfer_status {
			return C.qinfer_kv_store_keep(s.c, session.c, tenant, cancel, &n, e)
		}, s.used(), session.used())
	})
	return int(n), err
}

// Fetch puts what is known of the tokens into the cache, where evaluations find it: before a session of them is
// evaluated or submitted. It returns how many of the tokens the cache knows now, from the first on and never the last;
// fewer where it has no room or a file is damaged.
func (s *KvStore) Fetch(ctx context.Context, tokens []Token, tenant string) (found int, err error) {
	if err := s.known(tokens); err != nil {
		return 0, err
	}
	var n C.size_t
	err = withTenant(ctx, tenant, func(tenant *C.char, cancel *C.qinfer_cancel) error {
		return call(func(e *C.qinfer_error) C.qinfer_status {
			return C.qinfer_kv_store_fetch(s.c, tokensOf(tokens), C.size_t(len(tokens)), tenant, cancel, &n, e)
		}, s.used())
	})
	return int(n), err
}

// known is an error for a token that no session could hold: the library would look for it in vain.
func (s *KvStore) known(tokens []Token) error {
	if s == nil || s.object == nil { // which the call refuses
		return nil
	}
	for at, token := range tokens {
		if token < 0 || int(token) >= s.vocab {
			return &Error{Status: StatusInvalidArgument, Detail: int64(at),
				Message: fmt.Sprintf("token %d at index %d is not in the vocabulary of %d", token, at, s.vocab)}
		}
	}
	return nil
}

// withTenant makes a call with the name in C, and a cancel that the context requests.
func withTenant(ctx context.Context, tenant string, f func(tenant *C.char, cancel *C.qinfer_cancel) error) error {
	var t texts
	defer t.free()
	name := t.optional("the tenant", tenant)
	if t.err != nil {
		return t.err
	}
	w, err := watch(ctx)
	if err != nil {
		return err
	}
	defer w.release()
	return w.because(f(name, w.c))
}

// KvStoreStats counts the files of a store.
type KvStoreStats struct {
	Files, Bytes  uint64 // there now
	Written, Read uint64 // files, since it was opened
	Removed       uint64 // of these used longest ago, for others
	Damaged       uint64 // files that were removed, and are evaluated again
}

// Stats counts the files now.
func (s *KvStore) Stats() (KvStoreStats, error) {
	var stats C.qinfer_kv_store_stats
	stats.struct_size = C.uint32_t(unsafe.Sizeof(stats))
	err := call(func(e *C.qinfer_error) C.qinfer_status {
		return C.qinfer_kv_store_get_stats(s.c, &stats, e)
	}, s.used())
	return KvStoreStats{
		Files: uint64(stats.n_files), Bytes: uint64(stats.bytes),
		Written: uint64(stats.written), Read: uint64(stats.read),
		Removed: uint64(stats.removed), Damaged: uint64(stats.damaged),
	}, err
}
