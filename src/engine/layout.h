// Where the engine's buffers are: the scratch arena of a model and the memory of a session, as offsets that follow from
// sizes alone. The memory plan adds these up before anything is loaded; the engine takes its addresses from them.
#pragma once

#include <cstdint>
#include <vector>

#include "base/kv_layout.h"
#include "engine/plan_buffers.h"
#include "kernel_set.h"
#include "model/spec.h"

namespace qinfer::engine {

/// Activations and workspaces of one batch of at most `batch_capacity` rows, written [batch] below. Attention (q,
/// attn_out and its workspace) and the feed-forward networks (ffn_act; moe_* of mixtures of experts) never live at the
/// same time, so they share bytes.
struct ScratchLayout {
  std::uint32_t batch_capacity = 0;
  // In the kernel set's layouts (kernels::ActivationLayouts):
  std::uint64_t h = 0;         ///< residual stream, [batch][n_embd]
  std::uint64_t normed = 0;    ///< operand [batch][n_embd], or what is added to the residual stream after a norm
  std::uint64_t q = 0;         ///< queries, [batch][q_dim]
  std::uint64_t attn_out = 0;  ///< operand [batch][q_dim]
  std::uint64_t attn_shared = 0, attn_shared_bytes = 0;
  std::uint64_t ffn_shared = 0;
  std::uint64_t moe_routes = 0, moe_gathered = 0, moe_inner = 0;  ///< kernels::MoeBuffers
  std::uint64_t shared = 0;  ///< workspace of the operations that need one only while they run: qkv, linear, lm_head
  std::uint64_t per_worker = 0, per_worker_bytes = 0;  ///< one for each thread
  std::uint64_t tokens = 0;                            ///< i32 [batch]
  std::uint64_t positions = 0, types = 0;              ///< i32 [batch], where the model has tables of them
  std::uint64_t distances = 0;                         ///< kernels::DistanceBias::values, where the model has some
  std::uint64_t logit_rows = 0;                        ///< i32 [batch]: the rows whose logits are wanted
  std::uint64_t logit_out = 0;                         ///< float* [batch]
  std::uint64_t sequences = 0;                         ///< kernels::Sequence [groups, at least 1][batch]
  std::uint64_t embeddings = 0;                        ///< HiddenStateRows [batch]
  std::uint64_t hidden = 0;                            ///< HiddenRows [batch], of a stage
  std::uint64_t dense = 0, dense_width = 0;  ///< f32 [2][dense_width]: input and output of a layer after pooling
  std::uint64_t keys = 0;                    ///< an encoder's keys and values of one layer: blocks of `kv`
  std::uint32_t key_blocks = 0;
  KvLayout kv;  ///< of an encoder
  std::uint64_t bytes = 0;
};

/// `region`: where the buffers are recorded; null: nowhere.
ScratchLayout scratch_layout(const model::ModelSpec& spec, const kernels::KernelSet& kernels, std::uint32_t batch,
                             std::uint32_t n_threads, PlannedRegion* region = nullptr);

/// Rows of one session in a batch of a stage, f32 [n_rows][n_embd] of the host: what goes in, what comes out; null:
/// none.
struct HiddenRows {
  const float* in = nullptr;
  float* out = nullptr;
  std::int32_t first_row = 0, n_rows = 0;
};

/// Rows of one session in a batch, whose final hidden states are gathered for its embedding.
struct HiddenStateRows {
  float* out = nullptr;  ///< f32 [3][n_embd]: of the first token, the sum of all, of the last
  std::int32_t first_row = 0, n_rows = 0;
  bool begins = false;  ///< with the session's first token
};

/// The layout of a block of each group of layers.
std::vector<KvLayout> kv_layouts(const model::ModelSpec& spec, const kernels::KernelSet& kernels, DType type,
                                 std::uint32_t block_tokens);

/// The most blocks of a group that a session of `tokens` tokens holds while at most `chunk` tokens are evaluated at
/// once: all of them or, with a window, those of the window before the chunk and of the chunk, and one more, since
/// neither begins with a block.
std::uint64_t blocks_of_session(const KvLayout& layout, std::uint32_t window, std::uint64_t tokens,
                                std::uint64_t chunk);

/// The longest stop text of a generation, so that the text held back fits into the session's memory.
inline constexpr std::uint32_t kMaxStopBytes = 4096;

/// Everything that a session needs until it is freed: append, eval, sample, generate and truncate allocate nothing.
struct SessionLayout {
  std::uint32_t max_tokens = 0, max_logits = 0, max_draft = 0, max_blocks = 0;
  std::uint32_t n_groups = 0;
  bool embeddings = false;
  std::uint64_t table = 0;                                                ///< u32 [n_groups][max_blocks]
  std::uint64_t names = 0;                                                ///< kv::PrefixName [max_blocks]
  std::uint64_t sampler_logits = 0, sampler_ids = 0, sampler_counts = 0;  ///< 4 bytes x n_vocab each
  std::uint64_t repeats = 0;                                              ///< u32 [max_tokens]: of DRY
  std::uint64_t bounds = 0;                                               ///< f32 [max_tokens]: of mirostat
  std::uint64_t bias = 0;                                                 ///< sampling::Bias [n_vocab]
  std::uint64_t accepted = 0, accepted_words = 0;  ///< u64: a bit for each token, set if a logits hook accepted it
  std::uint64_t text = 0, text_bytes = 0;          ///< text held back because it may be the beginning of a stop text
  std::uint64_t embedding = 0;                     ///< f32 [3][n_embd], see HiddenStateRows, and with a
                                                   ///< classifier two rows to work in
  std::uint64_t bytes = 0;
  // In separate memory, since forks share them:
  std::uint64_t tokens_bytes = 0;  ///< i32 [max_tokens]
  std::uint64_t logits_bytes = 0;  ///< f32 [max_logits + max_draft][n_vocab]

  std::uint64_t total_bytes() const { return bytes + tokens_bytes + logits_bytes; }
};

/// What the layout of a session depends on, besides the model. `prefix`: the cache keeps prefixes, for which a session
/// notes the name of each block.
struct SessionShape {
  std::uint32_t block_tokens = kTileTokens;
  bool prefix = false, embeddings = false;
  std::uint32_t max_tokens = 0, max_logits = 0, max_draft = 0;
};
SessionLayout session_layout(const model::ModelSpec& spec, std::uint32_t max_token_bytes, const SessionShape& shape,
                             PlannedRegion* region = nullptr);

}  // namespace qinfer::engine
