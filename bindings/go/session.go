// Sessions: their tokens, forks and snapshots.

package qinfer

// #include "trampolines.h"
import "C"

import (
	"runtime/cgo"
	"sync/atomic"
	"unsafe"
)

// SessionOptions are those of a new session; the zero value has the defaults.
type SessionOptions struct {
	MaxTokens  uint32 // 0 = the model's context
	MaxLogits  uint32 // rows kept for Logits; 0 = 1
	MaxDraft   uint32 // tokens that are guessed ahead, at most 16: repeated text is faster, and the same
	Embeddings bool   // keep hidden states for Embedding
}

func (o *SessionOptions) native() C.qinfer_session_options {
	options := C.qinfer_session_options{
		flags:      flag(o.Embeddings, C.QINFER_SESSION_EMBEDDINGS),
		max_tokens: C.uint32_t(o.MaxTokens), max_logits: C.uint32_t(o.MaxLogits), max_draft: C.uint32_t(o.MaxDraft),
	}
	options.struct_size = C.uint32_t(unsafe.Sizeof(options))
	return options
}

// Session is a list of tokens, a prefix of which is evaluated while the rest is pending, and its sampler. It is for one
// goroutine at a time.
type Session struct {
	object *object
	c      *C.qinfer_session
	cache  *KvCache
	hook   *atomic.Pointer[hookState] // of all copies of the handle
}

// newSession wraps a session that the library made.
func newSession(cache *KvCache, made *C.qinfer_session) *Session {
	object := newObject(func() { C.qinfer_session_free(made) })
	return &Session{object: object, c: made, cache: cache, hook: new(atomic.Pointer[hookState])}
}

// NewSession makes a session with its own cache.
func (m *Model) NewSession(o SessionOptions) (*Session, error) {
	cache, err := m.NewKvCache(KvCacheOptions{})
	if err != nil {
		return nil, err
	}
	defer cache.Close()
	return cache.NewSession(o)
}

// NewSession makes a session.
func (k *KvCache) NewSession(o SessionOptions) (*Session, error) {
	options := o.native()
	var made *C.qinfer_session
	err := call(func(e *C.qinfer_error) C.qinfer_status {
		return C.qinfer_session_create(k.c, &options, &made, e)
	}, k.used())
	if err != nil {
		return nil, err
	}
	return newSession(k, made), nil
}

// Close frees the session. It always returns nil.
func (s *Session) Close() error {
	if s != nil {
		s.object.close()
	}
	return nil
}

// used is for the calls that use the handle, which may be nil.
func (s *Session) used() use {
	if s == nil {
		return use{kind: "Session", from: "NewSession, Fork or LoadSession", isNil: true}
	}
	return use{kind: "Session", from: "NewSession, Fork or LoadSession", object: s.object}
}

// vocab is 0 in nil and the zero value, which no call takes.
func (s *Session) vocab() int {
	if s == nil || s.cache == nil {
		return 0
	}
	return s.cache.vocab
}

// Append adds pending tokens, and computes nothing.
func (s *Session) Append(tokens ...Token) error {
	return call(func(e *C.qinfer_error) C.qinfer_status {
		return C.qinfer_session_append(s.c, tokensOf(tokens), C.size_t(len(tokens)), e)
	}, s.used())
}

// AppendText adds the tokens of a text, in an empty session with those that the tokenizer puts around it. The model
// must not be closed.
func (s *Session) AppendText(text string) error {
	n, err := s.Len()
	if err != nil {
		return err
	}
	tokens, err := s.cache.model.Tokenize(text, TokenizeOptions{Plain: n != 0})
	if err != nil {
		return err
	}
	return s.Append(tokens...)
}

// SetTokens makes these the session's tokens. What they have in common with those that it holds stays as it is, and the
// rest is pending: the next turn of a chat is the whole conversation. It returns how many tokens stayed.
func (s *Session) SetTokens(tokens []Token) (kept int, err error) {
	var n C.size_t
	err = call(func(e *C.qinfer_error) C.qinfer_status {
		return C.qinfer_session_set_tokens(s.c, tokensOf(tokens), C.size_t(len(tokens)), &n, e)
	}, s.used())
	return int(n), s.finishHook(err)
}

// Tokens are all tokens of the session.
func (s *Session) Tokens() ([]Token, error) {
	return readTokens(256, func(tokens *C.qinfer_token, capacity C.size_t, n *C.size_t) error {
		return call(func(e *C.qinfer_error) C.qinfer_status {
			return C.qinfer_session_get_tokens(s.c, tokens, capacity, n, e)
		}, s.used())
	})
}

// Len counts the tokens, evaluated and pending.
func (s *Session) Len() (n int, err error) {
	err = call(func(*C.qinfer_error) C.qinfer_status {
		n = int(C.qinfer_session_length(s.c))
		return C.QINFER_OK
	}, s.used())
	return n, err
}

// Pending counts the tokens that are not evaluated; with 0 there are logits.
func (s *Session) Pending() (n int, err error) {
	err = call(func(*C.qinfer_error) C.qinfer_status {
		n = int(C.qinfer_session_pending(s.c))
		return C.QINFER_OK
	}, s.used())
	return n, err
}

// Truncate keeps the first n tokens. If that drops evaluated ones, the last that is kept is pending again.
func (s *Session) Truncate(n int) error {
	if err := notNegative("n", n); err != nil {
		return err
	}
	err := call(func(e *C.qinfer_error) C.qinfer_status {
		return C.qinfer_session_truncate(s.c, C.size_t(n), e)
	}, s.used())
	return s.finishHook(err)
}

