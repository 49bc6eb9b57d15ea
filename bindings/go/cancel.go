// Contexts: the end of one requests a qinfer_cancel that belongs to one call.

package qinfer

// #include "trampolines.h"
import "C"

import (
	"context"
	"errors"
)

// watcher requests a cancel when its context ends.
type watcher struct {
	ctx    context.Context
	c      *C.qinfer_cancel // nil where the context cannot end
	object *object
	stop   func() bool
}

func watch(ctx context.Context) (*watcher, error) {
	if ctx == nil {
		return nil, newError(StatusInvalidArgument, "ctx is nil, expected a context such as context.Background()")
	}
	w := &watcher{ctx: ctx}
	if ctx.Done() == nil {
		return w, nil
	}
	err := call(func(e *C.qinfer_error) C.qinfer_status { return C.qinfer_cancel_create(&w.c, e) })
	if err != nil {
		return nil, err
	}
	w.object = &object{free: func() { C.qinfer_cancel_free(w.c) }}
	if ctx.Err() != nil {
		w.request() // before the call, which a goroutine might miss
	}
	w.stop = context.AfterFunc(ctx, w.request)
	return w, nil
}

// request may run while release does: the cancel is freed after it.
func (w *watcher) request() {
	if w.object.acquire() {
		C.qinfer_cancel_request(w.c)
		w.object.done()
	}
}

// look is for callbacks that may have ended the context, whose goroutine would come some tokens later.
func (w *watcher) look() {
	if w.c != nil && w.ctx.Err() != nil {
		w.request()
	}
}

// release ends the watch.
func (w *watcher) release() {
	if w.c != nil {
		w.stop()
		w.object.close()
	}
}

// because adds the end of the context to the error of a call that it ended.
func (w *watcher) because(err error) error {
	if w.ctx.Err() == nil || !errors.Is(err, ErrCancelled) {
		return err
	}
	err = because(err, StatusCancelled, w.ctx.Err())
	if cause := context.Cause(w.ctx); cause != w.ctx.Err() {
		err = because(err, StatusCancelled, cause)
	}
	return err
}
