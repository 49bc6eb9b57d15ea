// Iterators over what callbacks give.

package qinfer

import "runtime"

// turns are the two sides of an iterator: the work on a separate goroutine, and the loop.
type turns[T any] struct {
	pieces   chan T
	wanted   chan bool // answers each piece
	failed   error
	panicked any
	returned bool
}

// takeTurns runs work on a separate goroutine and yields here what it emits: one of the two runs at a time, and emit
// returns false once nothing more is wanted. So a loop's body is never inside a call of C. There it could not end its
// goroutine (runtime.Goexit, which t.FailNow calls), and iter.Pull would end the process, since a coroutine cannot
// switch while its thread is in C.
func takeTurns[T any](work func(emit func(T) bool) error, yield func(T, error) bool) {
	t := &turns[T]{pieces: make(chan T), wanted: make(chan bool)}
	go t.run(work)
	over := false
	defer func() {
		if !over { // the body left the loop, panicked, or ended its goroutine
			t.leave()
		}
	}()
	for piece := range t.pieces {
		if !yield(piece, nil) {
			return
		}
		t.wanted <- true
	}
	over = true
	switch {
	case t.panicked != nil:
		panic(t.panicked)
	case !t.returned: // a callback ended the other goroutine
		runtime.Goexit()
	case t.failed != nil:
		var none T
		yield(none, t.failed)
	}
}

func (t *turns[T]) run(work func(emit func(T) bool) error) {
	defer close(t.pieces)
	defer func() {
		if !t.returned {
			t.panicked = recover()
		}
	}()
	t.failed = work(func(piece T) bool {
		t.pieces <- piece
		return <-t.wanted
	})
	t.returned = true
}

// leave ends the work, and waits for that: the session is free afterwards.
func (t *turns[T]) leave() {
	t.wanted <- false
	for range t.pieces {
		t.wanted <- false
	}
}