// Fork makes a copy that shares memory until one side writes. Its hook is what the Clone of the hook makes; a grammar it
// has at the same place.
func (s *Session) Fork() (*Session, error) {
	fork := &forkCall{}
	user := cgo.NewHandle(fork)
	defer user.Delete()
	var made *C.qinfer_session
	err := call(func(e *C.qinfer_error) C.qinfer_status {
		return C.qgo_session_fork(s.c, C.uintptr_t(user), &made, e)
	}, s.used())
	err = fork.finish(err, StatusCancelled, func() { C.qinfer_session_free(made) })
	if err != nil {
		return nil, err
	}
	copied := newSession(s.cache, made)
	copied.hook.Store(fork.made)
	if fork.none {
		return copied, copied.SetLogitsHook(nil)
	}
	if err = s.hooked().forkMatcher(copied); err != nil {
		copied.Close()
		return nil, err
	}
	return copied, nil
}

// Save writes tokens, keys, values and sampler to a file. To one that holds the beginning of the session only what is
// new is written. A crash leaves the old state or the new one.
func (s *Session) Save(path string) error {
	return s.SaveTo(nil, path)
}

// SaveTo saves to a file of the program; files nil: of the operating system.
func (s *Session) SaveTo(files Files, name string) error {
	var t texts
	defer t.free()
	to := t.add("the path", name)
	if t.err != nil {
		return t.err
	}
	return withFiles(files, func(user C.uintptr_t) error {
		return call(func(e *C.qinfer_error) C.qinfer_status {
			return C.qgo_session_save(s.c, to, user, e)
		}, s.used())
	}, nil)
}

// LoadSessionOptions are those of [KvCache.LoadSession].
type LoadSessionOptions struct {
	Files      Files // where the path is; nil = the operating system's files
	AnyBits    bool  // go on from keys and values that other options computed, too
	NoRecovery bool  // ErrFormat instead of a state that may not be the last one
}

// Snapshot tells what LoadSession found.
type Snapshot struct {
	Tokens, EvaluatedTokens uint64 // as they were saved
	Recovered               bool   // the last state is damaged: this may be the one before
	OtherBits               bool   // another kernel set or other options computed the keys and values
}

// LoadSession goes on from a snapshot. Its last token is pending.
func (k *KvCache) LoadSession(path string, o LoadSessionOptions) (*Session, Snapshot, error) {
	var t texts
	defer t.free()
	from := t.add("the path", path)
	if t.err != nil {
		return nil, Snapshot{}, t.err
	}
	flags := flag(o.AnyBits, C.QINFER_SNAPSHOT_ANY_BITS) | flag(o.NoRecovery, C.QINFER_SNAPSHOT_NO_RECOVERY)
	var made *C.qinfer_session
	var found C.qinfer_session_load_result
	found.struct_size = C.uint32_t(unsafe.Sizeof(found))
	err := withFiles(o.Files, func(user C.uintptr_t) error {
		return call(func(e *C.qinfer_error) C.qinfer_status {
			return C.qgo_session_load(k.c, from, flags, user, &made, &found, e)
		}, k.used())
	}, func() { C.qinfer_session_free(made) })
	if err != nil {
		return nil, Snapshot{}, err
	}
	return newSession(k, made), Snapshot{
		Tokens: uint64(found.tokens), EvaluatedTokens: uint64(found.evaluated_tokens),
		Recovered: found.flags&C.QINFER_SNAPSHOT_RECOVERED != 0,
		OtherBits: found.flags&C.QINFER_SNAPSHOT_OTHER_BITS != 0,
	}, nil
}

// SessionInfo describes a session.
type SessionInfo struct {
	MaxTokens, MaxLogits int
	MaxDraft             int // tokens that are guessed ahead
	Embeddings           bool
	Tokens, Evaluated    uint64
	Logits               int // rows that there are now
	Bias                 int // entries of SetBias
	HasLogitsHook        bool
}

// Info describes the session.
func (s *Session) Info() (SessionInfo, error) {
	var i C.qinfer_session_info
	i.struct_size = C.uint32_t(unsafe.Sizeof(i))
	err := call(func(e *C.qinfer_error) C.qinfer_status { return C.qinfer_session_get_info(s.c, &i, e) }, s.used())
	return SessionInfo{
		MaxTokens: int(i.max_tokens), MaxLogits: int(i.max_logits),
		Embeddings: i.flags&C.QINFER_SESSION_EMBEDDINGS != 0,
		Tokens:     uint64(i.n_tokens), Evaluated: uint64(i.n_evaluated),
		Logits: int(i.n_logits), Bias: int(i.n_bias), MaxDraft: int(i.max_draft), HasLogitsHook: i.has_logits_hook != 0,
	}, err
}

// SessionMemory is what a session takes, in bytes.
type SessionMemory struct {
	KvPrivate, KvShared uint64 // blocks of the cache; shared: others hold them too
	KvReserved          uint64 // address space of a contiguous cache
	Other               uint64
}

// Memory is what the session takes now.
func (s *Session) Memory() (SessionMemory, error) {
	var m C.qinfer_session_memory
	m.struct_size = C.uint32_t(unsafe.Sizeof(m))
	err := call(func(e *C.qinfer_error) C.qinfer_status { return C.qinfer_session_get_memory(s.c, &m, e) }, s.used())
	return SessionMemory{
		KvPrivate: uint64(m.kv_private), KvShared: uint64(m.kv_shared), KvReserved: uint64(m.kv_reserved),
		Other: uint64(m.other),
	}, err
}

// Metrics are the session's totals.
func (s *Session) Metrics() (Metrics, error) {
	var m C.qinfer_metrics
	m.struct_size = C.uint32_t(unsafe.Sizeof(m))
	err := call(func(e *C.qinfer_error) C.qinfer_status { return C.qinfer_session_get_metrics(s.c, &m, e) }, s.used())
	return metricsOf(&m), err
}
