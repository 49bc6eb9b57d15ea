// Models: loading, packing, and what a model is.

package qinfer

// #include "trampolines.h"
import "C"

import (
	"context"
	"runtime/cgo"
	"unsafe"
)

// LoadOptions are those of [Load], [Pack] and [PlanMemory]; the zero value has the defaults.
type LoadOptions struct {
	Runtime        *Runtime // nil = a separate one with the defaults
	NoWeights      bool     // metadata and tokenizer only: fast, but no sessions
	NoMmap         bool     // read weights into private memory
	Lock           bool     // keep weights resident
	Verify         bool     // check norm weights, biases, mapped scales, and checksums of a packed model
	BudgetPrivate  bool     // MemoryBudget does not count mapped weights
	Pack           bool     // weights are copied into the layout that the kernel set multiplies fastest
	MaxBatchTokens uint32   // evaluated in one pass over the weights; 0 = 512
	MemoryBudget   uint64   // in bytes, for the model, its caches and sessions; 0 = none
	MaxContext     uint32   // tokens that sessions will have at most; 0 = any. Matters to models with longrope
	WeightFormat   string   // "" = what the kernel set wants
	PackedPath     string   // use this file, if Pack made it from this model as it is now
	Files          Files    // where the paths are; nil = the operating system's files. Not for Pack and PlanMemory
	// Progress is called about every 16 MiB and at the end. An error ends the call.
	Progress func(doneBytes, totalBytes uint64) error
}

// Model has weights, tokenizer and metadata. It never changes, and is for any number of goroutines.
type Model struct {
	object *object
	c      *C.qinfer_model
	vocab  *vocabulary // of all copies of the handle
}

func (o *LoadOptions) native(t *texts, cancel *C.qinfer_cancel) C.qinfer_load_options {
	options := C.qinfer_load_options{
		flags: flag(o.NoWeights, C.QINFER_LOAD_NO_WEIGHTS) | flag(o.NoMmap, C.QINFER_LOAD_NO_MMAP) |
			flag(o.Lock, C.QINFER_LOAD_LOCK) | flag(o.Verify, C.QINFER_LOAD_VERIFY) |
			flag(o.BudgetPrivate, C.QINFER_LOAD_BUDGET_PRIVATE) | flag(o.Pack, C.QINFER_LOAD_PACK),
		max_batch_tokens:    C.uint32_t(o.MaxBatchTokens),
		memory_budget_bytes: C.uint64_t(o.MemoryBudget),
		max_context:         C.uint32_t(o.MaxContext),
		weight_format:       t.optional("the weight format", o.WeightFormat),
		packed_path:         t.optional("the packed path", o.PackedPath),
		cancel:              cancel,
	}
	options.struct_size = C.uint32_t(unsafe.Sizeof(options))
	return options
}

// Load loads a model: the directory of a Hugging Face checkpoint, a GGUF file, or a file that Pack wrote.
func Load(ctx context.Context, path string, o LoadOptions) (*Model, error) {
	m := &Model{}
	err := o.run(ctx, path, func(native *C.qinfer_load_options, from *C.char, progress C.uintptr_t) error {
		return withFiles(o.Files, func(files C.uintptr_t) error {
			return call(func(e *C.qinfer_error) C.qinfer_status {
				return C.qgo_model_load(o.Runtime.native(), from, native, progress, files, &m.c, e)
			}, o.Runtime.optional()...)
		}, m.discard)
	}, m.discard)
	if err != nil {
		return nil, err
	}
	made, vocab := m.c, &vocabulary{}
	m.vocab = vocab
	m.object = newObject(func() {
		vocab.free()
		C.qinfer_model_free(made)
	})
	return m, nil
}

// Pack writes a model to one file that holds the weights as the runtime's kernel set wants them: loading that is a
// mapping. WeightFormat may also be "q8_0", "q4_0" or "q4_k_m", which quantise. The file appears whole or not at all.
func Pack(ctx context.Context, path, outPath string, o LoadOptions) error {
	if o.Files != nil {
		return newError(StatusUnsupported, "Files is set, expected nil: the system's files are packed")
	}
	var t texts
	defer t.free()
	to := t.add("the path of the packed file", outPath)
	if t.err != nil {
		return t.err
	}
	return o.run(ctx, path, func(native *C.qinfer_load_options, from *C.char, progress C.uintptr_t) error {
		return call(func(e *C.qinfer_error) C.qinfer_status {
			return C.qgo_model_pack(o.Runtime.native(), from, native, progress, to, e)
		}, o.Runtime.optional()...)
	}, nil)
}

