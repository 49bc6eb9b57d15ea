// Runtimes: threads and kernel sets.

package qinfer

// #include "trampolines.h"
import "C"

import (
	"math"
	"time"
	"unsafe"
)

// RuntimeOptions are those of [NewRuntime]; the zero value has the defaults.
type RuntimeOptions struct {
	Threads     uint32        // that compute, the caller's included; 0 = physical cores
	CPUTarget   string        // a kernel set by name; "" = the best for CPU and model
	Exact       bool          // activations and sums in f32
	Spin        time.Duration // threads spin this long between evaluations, in whole microseconds; 0 = sleep at once
	NormalPages bool          // no pages of 2 MiB
	NoTiles     bool          // the system is never asked for tiles of AMX
}

// Runtime has the threads that compute. Evaluations on one runtime run one after another, each on all of its threads.
type Runtime struct {
	object *object
	c      *C.qinfer_runtime
}

// RuntimeInfo is what a runtime was made with, with the defaults filled in.
type RuntimeInfo struct {
	Threads int
	Target  string // the kernel set
}

func (o *RuntimeOptions) native(t *texts) C.qinfer_runtime_options {
	spin := o.Spin.Microseconds()
	if t.err == nil && (spin < 0 || spin > math.MaxUint32 || o.Spin%time.Microsecond != 0) {
		t.err = newError(StatusInvalidArgument, "Spin is %v, expected whole microseconds from 0 to %d", o.Spin,
			uint32(math.MaxUint32))
	}
	options := C.qinfer_runtime_options{
		n_threads: C.uint32_t(o.Threads),
		spin_us:   C.uint32_t(spin),
		flags: flag(o.Exact, C.QINFER_RUNTIME_EXACT) | flag(o.NormalPages, C.QINFER_RUNTIME_NORMAL_PAGES) |
			flag(o.NoTiles, C.QINFER_RUNTIME_NO_TILES),
		cpu_target: t.optional("the CPU target", o.CPUTarget),
	}
	options.struct_size = C.uint32_t(unsafe.Sizeof(options))
	return options
}

// NewRuntime starts the threads of a runtime.
func NewRuntime(o RuntimeOptions) (*Runtime, error) {
	var t texts
	defer t.free()
	options := o.native(&t)
	if t.err != nil {
		return nil, t.err
	}
	r := &Runtime{}
	err := call(func(e *C.qinfer_error) C.qinfer_status { return C.qinfer_runtime_create(&options, &r.c, e) })
	if err != nil {
		return nil, err
	}
	made := r.c
	r.object = newObject(func() { C.qinfer_runtime_free(made) })
	return r, nil
}

// used is for the calls that use the handle, which may be nil.
func (r *Runtime) used() use {
	if r == nil {
		return use{kind: "Runtime", from: "NewRuntime", isNil: true}
	}
	return use{kind: "Runtime", from: "NewRuntime", object: r.object}
}

// Close ends the threads when nothing that was made with the runtime is left. It always returns nil.
func (r *Runtime) Close() error {
	if r != nil {
		r.object.close()
	}
	return nil
}

// Info tells threads and kernel set.
func (r *Runtime) Info() (RuntimeInfo, error) {
	var info C.qinfer_runtime_info
	info.struct_size = C.uint32_t(unsafe.Sizeof(info))
	err := call(func(e *C.qinfer_error) C.qinfer_status { return C.qinfer_runtime_get_info(r.c, &info, e) }, r.used())
	return RuntimeInfo{Threads: int(info.n_threads), Target: C.GoString(info.target)}, err
}

// Metrics are the totals of all sessions on the runtime.
func (r *Runtime) Metrics() (Metrics, error) {
	var m C.qinfer_metrics
	m.struct_size = C.uint32_t(unsafe.Sizeof(m))
	err := call(func(e *C.qinfer_error) C.qinfer_status { return C.qinfer_runtime_get_metrics(r.c, &m, e) }, r.used())
	return metricsOf(&m), err
}

// optional has no handle for no runtime.
func (r *Runtime) optional() []use {
	if r == nil {
		return nil
	}
	return []use{r.used()}
}

// native is NULL for no runtime.
func (r *Runtime) native() *C.qinfer_runtime {
	if r == nil {
		return nil
	}
	return r.c
}

// Metrics are totals since a session or runtime was made. A token that a session evaluates alone in a call counts as
// decoded, more than one as prefill.
type Metrics struct {
	PrefillTokens, DecodeTokens, Evals uint64
	CachedTokens                       uint64 // found in the cache instead of evaluated
	Prefill, Decode, Sample            time.Duration
	Wait                               time.Duration // for the threads of the runtime
	// With SessionOptions.MaxDraft: guessed tokens, and those that were right, by their place in the guess.
	Drafted, Accepted [16]uint64
}

func metricsOf(m *C.qinfer_metrics) Metrics {
	metrics := Metrics{
		PrefillTokens: uint64(m.prefill_tokens), DecodeTokens: uint64(m.decode_tokens), Evals: uint64(m.evals),
		CachedTokens: uint64(m.cached_tokens),
		Prefill:      time.Duration(m.prefill_ns), Decode: time.Duration(m.decode_ns),
		Sample: time.Duration(m.sample_ns), Wait: time.Duration(m.wait_ns),
	}
	for i := range metrics.Drafted {
		metrics.Drafted[i], metrics.Accepted[i] = uint64(m.drafted[i]), uint64(m.accepted[i])
	}
	return metrics
}
