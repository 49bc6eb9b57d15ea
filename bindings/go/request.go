// Requests of an engine: the pieces that come for each, until it has ended, and what it borrows meanwhile.

package qinfer

// #include "trampolines.h"
import "C"

import (
	"context"
	"iter"
	"runtime"
	"strings"
	"sync"
	"unsafe"
)

// Piece is what a token has brought.
type Piece struct {
	Token   Token          // NoToken: none; text that was held back comes after the last one
	Text    string         // new, in whole characters; maybe ""
	Logprob float64        // of the token, with RequestOptions.Logprobs or TopLogprobs
	Top     []TokenLogprob // the most likely tokens in descending order, with TopLogprobs
	Parts   []Part         // of the reply, with GenerateOptions.Reply; what is still to come is in Reply.Finish
}

// Request is a generation that an [Engine] draws. One that is no longer reachable is cancelled.
type Request struct {
	object *object
	job    *job
}

// used is for the calls that use the handle, which may be nil.
func (r *Request) used() use {
	if r == nil {
		return use{kind: "Request", from: "Engine.Submit", isNil: true}
	}
	return use{kind: "Request", from: "Engine.Submit", object: r.object}
}

// waits refuses what would wait for ever: nil, and callbacks of the engine.
func (r *Request) waits() error {
	used := r.used()
	if err := used.acquire(); err != nil {
		return err
	}
	r.object.done()
	if onThreadOf(r.job.engine) {
		return newError(StatusState, "a LogitsHook waits for the Engine that calls it, expected another goroutine")
	}
	return nil
}

// Stream gives the pieces that were not given yet, as they come:
//
//	for piece, err := range request.Stream() { ... }
//
// An error comes last, with an empty piece. The engine does not wait for the loop: pieces are kept until they are read.
// Leaving the loop cancels the request, and waits for its end. So after the loop the session is the program's again; it
// has the tokens made so far, and goes on. What a LogitsHook of the session panics with, the loop panics with at the
// end.
func (r *Request) Stream() iter.Seq2[Piece, error] {
	return func(yield func(Piece, error) bool) {
		if err := r.waits(); err != nil {
			yield(Piece{}, err)
			return
		}
		defer runtime.KeepAlive(r.object)
		over := false
		defer func() {
			if !over { // the body left the loop, panicked, or ended its goroutine
				r.job.cancel(nil)
				<-r.job.ended
			}
		}()
		for {
			piece, more := r.job.next()
			if !more {
				break
			}
			if !yield(piece, nil) {
				return
			}
		}
		over = true
		if _, err := r.job.outcome(); err != nil {
			yield(Piece{}, err)
		}
	}
}

// Wait waits for the end, and gives all of the text, how it ended, and what it took. After an error the session has the
// tokens made so far, and the result counts them. It may be called again, and before, after and during Stream.
func (r *Request) Wait() (Generated, error) {
	if err := r.waits(); err != nil {
		return Generated{}, err
	}
	defer runtime.KeepAlive(r.object)
	<-r.job.ended
	return r.job.outcome()
}

// Cancel ends the request soon, with [ErrCancelled], if it has not ended. It does not wait.
func (r *Request) Cancel() {
	if r != nil && r.job != nil {
		r.job.cancel(nil)
		runtime.KeepAlive(r.object)
	}
}

// job is a request as the engine has it. It does not refer to the Request, which is to be collected while it runs.
type job struct {
	options  RequestOptions
	engine   uintptr
	deadline uint64 // 0 = none

	// What it borrows; the engine's goroutine gives it back.
	session, lentReply *object
	reply              *C.qinfer_reply
	hook               *hookState
	generation         *C.qinfer_generation
	request            *object // of native; set before the first event
	native             *C.qinfer_request

	text     strings.Builder // the goroutine's alone
	unread   error           // why parts of the reply could not be read
	ended    chan struct{}   // after which result, err and panicked do not change
	result   Generated
	err      error
	panicked bool // a function of the hook, with value
	value    any

	mu      sync.Mutex
	more    sync.Cond // of mu: there is a piece, or the end
	pieces  []Piece
	over    bool
	asked   bool        // to end
	instead error       // of the library's error after that
	causes  []error     // of that error
	forget  func() bool // ends the watch of the context
}

func newJob(options RequestOptions) *job {
	j := &job{options: options, ended: make(chan struct{})}
	j.more.L = &j.mu
	return j
}

// borrow takes the session and the reply from all other calls.
func (j *job) borrow(engine uintptr, s *Session, o *GenerateOptions) error {
	session := s.used()
	if err := session.lend(engine); err != nil {
		return err
	}
	j.engine, j.session, j.hook = engine, s.object, s.hooked()
	if o.Reply != nil {
		reply := o.Reply.used()
		if err := reply.lend(engine); err != nil {
			j.giveBack()
			return err
		}
		j.lentReply, j.reply = o.Reply.object, o.Reply.c
	}
	if j.hook != nil {
		j.hook.lent.Store(j.session)
	}
	return nil
}

// begin makes the generation.
func (j *job) begin(s *Session, o *GenerateOptions) error {
	var stops stopTexts
	defer stops.copies.free()
	options := o.native(&stops)
	options.n_top = C.uint32_t(j.options.TopLogprobs)
	options.flags = flag(j.options.Logprobs || j.options.TopLogprobs != 0, C.QINFER_GENERATE_LOGPROBS)
	return call(func(e *C.qinfer_error) C.qinfer_status {
		return C.qinfer_generation_create(s.c, &options, &j.generation, e)
	})
}

