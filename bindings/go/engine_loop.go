// The goroutine of an engine: steps, and what each has brought. It begins with the first request and ends with the
// last, so an engine without requests has none, and is collected like any handle. It stays on one thread, by which
// callbacks know that they are the engine's.

package qinfer

// #include "trampolines.h"
// #include <stdlib.h>
import "C"

import (
	"runtime"
	"unsafe"
)

// longestWait is in nanoseconds. There is a request where the goroutine waits, but for one that has just ended.
const longestWait = 100_000_000

// run draws until there is no job.
func (e *engineCore) run(over chan struct{}) {
	runtime.LockOSThread()
	C.qgo_set_engine_of_thread(C.uintptr_t(e.id))
	event := (*C.qinfer_event)(C.calloc(1, C.size_t(unsafe.Sizeof(C.qinfer_event{}))))
	failure := newError(StatusState, "a LogitsHook has ended the goroutine of the Engine, which cannot go on")
	defer func() {
		C.free(unsafe.Pointer(event))
		C.qgo_set_engine_of_thread(0)
		runtime.UnlockOSThread()
		if failure != nil {
			e.breakDown(failure) // what a step uses is never freed
		} else {
			e.object.done()
		}
		close(over)
	}()
	for e.hasJobs() {
		if err := e.step(event); err != nil {
			failure = err
			return
		}
	}
	failure = nil
}

// hasJobs, where it is false, leaves the next job to another goroutine.
func (e *engineCore) hasJobs() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running = len(e.jobs) != 0
	return e.running
}

// step takes a step, and all of its events. An error is one after which there can be no other.
func (e *engineCore) step(event *C.qinfer_event) error {
	err := call(func(err *C.qinfer_error) C.qinfer_status {
		var has C.int32_t // it waits where only other sessions can make room
		if status := C.qinfer_scheduler_wait(e.c, longestWait, &has, err); status != C.QINFER_OK {
			return status
		}
		return C.qinfer_scheduler_step(e.c, err)
	})
	if err != nil && !e.fail(err) {
		return err
	}
	for {
		event.struct_size = C.uint32_t(unsafe.Sizeof(*event))
		var number C.uintptr_t
		err := call(func(err *C.qinfer_error) C.qinfer_status {
			return C.qgo_scheduler_next(e.c, event, &number, err)
		})
		if err != nil || event.kind == C.QINFER_EVENT_NONE {
			return err
		}
		e.take(event, uintptr(number))
	}
}

func (e *engineCore) take(event *C.qinfer_event, number uintptr) {
	e.mu.Lock()
	j := e.jobs[number]
	if event.kind == C.QINFER_EVENT_END {
		delete(e.jobs, number)
	}
	e.mu.Unlock()
	switch event.kind {
	case C.QINFER_EVENT_TOKEN:
		j.take(&event.token)
	case C.QINFER_EVENT_END:
		j.end(event.status, C.GoString(event.message))
	}
}

// fail ends all jobs after a step that evaluated nothing. False: they were to end before it already.
func (e *engineCore) fail(err error) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	any := false
	for _, j := range e.jobs {
		any = j.cancel(err) || any
	}
	return any
}

// breakDown ends all jobs where no step can be taken any more. What they borrow stays the engine's for good.
func (e *engineCore) breakDown(failure error) {
	e.mu.Lock()
	if e.refuses == nil {
		e.refuses = failure
	}
	jobs := e.jobs
	e.jobs = nil
	e.running = false
	e.mu.Unlock()
	for _, j := range jobs {
		j.tell(Generated{Text: j.text.String()}, failure)
	}
}
