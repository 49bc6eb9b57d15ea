// Caches: keys and values of sessions.

package qinfer

// #include "trampolines.h"
import "C"

import "unsafe"

// KvType is how keys and values are held. It changes the bits of logits.
type KvType int32

// The types of keys and values.
const (
	KvDefault KvType = C.QINFER_KV_DEFAULT // f32 in an exact runtime, otherwise f16 or bf16, as the kernel set prefers
	KvF32     KvType = C.QINFER_KV_F32
	KvF16     KvType = C.QINFER_KV_F16
	KvBF16    KvType = C.QINFER_KV_BF16
)

// KvCacheOptions are those of [Model.NewKvCache]; the zero value has the defaults.
type KvCacheOptions struct {
	Type         KvType
	BlockTokens  uint32 // tokens of a block, a power of two from 32 to 256; 0 = 32
	BudgetBytes  uint64 // the smaller of the two wins; both 0 = one session of the model's context
	BudgetBlocks uint64
	Prefix       bool // freed blocks serve sessions that begin alike
	Commit       bool // take the memory at once
	Contiguous   bool // each session sees one flat range of addresses
}

func (o *KvCacheOptions) native() C.qinfer_kv_cache_options {
	options := C.qinfer_kv_cache_options{
		flags: flag(o.Prefix, C.QINFER_CACHE_PREFIX) | flag(o.Commit, C.QINFER_CACHE_COMMIT) |
			flag(o.Contiguous, C.QINFER_CACHE_CONTIGUOUS),
		kv_type: C.int32_t(o.Type), block_tokens: C.uint32_t(o.BlockTokens),
		budget_bytes: C.uint64_t(o.BudgetBytes), budget_blocks: C.uint64_t(o.BudgetBlocks),
	}
	options.struct_size = C.uint32_t(unsafe.Sizeof(options))
	return options
}

// KvCache has keys and values of sessions, in blocks of a fixed budget. It is for any number of sessions and
// goroutines.
type KvCache struct {
	object *object
	c      *C.qinfer_kv_cache
	model  *Model
	vocab  int // tokens of the model's vocabulary
}

// NewKvCache makes a cache.
func (m *Model) NewKvCache(o KvCacheOptions) (*KvCache, error) {
	info, err := m.Info()
	if err != nil {
		return nil, err
	}
	k, options := &KvCache{model: m, vocab: info.Vocab}, o.native()
	err = call(func(e *C.qinfer_error) C.qinfer_status {
		return C.qinfer_kv_cache_create(m.c, &options, &k.c, e)
	}, m.used())
	if err != nil {
		return nil, err
	}
	made := k.c
	k.object = newObject(func() { C.qinfer_kv_cache_free(made) })
	return k, nil
}

// used is for the calls that use the handle, which may be nil.
func (k *KvCache) used() use {
	if k == nil {
		return use{kind: "KvCache", from: "Model.NewKvCache", isNil: true}
	}
	return use{kind: "KvCache", from: "Model.NewKvCache", object: k.object}
}

// Close frees the cache when its last session is freed. It always returns nil.
func (k *KvCache) Close() error {
	if k != nil {
		k.object.close()
	}
	return nil
}

// KvCacheStats counts the blocks of a cache.
type KvCacheStats struct {
	BlockTokens                int
	BlocksTotal, BlocksUsed    uint64 // used: held by at least one session
	BlocksShared, BlocksCached uint64 // held by several; free, but of use as a prefix
	BytesReserved              uint64 // address space
	BytesCommitted             uint64 // memory of the blocks used and cached
	BytesResident              uint64 // as the system counts it; 0 = not known
}

// Stats counts the blocks now.
func (k *KvCache) Stats() (KvCacheStats, error) {
	var s C.qinfer_kv_cache_stats
	s.struct_size = C.uint32_t(unsafe.Sizeof(s))
	err := call(func(e *C.qinfer_error) C.qinfer_status { return C.qinfer_kv_cache_get_stats(k.c, &s, e) }, k.used())
	return KvCacheStats{
		BlockTokens: int(s.block_tokens), BlocksTotal: uint64(s.blocks_total), BlocksUsed: uint64(s.blocks_used),
		BlocksShared: uint64(s.blocks_shared), BlocksCached: uint64(s.blocks_cached),
		BytesReserved: uint64(s.bytes_reserved), BytesCommitted: uint64(s.bytes_committed),
		BytesResident: uint64(s.bytes_resident),
	}, err
}
