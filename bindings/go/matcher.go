// Matchers: where a text stands in a grammar, of a session or for programs that sample themselves.

package qinfer

// #include "grammar_library.h"
import "C"

import (
	"fmt"
	"runtime"
	"sync/atomic"
)

// Matcher says where one text stands in a grammar. A session has one in [Session.SetGrammar]; one that a program makes is
// for sampling without a session, and to go on after a snapshot: Accept of the tokens that were drawn, then
// [Session.SetMatcher].
type Matcher struct {
	object *object
	c      *C.qgo_matcher
	vocab  *vocabulary
	taken  *atomic.Bool // a session has it
}

// newMatcher wraps a matcher that the library made.
func newMatcher(vocab *vocabulary, made *C.qgo_matcher) *Matcher {
	object := newObject(func() { C.qgo_matcher_free(made) })
	return &Matcher{object: object, c: made, vocab: vocab, taken: new(atomic.Bool)}
}

// NewMatcher makes a matcher at the beginning of the grammar.
func (g *Grammar) NewMatcher() (*Matcher, error) {
	var made *C.qgo_matcher
	err := call(func(e *C.qinfer_error) C.qinfer_status { return C.qgo_matcher_create(g.c, &made, e) }, g.used())
	if err != nil {
		return nil, err
	}
	return newMatcher(g.vocab, made), nil
}

// used is for the calls that use the handle, which may be nil.
func (m *Matcher) used() use {
	if m == nil {
		return use{kind: "Matcher", from: "Grammar.NewMatcher or Clone", isNil: true}
	}
	return use{kind: "Matcher", from: "Grammar.NewMatcher or Clone", object: m.object}
}

// Close frees the matcher when no session has it. It always returns nil.
func (m *Matcher) Close() error {
	if m != nil {
		m.object.close()
	}
	return nil
}

// Clone makes a matcher at the same place.
func (m *Matcher) Clone() (*Matcher, error) {
	var made *C.qgo_matcher
	err := call(func(e *C.qinfer_error) C.qinfer_status { return C.qgo_matcher_clone(m.c, &made, e) }, m.used())
	if err != nil {
		return nil, err
	}
	return newMatcher(m.vocab, made), nil
}

// Mask says which tokens may come next: bit t%32 of word t/32 is that of token t. End tokens may come where the text is
// complete.
func (m *Matcher) Mask() ([]uint32, error) {
	return readAll(8192, func(words *uint32, capacity C.size_t, n *C.size_t) error {
		return call(func(e *C.qinfer_error) C.qinfer_status {
			return C.qgo_matcher_mask(m.c, (*C.uint32_t)(words), capacity, n, e)
		}, m.used())
	})
}

// Accept adds tokens, all or none: [ErrInvalidArgument] if one cannot come next, with its index.
func (m *Matcher) Accept(tokens ...Token) error {
	for at, token := range tokens {
		if token < 0 { // in a message of the library it would be a very large number
			return &Error{Status: StatusInvalidArgument, Detail: int64(at),
				Message: fmt.Sprintf("tokens[%d] is %d, expected 0 or more", at, token)}
		}
	}
	return call(func(e *C.qinfer_error) C.qinfer_status {
		return C.qgo_matcher_accept(m.c, tokensOf(tokens), C.size_t(len(tokens)), e)
	}, m.used())
}

// Rewind takes back the last n tokens.
func (m *Matcher) Rewind(n int) error {
	if err := notNegative("n", n); err != nil {
		return err
	}
	return call(func(e *C.qinfer_error) C.qinfer_status {
		return C.qgo_matcher_rewind(m.c, C.size_t(n), e)
	}, m.used())
}

// MatcherInfo says where a matcher stands.
type MatcherInfo struct {
	Accepting bool // the text is complete; it may go on all the same
	Ended     bool // it cannot go on: only an end token may come
	Failed    bool // Err says why
	Tokens    uint64
}

// Info says where the matcher stands.
func (m *Matcher) Info() (MatcherInfo, error) {
	var about C.qgo_matcher_about
	err := call(func(e *C.qinfer_error) C.qinfer_status { return C.qgo_matcher_get_about(m.c, &about, e) }, m.used())
	return MatcherInfo{
		Accepting: about.flags&C.QGO_ACCEPTING != 0, Ended: about.flags&C.QGO_ENDED != 0,
		Failed: about.flags&C.QGO_FAILED != 0, Tokens: uint64(about.n_tokens),
	}, err
}

// Err is nil, or the failure that ended the matcher's work: [ErrUnsupported] where a limit was reached or no token goes
// on.
func (m *Matcher) Err() error {
	return call(func(e *C.qinfer_error) C.qinfer_status { return C.qgo_matcher_error(m.c, e) }, m.used())
}

// SetMatcher makes what is drawn from now on go on where the matcher stands, as [Session.SetGrammar] does from the
// beginning; nil: no grammar, and no LogitsHook. The matcher must be of a grammar of the session's model, and no other
// session's. It may be closed at once.
func (s *Session) SetMatcher(m *Matcher) error {
	if m == nil {
		return s.SetLogitsHook(nil)
	}
	var refused error
	err := call(func(e *C.qinfer_error) C.qinfer_status {
		if refused = m.takenBy(s); refused != nil {
			return C.QINFER_OK
		}
		status := C.qgo_matcher_install(m.c, s.c, e)
		if status == C.QINFER_OK {
			s.hook.Store(m.asHook())
		} else {
			m.taken.Store(false)
		}
		return status
	}, s.used(), m.used())
	if refused != nil {
		return refused
	}
	return err
}

// takenBy takes the matcher for a session, or says why it cannot. The caller uses both.
func (m *Matcher) takenBy(s *Session) error {
	if m.vocab != s.cache.model.vocab {
		return newError(StatusInvalidArgument, "the grammar is of another Model, expected one of the session's Model")
	}
	if !m.taken.CompareAndSwap(false, true) {
		return newError(StatusState, "the Matcher is a session's already, expected another one: Clone gives one")
	}
	return nil
}

// asHook is what a session keeps of its matcher, for the reasons of failures. The caller uses the matcher.
func (m *Matcher) asHook() *hookState {
	m.object.acquire() // for as long as a session has it, also where the program closes it
	kept := *m
	state := &hookState{matcher: &kept}
	runtime.SetFinalizer(state, func(state *hookState) { state.matcher.object.done() })
	return state
}

// take is that of caught. Of a hook that is a grammar's it gives what ended that.
func (h *hookState) take() (panicked bool, value any, err error) {
	if h.matcher == nil {
		return h.caught.take()
	}
	return false, nil, call(func(e *C.qinfer_error) C.qinfer_status { return C.qgo_matcher_error(h.matcher.c, e) })
}

// forkMatcher gives a fork its matcher, where the session has one. The library has given it one already, whose failures
// could not be told.
func (h *hookState) forkMatcher(fork *Session) error {
	if h == nil || h.matcher == nil {
		return nil
	}
	var made *C.qgo_matcher
	err := call(func(e *C.qinfer_error) C.qinfer_status { return C.qgo_matcher_clone(h.matcher.c, &made, e) })
	if err != nil {
		return err
	}
	m := newMatcher(h.matcher.vocab, made)
	defer m.Close()
	return fork.SetMatcher(m)
}
