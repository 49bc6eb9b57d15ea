// What callbacks panic with, or return as an error, on its way around the frames of C; and callbacks for progress and
// tokens.

package qinfer

// #include "trampolines.h"
import "C"

import (
	"runtime/cgo"
	"strings"
	"sync"
	"unsafe"
)

// caught keeps how a callback failed until the call that made it is over. Its lock is for calls that use one session at
// once, which the library refuses.
type caught struct {
	mu       sync.Mutex
	panicked bool
	value    any
	err      error
}

// run calls a callback and reports whether the call goes on. After a panic no callback of the call is run any more.
func (c *caught) run(callback func() error) bool {
	if c.over() {
		return false
	}
	err := c.protect(callback)
	if err != nil {
		c.mu.Lock()
		c.err = err
		c.mu.Unlock()
	}
	return err == nil
}

// over reports whether a callback panicked.
func (c *caught) over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.panicked
}

func (c *caught) protect(callback func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			c.mu.Lock()
			c.panicked, c.value = true, value
			c.mu.Unlock()
			err = ErrCancelled
		}
	}()
	return callback()
}

// take returns what was kept and forgets it.
func (c *caught) take() (panicked bool, value any, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	panicked, value, err = c.panicked, c.value, c.err
	c.panicked, c.value, c.err = false, nil, nil
	return panicked, value, err
}

// finish is for the end of a call: it panics as a callback did, or adds the error of one to that of the call. Before a
// panic it calls discard, if there is one, to free what the call made.
func (c *caught) finish(err error, status Status, discard func()) error {
	panicked, value, cause := c.take()
	if panicked {
		if discard != nil && err == nil {
			discard()
		}
		panic(value)
	}
	return because(err, status, cause)
}

// progressCall is the user pointer of a call that reports progress.
type progressCall struct {
	caught
	report func(done, total uint64) error
}

//export qgoProgress
func qgoProgress(user C.uintptr_t, done, total C.uint64_t) C.int32_t {
	call := cgo.Handle(user).Value().(*progressCall)
	return stopUnless(call.run(func() error { return call.report(uint64(done), uint64(total)) }))
}

// generation is the user pointer of qinfer_generate.
type generation struct {
	caught
	options *GenerateOptions
	hook    *hookState      // of the session; nil: none
	reply   *C.qinfer_reply // of the options, which the call has meanwhile; nil: none
	watcher *watcher
	text    strings.Builder
	stopped bool
	unread  error // why parts of the reply could not be read
}

// giveParts gives OnPart what is certain with the new token, until it wants no more.
func (g *generation) giveParts() {
	for going := true; going; {
		var part Part
		var there bool
		g.unread = call(func(e *C.qinfer_error) (status C.qinfer_status) {
			part, there, status = nextPart(g.reply, e)
			return status
		})
		if g.unread == nil && !there {
			return
		}
		going = g.unread == nil && g.options.OnPart(part)
	}
	g.stopped = true
}

//export qgoToken
func qgoToken(user C.uintptr_t, text *C.char, n C.size_t, token C.qinfer_token) C.int32_t {
	g := cgo.Handle(user).Value().(*generation)
	if g.hook != nil && g.hook.over() {
		return stopUnless(false)
	}
	going := g.run(func() error {
		piece := ""
		if n != 0 {
			start := g.text.Len()
			g.text.Write(unsafe.Slice((*byte)(unsafe.Pointer(text)), n))
			piece = g.text.String()[start:]
		}
		g.stopped = g.options.OnToken != nil && !g.options.OnToken(Token(token), piece)
		if piece != "" && g.options.OnText != nil {
			g.stopped = !g.options.OnText(piece) || g.stopped
		}
		if g.options.OnPart != nil {
			g.giveParts()
		}
		return nil
	})
	g.watcher.look()
	return stopUnless(going && !g.stopped)
}

func stopUnless(going bool) C.int32_t {
	if going {
		return 0
	}
	return 1
}
