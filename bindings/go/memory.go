// Memory: what loading takes, as planned and as in use.

package qinfer

// #include "trampolines.h"
import "C"

import "unsafe"

// Memory is in bytes, as planned or as in use.
type Memory struct {
	WeightsMapped   uint64 // clean file pages that the system can drop
	WeightsPrivate  uint64 // converted or copied weights
	Tables          uint64 // tokenizer and RoPE
	Scratch         uint64 // activations of a batch
	KvPerBlock      uint64
	KvPerToken      uint64
	KvPerSession    uint64 // of a session of MaxTokens, at most
	KvCache         uint64 // 0 without a cache
	KvLists         uint64 // what a cache keeps about its blocks
	PerSession      uint64 // outside the cache
	LoadPeak        uint64 // the largest total while loading
	Total           uint64 // without sessions
	ActiveWeights   uint64 // read to compute one token
	ExpertWeights   uint64 // of all experts of all layers
	SystemLimit     uint64 // of this machine or cgroup; 0 = not known
	SystemAvailable uint64
}

func memoryOf(m *C.qinfer_memory) Memory {
	return Memory{
		WeightsMapped: uint64(m.weights_mapped), WeightsPrivate: uint64(m.weights_private),
		Tables: uint64(m.tables), Scratch: uint64(m.scratch),
		KvPerBlock: uint64(m.kv_per_block), KvPerToken: uint64(m.kv_per_token),
		KvPerSession: uint64(m.kv_per_session), KvCache: uint64(m.kv_cache_bytes), KvLists: uint64(m.kv_lists),
		PerSession: uint64(m.per_session), LoadPeak: uint64(m.load_peak), Total: uint64(m.total),
		ActiveWeights: uint64(m.active_weight_bytes), ExpertWeights: uint64(m.expert_weight_bytes),
		SystemLimit: uint64(m.system_limit), SystemAvailable: uint64(m.system_available),
	}
}

// Memory is what the model takes now.
func (m *Model) Memory() (Memory, error) {
	var memory C.qinfer_memory
	memory.struct_size = C.uint32_t(unsafe.Sizeof(memory))
	err := call(func(e *C.qinfer_error) C.qinfer_status { return C.qinfer_model_get_memory(m.c, &memory, e) }, m.used())
	return memoryOf(&memory), err
}

// PlanOptions are what a plan is for; Cache nil: without one.
type PlanOptions struct {
	Runtime RuntimeOptions
	Load    LoadOptions // without a Runtime and Files
	Cache   *KvCacheOptions
	Session SessionOptions
}

// PlanMemory tells what loading a model, and making a cache and sessions with these options, will take. It reads
// headers only.
func PlanMemory(path string, o PlanOptions) (Memory, error) {
	switch {
	case o.Load.Files != nil:
		return Memory{}, newError(StatusUnsupported, "Load.Files is set, expected nil: plans read the system's files")
	case o.Load.Runtime != nil:
		return Memory{}, newError(StatusInvalidArgument, "Load.Runtime is set, expected nil: see Runtime")
	}
	var t texts
	defer t.free()
	from := t.add("the path", path)
	runtime, load, session := o.Runtime.native(&t), o.Load.native(&t, nil), o.Session.native()
	if t.err != nil {
		return Memory{}, t.err
	}
	var cache C.qinfer_kv_cache_options
	withCache := o.Cache != nil
	if withCache {
		cache = o.Cache.native()
	}
	var memory C.qinfer_memory
	memory.struct_size = C.uint32_t(unsafe.Sizeof(memory))
	err := call(func(e *C.qinfer_error) C.qinfer_status {
		if !withCache {
			return C.qinfer_model_plan(from, &runtime, &load, nil, &session, &memory, e)
		}
		return C.qinfer_model_plan(from, &runtime, &load, &cache, &session, &memory, e)
	})
	return memoryOf(&memory), err
}
