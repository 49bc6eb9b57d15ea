// What every call of the library needs: handles that stay valid during it, room for its error, texts for C.

package qinfer

// #include "trampolines.h"
// #include <stdlib.h>
import "C"

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"unsafe"
)

// handle counts the calls that use an object of the library, so that it is not freed while one does.
type handle struct {
	mu     sync.Mutex
	kind   string
	free   func() // nil in the zero value, which counts as closed
	users  int
	closed bool
}

func (h *handle) open(kind string, free func()) {
	h.kind, h.free = kind, free
}

// acquire keeps the object until done.
func (h *handle) acquire() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || h.free == nil {
		return fmt.Errorf("%w: a %s", ErrClosed, h.kind)
	}
	h.users++
	return nil
}

func (h *handle) done() {
	h.mu.Lock()
	h.users--
	last := h.closed && h.users == 0
	h.mu.Unlock()
	if last {
		h.free()
	}
}

// close frees the object now, or when the last call that uses it ends.
func (h *handle) close() {
	h.mu.Lock()
	last := !h.closed && h.free != nil && h.users == 0
	h.closed = true
	h.mu.Unlock()
	if last {
		h.free()
	}
}

// failures are rooms for errors that no call uses: as many as there ever were calls at once.
var failures struct {
	mu   sync.Mutex
	free []*C.qgo_failure
}

func takeFailure() *C.qgo_failure {
	failures.mu.Lock()
	defer failures.mu.Unlock()
	if last := len(failures.free) - 1; last >= 0 {
		room := failures.free[last]
		failures.free = failures.free[:last]
		return room
	}
	return C.qgo_failure_new()
}

func giveFailure(room *C.qgo_failure) {
	failures.mu.Lock()
	defer failures.mu.Unlock()
	failures.free = append(failures.free, room)
}

func errorOf(status C.qinfer_status, room *C.qgo_failure) error {
	if status == C.QINFER_OK {
		return nil
	}
	return &Error{Status: Status(status), Message: C.GoString(&room.text[0]), Detail: int64(room.full.error.detail)}
}

// call makes a call that uses handles; nil ones are left out. Panics of callbacks do not come this far. The handles are
// let go of without defer: where a callback ended the goroutine, C has not returned and must keep what it uses.
func call(f func(err *C.qinfer_error) C.qinfer_status, used ...*handle) error {
	for at, h := range used {
		if h == nil {
			continue
		}
		if err := h.acquire(); err != nil {
			doneAll(used[:at])
			return err
		}
	}
	room := takeFailure()
	if room == nil {
		doneAll(used)
		return newError(StatusNoMemory, "no room for an error")
	}
	err := errorOf(f(room.arg), room)
	giveFailure(room)
	doneAll(used)
	return err
}

func doneAll(used []*handle) {
	for _, h := range used {
		if h != nil {
			h.done()
		}
	}
}

// texts are NUL-terminated copies of Go's strings in memory of C, until free.
type texts struct {
	copies []unsafe.Pointer
	err    error // of the first string that cannot be one
}

func (t *texts) free() {
	for _, text := range t.copies {
		C.free(text)
	}
}

// add copies a string. One with a NUL inside would be another text in C.
func (t *texts) add(what, text string) *C.char {
	if at := strings.IndexByte(text, 0); at >= 0 {
		if t.err == nil {
			t.err = newError(StatusInvalidArgument, "%s %q has a NUL at byte %d", what, text, at)
		}
		return nil
	}
	return t.counted(text)
}

// counted copies a string that goes with its length, and may hold NUL.
func (t *texts) counted(text string) *C.char {
	copied := C.CString(text)
	t.copies = append(t.copies, unsafe.Pointer(copied))
	return copied
}

// room is memory of n bytes, all 0.
func (t *texts) room(n int) unsafe.Pointer {
	room := C.calloc(1, C.size_t(n))
	t.copies = append(t.copies, room)
	return room
}

// optional is NULL for "".
func (t *texts) optional(what, text string) *C.char {
	if text == "" {
		return nil
	}
	return t.add(what, text)
}

// chars is the text in Go's own memory, for (text, len) arguments. It is never NULL, so "" is a text, too.
func chars(text string) *C.char {
	if text == "" {
		return (*C.char)(unsafe.Pointer(&noText))
	}
	return (*C.char)(unsafe.Pointer(unsafe.StringData(text)))
}

var noText byte

// tokensOf is the memory of tokens for C; NULL where there are none.
func tokensOf(tokens []Token) *C.qinfer_token {
	return (*C.qinfer_token)(unsafe.SliceData(tokens))
}

// readTokens returns what a function writes to (tokens, capacity, out_n).
func readTokens(room int, f func(tokens *C.qinfer_token, capacity C.size_t, n *C.size_t) error) ([]Token, error) {
	return readAll(room, func(tokens *Token, capacity C.size_t, n *C.size_t) error {
		return f((*C.qinfer_token)(tokens), capacity, n)
	})
}

// readText returns what a function writes to (text, capacity, out_n).
func readText(room int, f func(text *C.char, capacity C.size_t, n *C.size_t) error) (string, error) {
	text, err := readAll(room, func(text *byte, capacity C.size_t, n *C.size_t) error {
		return f((*C.char)(unsafe.Pointer(text)), capacity, n)
	})
	return string(text), err
}

// readAll calls f with room for that many elements, and again with as much as is needed.
func readAll[T any](room int, f func(values *T, capacity C.size_t, n *C.size_t) error) ([]T, error) {
	return readRoom(room, func(values []T) (uint64, error) {
		var n C.size_t
		err := f(unsafe.SliceData(values), C.size_t(len(values)), &n)
		return uint64(n), err
	})
}

// mostElements are more than any call gives.
const mostElements = 1 << 40

// readRoom is readAll without C: read returns how many elements there are.
func readRoom[T any](room int, read func(values []T) (uint64, error)) ([]T, error) {
	for {
		values := make([]T, room)
		n, err := read(values)
		switch {
		case err == nil && n > uint64(room):
			return nil, newError(StatusInternal, "%d elements were written to room for %d", n, room)
		case err == nil:
			return values[:n], nil
		case !errors.Is(err, ErrBufferTooSmall) || n <= uint64(room):
			return nil, err // also of a size that fits, which would be asked for again and again
		case n > mostElements:
			return nil, newError(StatusNoMemory, "there is no room for %d elements", n)
		}
		room = int(n)
	}
}

func flag(on bool, bits C.uint32_t) C.uint32_t {
	if on {
		return bits
	}
	return 0
}
