// Generating: prompts evaluated and tokens drawn, in one call.

package qinfer

// #include "trampolines.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"runtime/cgo"
	"time"
	"unicode/utf8"
	"unsafe"
)

// GenerateOptions are those of [Session.Generate]; the zero value has the defaults.
type GenerateOptions struct {
	MaxTokens uint32   // new tokens; 0 = until an end token or the context is full
	Stop      []string // texts of 1 to 4096 bytes; the output ends before the first that appears
	// OnText is called with new text, in whole characters; text that may begin a stop text is held back. OnToken is
	// called for each token, with the text that it completes, which may be ""; text that was held back comes at the end,
	// with NoToken. False from either ends the generation.
	OnText  func(text string) bool
	OnToken func(token Token, text string) bool

	// Reply is the reply that these tokens are, or nil: it is given each of them, and no other call may use it meanwhile.
	// While it is in its reasoning, the session's LogitsHook rests: what the hook enforces begins with the content.
	Reply              *Reply
	MaxReasoningTokens uint32 // with Reply: after so many its reasoning is ended; 0 = no bound
	// OnPart is called with the parts of the reply as they come, after OnText. False ends the generation. What is still
	// to come is in Reply.Finish.
	OnPart func(part Part) bool
}

// check looks for what the library cannot see: a number of texts that C would cut, and texts that never appear.
func (o *GenerateOptions) check() error {
	if uint64(len(o.Stop)) > math.MaxUint32 {
		return newError(StatusInvalidArgument, "Stop has %d texts, expected at most 256", len(o.Stop))
	}
	for at, text := range o.Stop {
		if !utf8.ValidString(text) {
			return &Error{Status: StatusInvalidArgument, Detail: int64(at),
				Message: fmt.Sprintf("Stop[%d] is not UTF-8, expected text as it may appear", at)}
		}
	}
	if o.OnPart != nil && o.Reply == nil {
		return newError(StatusInvalidArgument, "OnPart is set, but there is no Reply that has parts")
	}
	return nil
}

// Finish says why a generation ended.
type Finish int32

// The reasons.
const (
	FinishNone     Finish = 0 // an error
	FinishEnd      Finish = C.QINFER_FINISH_END
	FinishStop     Finish = C.QINFER_FINISH_STOP
	FinishLength   Finish = C.QINFER_FINISH_LENGTH
	FinishCallback Finish = C.QINFER_FINISH_CALLBACK
)

// String is "end", "stop", "length", "callback" or "none".
func (f Finish) String() string {
	switch f {
	case FinishEnd:
		return "end"
	case FinishStop:
		return "stop"
	case FinishLength:
		return "length"
	case FinishCallback:
		return "callback"
	}
	return "none"
}

// Generated is the text of a generation, how it ended, and what it took.
type Generated struct {
	Text            string
	Finish          Finish
	PromptTokens    int
	CachedTokens    int // of the prompt, taken from the cache instead of evaluated
	NewTokens       int
	ReasoningTokens int  // of the new ones, where the options have a Reply; its end marker is one of them
	InReasoning     bool // it ended inside of the reasoning: there is no content
	Prefill, Decode time.Duration
}

// Generate evaluates what is pending, and draws tokens until done. After an error the session keeps the tokens made so
// far, and the result counts them.
func (s *Session) Generate(ctx context.Context, o GenerateOptions) (Generated, error) {
	if err := o.check(); err != nil {
		return Generated{}, err
	}
	w, err := watch(ctx)
	if err != nil {
		return Generated{}, err
	}
	defer w.release()
	var stops stopTexts
	defer stops.copies.free()
	options := o.native(&stops)
	options.cancel = w.c
	var result C.qinfer_generate_result
	result.struct_size = C.uint32_t(unsafe.Sizeof(result))
	g := &generation{options: &o, hook: s.hooked(), watcher: w}
	used := []use{s.used()}
	if o.Reply != nil {
		g.reply, used = o.Reply.c, append(used, o.Reply.used())
	}
	user := cgo.NewHandle(g)
	defer user.Delete()
	err = call(func(e *C.qinfer_error) C.qinfer_status {
		return C.qgo_generate(s.c, &options, C.uintptr_t(user), &result, e)
	}, used...)
	var ofHook caught // taken first: what a hook failed with must not stay for another call where OnText panicked
	if g.hook != nil && errors.Is(err, ErrCancelled) {
		ofHook.panicked, ofHook.value, ofHook.err = g.hook.take()
	}
	err = w.because(g.finish(ofHook.finish(err, StatusCancelled, nil), StatusCancelled, nil))
	if err == nil {
		err = g.unread
	}
	return generatedOf(&result, g.text.String()), err
}

// native has no callbacks and no cancel.
func (o *GenerateOptions) native(stops *stopTexts) C.qinfer_generate_options {
	stops.fill(o.Stop)
	options := C.qinfer_generate_options{
		max_tokens: C.uint32_t(o.MaxTokens), stop: stops.texts, stop_lens: stops.lens, n_stop: C.uint32_t(len(o.Stop)),
		max_reasoning_tokens: C.uint32_t(o.MaxReasoningTokens),
	}
	options.struct_size = C.uint32_t(unsafe.Sizeof(options))
	if o.Reply != nil {
		options.reply = o.Reply.c
	}
	return options
}

func generatedOf(result *C.qinfer_generate_result, text string) Generated {
	return Generated{
		Text: text, Finish: Finish(result.finish),
		PromptTokens: int(result.prompt_tokens), CachedTokens: int(result.cached_tokens), NewTokens: int(result.new_tokens),
		ReasoningTokens: int(result.reasoning_tokens), InReasoning: result.flags&C.QINFER_RESULT_IN_REASONING != 0,
		Prefill: time.Duration(result.prefill_ns), Decode: time.Duration(result.decode_ns),
	}
}

// Stream generates, and gives the text piece by piece:
//
//	for text, err := range session.Stream(ctx, qinfer.GenerateOptions{}) { ... }
//
// An error comes last, with "". The model computes on a separate goroutine, in turn with the loop: nothing is
// generated ahead, and the body may only read the session. Leaving the loop ends the generation; the session keeps the
// tokens made so far and goes on.
func (s *Session) Stream(ctx context.Context, o GenerateOptions) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		takeTurns(func(emit func(string) bool) error {
			with := o
			with.OnText = func(text string) bool {
				return (o.OnText == nil || o.OnText(text)) && emit(text)
			}
			_, err := s.Generate(ctx, with)
			return err
		}, yield)
	}
}

// stopTexts are texts and their lengths in memory of C, since the options point to them.
type stopTexts struct {
	copies texts
	texts  **C.char
	lens   *C.size_t
}

func (t *stopTexts) fill(stop []string) {
	if len(stop) == 0 {
		return
	}
	t.texts = (**C.char)(t.copies.room(len(stop) * int(unsafe.Sizeof(*t.texts))))
	t.lens = (*C.size_t)(t.copies.room(len(stop) * int(unsafe.Sizeof(*t.lens))))
	texts, lens := unsafe.Slice(t.texts, len(stop)), unsafe.Slice(t.lens, len(stop))
	for at, text := range stop {
		texts[at], lens[at] = t.copies.counted(text), C.size_t(len(text))
	}
}
