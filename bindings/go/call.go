// What every call of the library needs: handles that stay valid during it, room for its error, texts for C.

package qinfer

// #include "trampolines.h"
// #include <stdlib.h>
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"unsafe"
)

// object counts the calls that use an object of the library, so that it is not freed while one does. The copies of a
// handle share it.
type object struct {
	mu     sync.Mutex
	free   func()
	users  int
	closed bool
	alone  bool    // one call at a time: two would break the object, and the library does not notice them
	lentTo uintptr // the engine that has the object (see engine.go), or 0
	inHook bool    // that engine's thread is in a callback that may read the object
}

// newObject is closed at the latest when nothing refers to it any more.
func newObject(free func()) *object {
	o := &object{free: free}
	runtime.SetFinalizer(o, (*object).close)
	return o
}

// acquire keeps the object until done, and reports whether it could: not after close, nor where another call uses an
// object that is for one, nor where an engine has it.
func (o *object) acquire() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || o.alone && o.users != 0 || o.lentTo != 0 && !(o.inHook && onThreadOf(o.lentTo)) {
		return false
	}
	o.users++
	return true
}

// lend keeps the object for an engine, and from all other calls, until takeBack. It reports whether it could: not while
// a call uses it.
func (o *object) lend(engine uintptr) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || o.users != 0 {
		return false
	}
	o.users++
	o.lentTo = engine
	return true
}

func (o *object) takeBack() {
	o.mu.Lock()
	o.lentTo = 0
	o.mu.Unlock()
	o.done()
}

func (o *object) isLent() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lentTo != 0
}

// setInHook says whether a callback runs that may read an object which is lent.
func (o *object) setInHook(in bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.inHook = in
}

func (o *object) isClosed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.closed
}

func (o *object) done() {
	o.mu.Lock()
	o.users--
	last := o.closed && o.users == 0
	o.mu.Unlock()
	if last {
		o.free()
	}
}

// close frees the object now, or when the last call that uses it ends. There is none in the zero value of a handle.
func (o *object) close() {
	if o == nil {
		return
	}
	o.mu.Lock()
	last := !o.closed && o.users == 0
	o.closed = true
	o.mu.Unlock()
	if last {
		o.free()
	}
}

// use is a handle that a call uses.
type use struct {
	kind, from string  // its type, and what makes one
	isNil      bool    // it is a nil pointer
	object     *object // nil in the zero value, too
	place      int     // of the handle in a list of sessions, from 1; 0 = it is in none
}

func (u *use) acquire() error {
	if u.object != nil && u.object.acquire() {
		return nil
	}
	return u.refused()
}

// lend is acquire for an engine.
func (u *use) lend(engine uintptr) error {
	if u.object != nil && u.object.lend(engine) {
		return nil
	}
	return u.refused()
}

// refused says why the handle cannot be used.
func (u *use) refused() error {
	what, detail := "the "+u.kind, int64(0)
	if u.place != 0 {
		what, detail = fmt.Sprintf("sessions[%d]", u.place-1), int64(u.place-1)
	}
	switch {
	case u.isNil:
		return &Error{Status: StatusInvalidArgument, Detail: detail,
			Message: fmt.Sprintf("%s is nil, expected a %s of %s", what, u.kind, u.from)}
	case u.object == nil:
		return &Error{Status: StatusInvalidArgument, Detail: detail, closed: true,
			Message: fmt.Sprintf("%s is a zero value, expected a %s of %s", what, u.kind, u.from)}
	}
	if u.object.isClosed() {
		return &Error{Status: StatusState, Detail: detail, closed: true,
			Message: fmt.Sprintf("%s is closed, expected an open %s", what, u.kind)}
	}
	if u.object.isLent() {
		return &Error{Status: StatusState, Detail: detail,
			Message: fmt.Sprintf("%s is the Engine's, expected one whose Request has ended", what)}
	}
	return newError(StatusState, "%s is in another call, expected one that no other goroutine uses", what)
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

// call makes a call that uses handles. Panics of callbacks do not come this far. The handles are let go of without
// defer: where a callback ended the goroutine, C has not returned and must keep what it uses.
func call(f func(err *C.qinfer_error) C.qinfer_status, used ...use) error {
	for at := range used {
		if err := used[at].acquire(); err != nil {
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

func doneAll(used []use) {
	for at := range used {
		used[at].object.done()
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

// textAt copies a text of the library.
func textAt(text *C.char, n C.size_t) string {
	return string(unsafe.Slice((*byte)(unsafe.Pointer(text)), n))
}

// notNegative is an error that names an argument which is below 0: for C it would be a very large number.
func notNegative(what string, value int) error {
	if value >= 0 {
		return nil
	}
	return newError(StatusInvalidArgument, "%s is %d, expected 0 or more", what, value)
}

func flag(on bool, bits C.uint32_t) C.uint32_t {
	if on {
		return bits
	}
	return 0
}
