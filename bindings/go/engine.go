// Engines: many requests drawn together, and what their users see of it. An engine has a goroutine while it has
// requests, which engine_loop.go is about; request.go has what it brings for each.

package qinfer

// #include "trampolines.h"
import "C"

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// EngineOptions are those of [KvCache.NewEngine]; the zero value has the defaults.
type EngineOptions struct {
	MaxRunning uint32        // requests that are evaluated together; 0 = 16
	MaxWaiting uint32        // requests that have not begun; 0 = 256
	Step       time.Duration // what an evaluation should take at most while tokens are drawn; 0 = 100 ms
	// Park is a directory, in which requests are parked, in files without a name, where blocks run out; "": none is, and
	// a request begins when there are blocks for its prompt and all of its tokens.
	Park      string
	ParkBytes uint64 // in these files at most; 0 = as many as needed
}

func (o *EngineOptions) native(t *texts) C.qinfer_scheduler_options {
	if t.err == nil && o.Step < 0 {
		t.err = newError(StatusInvalidArgument, "Step is %v, expected 0 or more", o.Step)
	}
	options := C.qinfer_scheduler_options{
		max_running: C.uint32_t(o.MaxRunning), max_waiting: C.uint32_t(o.MaxWaiting),
		step_ns: C.uint64_t(o.Step.Nanoseconds()), park_path: t.optional("Park", o.Park),
		park_bytes: C.uint64_t(o.ParkBytes),
	}
	options.struct_size = C.uint32_t(unsafe.Sizeof(options))
	return options
}

var lastEngine atomic.Uintptr

// Engine draws the tokens of many requests together, each with the tokens that it has alone. It is for any number of
// goroutines.
type Engine struct {
	object *object // of its scheduler
	core   *engineCore
}

// engineCore is what the copies of an Engine share with its goroutine. Nothing of C that calls back is called under mu.
type engineCore struct {
	c       *C.qinfer_scheduler
	object  *object // the goroutine uses it
	id      uintptr // of this engine alone; its thread and what is lent to it have it
	planned uint64  // memory of the scheduler

	mu      sync.Mutex
	jobs    map[uintptr]*job
	last    uintptr       // number of a job
	running bool          // the goroutine looks for jobs
	over    chan struct{} // closed at the end of the last goroutine; nil: there was none
	refuses error         // why no request is taken any more: closed, or broken
}

// NewEngine makes an engine for sessions of the cache.
func (k *KvCache) NewEngine(o EngineOptions) (*Engine, error) {
	var t texts
	defer t.free()
	options := o.native(&t)
	if t.err != nil {
		return nil, t.err
	}
	core := &engineCore{id: lastEngine.Add(1), jobs: make(map[uintptr]*job)}
	err := call(func(e *C.qinfer_error) C.qinfer_status {
		return C.qinfer_scheduler_create(k.c, &options, &core.c, e)
	}, k.used())
	if err != nil {
		return nil, err
	}
	made := core.c
	core.object = newObject(func() { C.qinfer_scheduler_free(made) })
	var planned C.uint64_t
	err = call(func(e *C.qinfer_error) C.qinfer_status { return C.qinfer_scheduler_plan(&options, &planned, e) })
	if err != nil {
		core.object.close()
		return nil, err
	}
	core.planned = uint64(planned)
	return &Engine{object: core.object, core: core}, nil
}

// used is for the calls that use the handle, which may be nil.
func (e *Engine) used() use {
	if e == nil {
		return use{kind: "Engine", from: "KvCache.NewEngine", isNil: true}
	}
	return use{kind: "Engine", from: "KvCache.NewEngine", object: e.object}
}

// Close ends all requests with an error that is [ErrClosed] and [ErrState], and returns when their sessions are the
// program's again. In a [LogitsHook] that the engine calls it does not wait. It always returns nil.
func (e *Engine) Close() error {
	if e == nil || e.core == nil {
		return nil
	}
	if over := e.core.close(); over != nil && !onThreadOf(e.core.id) {
		<-over
	}
	return nil
}

// close returns what is closed when the goroutine has ended.
func (e *engineCore) close() (over chan struct{}) {
	closed := &Error{Status: StatusState, closed: true, Message: "the Engine was closed before the request had ended"}
	e.mu.Lock()
	if e.refuses == nil {
		e.refuses = &Error{Status: StatusState, closed: true, Message: "the Engine is closed, expected an open Engine"}
	}
	over = e.over
	ending := make([]*job, 0, len(e.jobs))
	for _, j := range e.jobs {
		ending = append(ending, j)
	}
	e.mu.Unlock()
	for _, j := range ending {
		j.cancel(closed)
	}
	e.object.close()
	return over
}

// onThreadOf reports whether this goroutine is in a callback that this engine calls. Waiting for the engine there would
// take for ever.
func onThreadOf(engine uintptr) bool {
	return uintptr(C.qgo_engine_of_thread()) == engine
}

// RequestOptions say how a request shares the engine with others, and what its pieces tell; the zero value has the
// defaults.
type RequestOptions struct {
	Priority    int32         // higher ones begin first
	Key         uint64        // whose it is: keys share alike
	Timeout     time.Duration // after it the request ends with ErrCancelled and context.DeadlineExceeded; 0 = never
	Logprobs    bool          // pieces have log probabilities
	TopLogprobs uint32        // pieces have those of so many most likely tokens, too; at most 64
}