// giveBack makes the session and the reply the program's again, once no step uses them.
func (j *job) giveBack() {
	C.qinfer_generation_free(j.generation)
	j.generation = nil
	if j.hook != nil {
		j.hook.lent.Store(nil)
	}
	if j.lentReply != nil {
		j.lentReply.takeBack()
	}
	j.session.takeBack()
}

// follow ends the job when the context ends.
func (j *job) follow(ctx context.Context) {
	if ctx.Done() == nil {
		return
	}
	forget := context.AfterFunc(ctx, func() { j.cancel(nil, causesOf(ctx)...) })
	j.mu.Lock()
	over := j.over
	j.forget = forget
	j.mu.Unlock()
	if over {
		forget()
	}
}

// causesOf says why a context has ended.
func causesOf(ctx context.Context) []error {
	causes := []error{ctx.Err()}
	if cause := context.Cause(ctx); cause != causes[0] {
		causes = append(causes, cause)
	}
	return causes
}

// cancel has the engine end the job, from any goroutine. The first call says what its error is, instead of that of the
// library, or which causes that has; it returns true.
func (j *job) cancel(instead error, causes ...error) (first bool) {
	j.mu.Lock()
	first = !j.asked && !j.over
	if first {
		j.asked, j.instead, j.causes = true, instead, causes
	}
	j.mu.Unlock()
	if first && j.request.acquire() {
		C.qinfer_request_cancel(j.native)
		j.request.done()
	}
	return first
}

// put adds a piece.
func (j *job) put(piece Piece) {
	j.mu.Lock()
	j.pieces = append(j.pieces, piece)
	j.mu.Unlock()
	j.more.Broadcast()
}

// next waits for a piece.
func (j *job) next() (piece Piece, more bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for len(j.pieces) == 0 && !j.over {
		j.more.Wait()
	}
	if len(j.pieces) == 0 {
		return Piece{}, false
	}
	piece, j.pieces[0] = j.pieces[0], Piece{}
	j.pieces = j.pieces[1:]
	return piece, true
}

// outcome is what the end was.
func (j *job) outcome() (Generated, error) {
	if j.panicked {
		panic(j.value)
	}
	return j.result, j.err
}

// take puts what a step or the end has brought, if it is something.
func (j *job) take(info *C.qinfer_token_info) {
	piece := Piece{Token: Token(info.token), Text: textAt(info.text, info.text_len)}
	if piece.Token != NoToken {
		piece.Logprob = float64(info.logprob)
		piece.Top = topOf(info)
	}
	if j.reply != nil && j.unread == nil {
		j.unread = call(func(e *C.qinfer_error) (status C.qinfer_status) {
			piece.Parts, status = nextParts(j.reply, e)
			return status
		})
	}
	if j.unread != nil {
		j.cancel(j.unread)
	}
	j.text.WriteString(piece.Text)
	if piece.Token != NoToken || piece.Text != "" || len(piece.Parts) != 0 {
		j.put(piece)
	}
}

func topOf(info *C.qinfer_token_info) []TokenLogprob {
	if info.n_top == 0 {
		return nil
	}
	top := make([]TokenLogprob, info.n_top)
	tokens, values := unsafe.Slice(info.top_tokens, len(top)), unsafe.Slice(info.top_logprobs, len(top))
	for at := range top {
		top[at] = TokenLogprob{Token(tokens[at]), float64(values[at])}
	}
	return top
}

// end is for a job whose last event has come: it gives back what was borrowed, and then tells the readers.
func (j *job) end(status C.qinfer_status, message string) {
	var result C.qinfer_generate_result
	result.struct_size = C.uint32_t(unsafe.Sizeof(result))
	failed := call(func(e *C.qinfer_error) C.qinfer_status {
		return C.qinfer_generation_get_result(j.generation, &result, e)
	})
	if failed == nil {
		failed = j.takeRest()
	}
	err := j.errorOf(status, message)
	if err == nil {
		err = failed
	}
	j.request.close()
	j.giveBack()
	j.tell(generatedOf(&result, j.text.String()), err)
}

// takeRest takes the text that was held back.
func (j *job) takeRest() error {
	var info C.qinfer_token_info
	info.struct_size = C.uint32_t(unsafe.Sizeof(info))
	err := call(func(e *C.qinfer_error) C.qinfer_status { return C.qinfer_generation_finish(j.generation, &info, e) })
	if err == nil {
		j.take(&info)
		err = j.unread
	}
	return err
}

// errorOf is the error of a job that ended with this status.
func (j *job) errorOf(status C.qinfer_status, message string) error {
	if status == C.QINFER_OK {
		return nil
	}
	err := error(&Error{Status: Status(status), Message: message})
	if status != C.QINFER_E_CANCELLED {
		return err
	}
	j.mu.Lock()
	asked, instead, causes := j.asked, j.instead, j.causes
	j.mu.Unlock()
	if j.hook != nil {
		var failed error
		if j.panicked, j.value, failed = j.hook.take(); j.panicked || failed != nil {
			return because(err, StatusCancelled, failed)
		}
	}
	switch {
	case instead != nil:
		return instead
	case !asked && j.deadline != 0 && uint64(C.qgo_now_ns()) >= j.deadline:
		causes = []error{context.DeadlineExceeded}
	}
	for _, cause := range causes {
		err = because(err, StatusCancelled, cause)
	}
	return err
}

// tell wakes the readers at the end.
func (j *job) tell(result Generated, err error) {
	j.result, j.err = result, err
	j.mu.Lock()
	j.over = true
	forget := j.forget
	j.mu.Unlock()
	if forget != nil {
		forget()
	}
	close(j.ended)
	j.more.Broadcast()
}
