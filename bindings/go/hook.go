// Logits hooks: code of the program between the logits and the sampler.

package qinfer

// #include "trampolines.h"
import "C"

import (
	"errors"
	"runtime/cgo"
	"sync/atomic"
	"unsafe"
)

// LogitsHook is code between the logits and the sampler of a session, which Sample and Generate call. Every member may
// be nil. An error from any of them ends the call with [ErrCancelled], and errors.Is finds it in what the call
// returns.
type LogitsHook struct {
	// Apply changes a copy of the logits, one for each token of the vocabulary, before bias, penalties and filters. Minus
	// infinity: the token is not drawn. The slice is valid during the call.
	Apply func(logits []float32) error
	// Accept is called once for each token that was drawn. After an error the token is not added.
	Accept func(token Token) error
	// Rewind is called before Truncate or SetTokens takes back the last n of the accepted tokens. After an error they
	// stay.
	Rewind func(n int) error
	// Clone makes the hook of a fork, on any goroutine that forks the session; nil: that fork has none. Without Clone
	// no fork has a hook.
	Clone func() (*LogitsHook, error)
}

// hookState is the user pointer of a hook.
type hookState struct {
	caught
	LogitsHook
	matcher *Matcher               // of a grammar, whose hook is the library's; nil: the functions are the program's
	lent    atomic.Pointer[object] // its session while an engine has that: the functions of the hook may read it
}

// attempt runs a function of the hook and reports whether the call goes on.
func (h *hookState) attempt(function func() error) bool {
	if session := h.lent.Load(); session != nil {
		session.setInHook(true)
		defer session.setInHook(false)
	}
	return h.run(function)
}

// forkCall is given to the callback that clones a hook.
type forkCall struct {
	caught
	made *hookState
	none bool // Clone gave no hook
}

//export qgoHookApply
func qgoHookApply(user C.uintptr_t, logits *C.float, n C.uint32_t) C.int32_t {
	hook := cgo.Handle(user).Value().(*hookState)
	return stopUnless(hook.Apply == nil || hook.attempt(func() error {
		return hook.Apply(unsafe.Slice((*float32)(logits), n))
	}))
}

//export qgoHookAccept
func qgoHookAccept(user C.uintptr_t, token C.qinfer_token) C.int32_t {
	hook := cgo.Handle(user).Value().(*hookState)
	return stopUnless(hook.Accept == nil || hook.attempt(func() error { return hook.Accept(Token(token)) }))
}

//export qgoHookRewind
func qgoHookRewind(user C.uintptr_t, n C.size_t) C.int32_t {
	hook := cgo.Handle(user).Value().(*hookState)
	return stopUnless(hook.Rewind == nil || hook.attempt(func() error { return hook.Rewind(int(n)) }))
}

//export qgoHookClone
func qgoHookClone(user, fork C.uintptr_t) C.uintptr_t {
	hook := cgo.Handle(user).Value().(*hookState)
	call := cgo.Handle(fork).Value().(*forkCall)
	call.made, call.none = &hookState{}, true
	going := hook.Clone == nil || call.run(func() error {
		clone, err := hook.Clone()
		if clone != nil {
			call.made.LogitsHook = *clone
		}
		call.none = clone == nil
		return err
	})
	if !going {
		return 0
	}
	return C.uintptr_t(cgo.NewHandle(call.made))
}

//export qgoHookRelease
func qgoHookRelease(user C.uintptr_t) {
	cgo.Handle(user).Delete()
}

// SetLogitsHook replaces the session's hook; nil: it has none from now on. The session holds the hook, and all that its
// functions refer to, until then or until it is closed: a session that its own hook refers to must be closed.
func (s *Session) SetLogitsHook(hook *LogitsHook) error {
	var state *hookState
	var user cgo.Handle
	clones := C.int(0)
	if hook != nil {
		state = &hookState{LogitsHook: *hook}
		user = cgo.NewHandle(state)
		if hook.Clone != nil {
			clones = 1
		}
	}
	err := call(func(e *C.qinfer_error) C.qinfer_status {
		return C.qgo_set_logits_hook(s.c, C.uintptr_t(user), clones, e)
	}, s.used())
	if err == nil {
		s.hook.Store(state)
	} else if hook != nil {
		user.Delete()
	}
	return err
}

// hooked is the session's hook, or nil.
func (s *Session) hooked() *hookState {
	if s == nil || s.hook == nil {
		return nil
	}
	return s.hook.Load()
}

// finishHook ends a call in which the session's hook may have failed.
func (s *Session) finishHook(err error) error {
	if hook := s.hooked(); hook != nil && errors.Is(err, ErrCancelled) {
		var ofHook caught
		ofHook.panicked, ofHook.value, ofHook.err = hook.take()
		return ofHook.finish(err, StatusCancelled, nil)
	}
	return err // without the failure of the hook, if a callback made this call: it is of the call around it
}