// run makes a call with these options, its context and the handle of its progress.
func (o *LoadOptions) run(ctx context.Context, path string,
	f func(native *C.qinfer_load_options, from *C.char, progress C.uintptr_t) error, discard func()) error {
	var t texts
	defer t.free()
	w, err := watch(ctx)
	if err != nil {
		return err
	}
	defer w.release()
	native := o.native(&t, w.c)
	from := t.add("the path", path)
	if t.err != nil {
		return t.err
	}
	progress := &progressCall{report: o.Progress}
	user := cgo.Handle(0)
	if o.Progress != nil {
		user = cgo.NewHandle(progress)
		defer user.Delete()
	}
	err = w.because(f(&native, from, C.uintptr_t(user)))
	return progress.finish(err, StatusCancelled, discard)
}

// discard frees a model of a call that panics.
func (m *Model) discard() {
	C.qinfer_model_free(m.c)
}

// used is for the calls that use the handle, which may be nil.
func (m *Model) used() use {
	if m == nil {
		return use{kind: "Model", from: "Load", isNil: true}
	}
	return use{kind: "Model", from: "Load", object: m.object}
}

// Close frees the model when nothing that was made from it is left. It always returns nil.
func (m *Model) Close() error {
	if m != nil {
		m.object.close()
	}
	return nil
}

// ModelInfo describes a loaded model.
type ModelInfo struct {
	Architecture, Name, WeightFormat      string
	KernelSet                             string // that it runs on
	Encoder                               bool   // bidirectional: embeddings, no logits
	TiedEmbeddings                        bool   // the embedding is the LM head, too
	Tokenizer                             bool   // has one
	Params, ActiveParams                  uint64 // active: that one token is computed with
	FileBytes                             uint64
	Vocab, Layers, Embd, Heads, KvHeads   int
	HeadDim, ContextTokens, MaxTokenBytes int
	Experts, ActiveExperts, ExpertLayers  int
	ExpertFfn                             int
	EmbeddingDims, EmbeddingTokens        int     // values of an embedding, and the most tokens of its text
	Pooling                               Pooling // what the files say
	Scores                                bool    // the files say how pairs of texts are scored
	BosToken                              Token   // -1 = none
}

// Info describes the model.
func (m *Model) Info() (ModelInfo, error) {
	var i C.qinfer_model_info
	i.struct_size = C.uint32_t(unsafe.Sizeof(i))
	var info ModelInfo
	err := call(func(e *C.qinfer_error) C.qinfer_status {
		status := C.qinfer_model_get_info(m.c, &i, e)
		if status == C.QINFER_OK {
			info = modelInfoOf(&i) // its texts live as long as the model
		}
		return status
	}, m.used())
	return info, err
}

func modelInfoOf(i *C.qinfer_model_info) ModelInfo {
	return ModelInfo{
		Architecture: C.GoString(i.architecture), Name: C.GoString(i.name), WeightFormat: C.GoString(i.weight_format),
		KernelSet: C.GoString(i.kernel_set),
		Encoder:   i.flags&C.QINFER_MODEL_ENCODER != 0, TiedEmbeddings: i.flags&C.QINFER_MODEL_TIED_EMBEDDINGS != 0,
		Tokenizer: i.flags&C.QINFER_MODEL_TOKENIZER != 0,
		Params:    uint64(i.n_params), ActiveParams: uint64(i.n_active_params), FileBytes: uint64(i.file_bytes),
		Vocab: int(i.n_vocab), Layers: int(i.n_layers), Embd: int(i.n_embd), Heads: int(i.n_heads),
		KvHeads: int(i.n_kv_heads), HeadDim: int(i.head_dim), ContextTokens: int(i.context_tokens),
		MaxTokenBytes: int(i.max_token_bytes),
		Experts:       int(i.n_experts), ActiveExperts: int(i.n_active_experts), ExpertLayers: int(i.n_expert_layers),
		ExpertFfn: int(i.expert_ffn), BosToken: Token(i.bos_token),
		EmbeddingDims: int(i.embedding_dims), EmbeddingTokens: int(i.embedding_tokens), Pooling: Pooling(i.pooling),
		Scores: i.scoring != C.QINFER_SCORING_NONE,
	}
}

// Metadata is what the files say of the model, as text.
func (m *Model) Metadata() (map[string]string, error) {
	metadata := make(map[string]string)
	err := call(func(*C.qinfer_error) C.qinfer_status {
		for index := C.size_t(0); index < C.qinfer_model_meta_count(m.c); index++ {
			key := C.qinfer_model_meta_key(m.c, index)
			metadata[C.GoString(key)] = C.GoString(C.qinfer_model_meta_value(m.c, key))
		}
		return C.QINFER_OK
	}, m.used())
	return metadata, err
}