// Submit has the engine draw tokens in a session of its cache, which has its prompt, sampler and hook by then. The
// session, and the Reply of the options, are the engine's until the request has ended: other calls that use them return
// [ErrState]. Those that are closed meanwhile are freed then: close a session after Submit where the program does not
// go on with it, for it keeps its blocks of the cache until it is closed, and other requests wait for them. OnText,
// OnToken and OnPart must be nil; the pieces of the request have all that.
//
// When ctx ends, so does the request, with an error for which errors.Is(err, context.Canceled) or
// context.DeadlineExceeded holds. [ErrNoMemory] where MaxWaiting requests are waiting, [ErrKvFull] for one that the
// cache has never room for.
func (e *Engine) Submit(ctx context.Context, s *Session, o GenerateOptions, r RequestOptions) (*Request, error) {
	engine := e.used()
	if err := engine.acquire(); err != nil {
		return nil, err
	}
	defer e.object.done()
	if err := checkRequest(ctx, &o, &r); err != nil {
		return nil, err
	}
	j := newJob(r)
	if err := j.borrow(e.core.id, s, &o); err != nil {
		return nil, err
	}
	if err := j.begin(s, &o); err != nil {
		j.giveBack()
		return nil, err
	}
	if err := e.core.submit(j); err != nil {
		j.giveBack()
		return nil, err
	}
	j.follow(ctx)
	return &Request{object: newObject(func() { j.cancel(nil) }), job: j}, nil
}

func checkRequest(ctx context.Context, o *GenerateOptions, r *RequestOptions) error {
	switch {
	case ctx == nil:
		return newError(StatusInvalidArgument, "ctx is nil, expected a context such as context.Background()")
	case o.OnText != nil || o.OnToken != nil || o.OnPart != nil:
		return newError(StatusInvalidArgument,
			"OnText, OnToken or OnPart is set, expected nil: Request.Stream gives what they would be told")
	case r.Timeout < 0:
		return newError(StatusInvalidArgument, "Timeout is %v, expected 0 or more", r.Timeout)
	case ctx.Err() != nil:
		err := newError(StatusCancelled, "the context had ended before the request was submitted")
		for _, cause := range causesOf(ctx) {
			err = because(err, StatusCancelled, cause)
		}
		return err
	}
	return o.check()
}

// submit has the goroutine draw a job. Its events wait for mu, and so until the job is complete.
func (e *engineCore) submit(j *job) error {
	options := C.qinfer_request_options{priority: C.int32_t(j.options.Priority), key: C.uint64_t(j.options.Key)}
	options.struct_size = C.uint32_t(unsafe.Sizeof(options))
	if j.options.Timeout != 0 {
		options.deadline_ns = C.qgo_now_ns() + C.uint64_t(j.options.Timeout.Nanoseconds())
	}
	j.deadline = uint64(options.deadline_ns)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.refuses != nil {
		return e.refuses
	}
	number := e.last + 1
	var made *C.qinfer_request
	err := call(func(err *C.qinfer_error) C.qinfer_status {
		return C.qgo_scheduler_submit(e.c, j.generation, &options, C.uintptr_t(number), &made, err)
	})
	if err != nil {
		return err
	}
	e.last = number
	j.request = &object{free: func() { C.qinfer_request_free(made) }}
	j.native = made
	e.jobs[number] = j
	if !e.running {
		e.running, e.over = true, make(chan struct{})
		e.object.acquire() // it is not closed: refuses is set before
		go e.run(e.over)
	}
	return nil
}

// EngineStats are what an engine does now and has done.
type EngineStats struct {
	Waiting, Running int    // requests
	Parked           int    // of the running ones
	PromisedBytes    uint64 // of the cache's blocks, to running requests
	ParkedBytes      uint64 // in files now
	MemoryBytes      uint64 // that the engine takes, of the model's budget

	Submitted, Ended       uint64 // requests
	TimesParked            uint64 // how often a request left for a file
	Steps                  uint64 // that evaluated something
	DecodeRows, PromptRows uint64
	LastStep               time.Duration
}

// Stats tells what the engine does now and has done.
func (e *Engine) Stats() (EngineStats, error) {
	var s C.qinfer_scheduler_stats
	s.struct_size = C.uint32_t(unsafe.Sizeof(s))
	planned := uint64(0)
	err := call(func(err *C.qinfer_error) C.qinfer_status {
		planned = e.core.planned
		return C.qinfer_scheduler_get_stats(e.core.c, &s, err)
	}, e.used())
	runtime.KeepAlive(e)
	return EngineStats{
		Waiting: int(s.waiting), Running: int(s.running), Parked: int(s.parked),
		PromisedBytes: uint64(s.promised_bytes), ParkedBytes: uint64(s.parked_bytes), MemoryBytes: planned,
		Submitted: uint64(s.submitted), Ended: uint64(s.ended), TimesParked: uint64(s.times_parked),
		Steps: uint64(s.steps), DecodeRows: uint64(s.decode_rows), PromptRows: uint64(s.prompt_rows),
		LastStep: time.Duration(s.last_step_ns),
	}, err
}
