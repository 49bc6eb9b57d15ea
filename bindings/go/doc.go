// Package qinfer runs language models on CPUs, inside the process: a binding of the C library of the same name, which
// pkg-config finds.
//
//	model, err := qinfer.Load(ctx, "models/some-checkpoint", qinfer.LoadOptions{})
//	session, err := model.NewSession(qinfer.SessionOptions{})
//	err = session.AppendText("Once upon a time")
//	for text, err := range session.Stream(ctx, qinfer.GenerateOptions{MaxTokens: 50}) { ... }
//
// # Handles
//
// [Runtime], [Model], [KvCache], [KvStore], [Session], [Detokenizer], [Reply], [Grammar], [Matcher] and [Engine] hold
// memory of the library until Close. They may be closed in any order and more than once; afterwards their methods return
// [ErrClosed]. Close does not wait, but for [Engine.Close]: while another goroutine is in a call, the memory lives until
// that call ends. A handle that is no longer reachable is freed by a finalizer, at some later time. A copy of such a
// struct is the same handle. The methods of a nil pointer and of a zero value return an error.
//
// # Goroutines
//
// Runtimes, models, grammars, matchers, caches, stores, engines and requests are for any number of goroutines. A session,
// a detokenizer and a reply are for one goroutine at a time: a second call at once returns [ErrState], for a session where
// both change it.
//
// An [Engine] draws the tokens of many sessions as one batch. A session that was submitted is the engine's until its
// [Request] has ended: other calls that use it return [ErrState].
//
// # Contexts
//
// Calls that may take long have a context. When it ends they return an [*Error] with [StatusCancelled], for which
// errors.Is(err, context.Canceled) or errors.Is(err, context.DeadlineExceeded) holds, too.
//
// # Callbacks
//
// Callbacks run on the goroutine that makes the call, inside it, and may use only those methods that change nothing.
// One that panics ends the call, which then panics with the same value. One that ends its goroutine (runtime.Goexit,
// which t.FailNow calls) leaves its session in the call for good: it returns [ErrState] and is never freed. The body
// of a loop over [Session.Stream], [Chat.Stream] or [Request.Stream] is no callback and may do all that.
//
// The goroutine of an [Engine] calls the hooks of its sessions, so one that waits holds up all requests, and one that
// ends its goroutine ends them. What a hook panics with, Stream and Wait of its [Request] panic with.
package qinfer
