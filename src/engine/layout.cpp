// See layout.h.
#include "engine/layout.h"

#include <algorithm>

#include "kv/prefix_index.h"
#include "model/distances.h"
#include "sampling/sampler.h"

namespace qinfer::engine {
namespace {

KvLayout layout_of(const model::KvGroup& group, const kernels::KernelSet& kernels, DType type,
                   std::uint32_t block_tokens) {
  KvLayout layout;
  layout.type = type;
  layout.n_layers = group.n_layers;
  layout.n_kv_heads = group.n_kv_heads;
  layout.head_dim = group.head_dim;
  layout.head_dim_padded = kernels.kv_head_dim_padded(group.head_dim, type);
  layout.block_tokens = block_tokens;
  layout.order = kernels.kv_order(type);
  return layout;
}

kernels::Shape kernel_shape(const model::ModelSpec& spec, const kernels::KernelSet& kernels, std::uint32_t batch,
                            std::uint32_t n_threads) {
  const model::AttentionSpec attention = spec.largest_attention();
  const model::FfnSpec mixture = spec.largest_mixture();
  kernels::Shape shape;
  shape.batch = batch;
  shape.hidden = spec.n_embd;
  shape.n_heads = attention.n_heads, shape.n_kv_heads = attention.n_kv_heads;
  shape.head_dim = shape.head_dim_padded = attention.head_dim;
  for (const DType type : {DType::f32, DType::f16, DType::bf16})
    shape.head_dim_padded = std::max(shape.head_dim_padded, kernels.kv_head_dim_padded(attention.head_dim, type));
  shape.ffn = spec.ffn_width();
  shape.vocab = spec.n_vocab;
  shape.context = spec.context_tokens;
  shape.n_threads = n_threads;
  shape.qk_norm_whole = attention.qk_norm == model::QkNorm::whole;
  shape.experts = mixture.experts, shape.top_k = mixture.top_k;
  shape.expert_width = mixture.width, shape.shared_width = mixture.shared_width;
  for (const model::DenseSpec& dense : spec.embedding.dense) shape.dense = std::max(shape.dense, dense.inputs);
  return shape;
}

/// Width of a row of queries in this layout, of the layer that has most.
std::uint64_t widest_query(const model::ModelSpec& spec, kernels::ActivationLayout layout) {
  std::uint64_t widest = 0;
  spec.each_attention([&](const model::AttentionSpec& attention) {
    widest = std::max(widest, kernels::query_width(layout, attention.n_heads, attention.head_dim));
  });
  return widest;
}

/// Size, shape and type of a buffer of activations in a layout, for the cursor.
struct ActivationBuffer {
  std::uint64_t bytes;
  std::vector<std::uint64_t> shape;
  std::string_view dtype;

  ActivationBuffer(kernels::ActivationLayout layout, std::uint64_t n, std::uint64_t width)
      : bytes(kernels::layout_bytes(layout, n, width)) {
    const std::uint64_t panels = ceil_div(n, kernels::kPanelRows);
    switch (layout) {
      case kernels::ActivationLayout::row_major: shape = {n, width}, dtype = "f32"; break;
      case kernels::ActivationLayout::f32_panels: shape = {panels, width, kernels::kPanelRows}, dtype = "f32"; break;
      case kernels::ActivationLayout::bf16_panels:
        shape = {panels, round_up(width, kernels::kPanelFeatures) / 2, kernels::kPanelRows, 2}, dtype = "bf16";
        break;
    }
  }
  /// Room for either of two.
  ActivationBuffer& cover(const ActivationBuffer& other) {
    if (bytes < other.bytes) *this = other;
    return *this;
  }
  BufferNote note(std::string_view name, Lifetime lifetime = kWholePass) const {
    return {name, shape, dtype, lifetime};
  }
};

}  // namespace

ScratchLayout scratch_layout(const model::ModelSpec& spec, const kernels::KernelSet& kernels, std::uint32_t batch,
                             std::uint32_t n_threads, PlannedRegion* region) {
  const kernels::Shape shape = kernel_shape(spec, kernels, batch, n_threads);
  const kernels::WorkspaceSize attention = kernels.attention_workspace(shape),
                               ffn = shape.ffn != 0 ? kernels.ffn_workspace(shape) : kernels::WorkspaceSize();
  const kernels::MoeWorkspace moe = shape.experts != 0 ? kernels.moe_workspace(shape) : kernels::MoeWorkspace();
  const std::uint64_t rows = batch;
  ScratchLayout layout;
  layout.batch_capacity = batch;
  const kernels::ActivationLayouts& layouts = kernels.layouts;
  // Few rows, and hidden states for the host, are row-major.
  const std::uint64_t few = std::min<std::uint64_t>(rows, static_cast<std::uint64_t>(layouts.max_row_major));
  const auto in_layout = [&](kernels::ActivationLayout many, std::uint64_t width) {
    ActivationBuffer buffer(few < rows ? many : kernels::ActivationLayout::row_major, rows, width);
    return buffer.cover({kernels::ActivationLayout::row_major, few, width});
  };
  const kernels::ActivationLayout query = few < rows ? layouts.query : kernels::ActivationLayout::row_major;
  const ActivationBuffer h = in_layout(layouts.residual, spec.n_embd),
                         q = in_layout(layouts.query, widest_query(spec, query)),
                         attn_out = in_layout(layouts.operand, spec.widest_queries());
  ActivationBuffer normed = h;
  normed.cover({kernels::ActivationLayout::row_major, rows, spec.n_embd})
      .cover(in_layout(layouts.operand, spec.n_embd));
  Cursor cursor(region);
  layout.h = cursor.take(h.bytes, h.note("h"));
  layout.normed = cursor.take(normed.bytes, normed.note("normed"));
  // The two tenants of one range: attention, then the feed-forward network, of either kind.
  Cursor attention_part(region, cursor.at()), ffn_part(region, cursor.at());
  layout.q = attention_part.take(q.bytes, q.note("q", {Step::qkv, Step::attention}));
  layout.attn_out = attention_part.take(attn_out.bytes, attn_out.note("attn_out", {Step::attention, Step::output}));
  layout.attn_shared_bytes = attention.shared;
  layout.attn_shared = attention_part.take(
      attention.shared, {"attn_partials", {attention.shared}, "bytes", {Step::attention, Step::attention}});
  layout.ffn_shared = ffn_part.take(ffn.shared, {"ffn_act", {ffn.shared}, "bytes", {Step::ffn, Step::ffn}});
  const auto take_moe = [&](std::string_view name, std::uint64_t bytes) {
    return ffn_part.take(bytes, {name, {bytes}, "bytes", {Step::ffn, Step::ffn}});
  };
  layout.moe_routes = take_moe("moe_routes", moe.routes);
  layout.moe_gathered = take_moe("moe_gathered", moe.gathered);
  layout.moe_inner = take_moe("moe_inner", moe.inner);
  cursor = Cursor(region, std::max(attention_part.at(), ffn_part.at()));
  const kernels::WorkspaceSize linear = kernels.linear_workspace(shape), qkv = kernels.qkv_workspace(shape),
                               lm_head = kernels.lm_head_workspace(shape);
  const std::uint64_t shared = std::max({linear.shared, qkv.shared, lm_head.shared});
  layout.shared = cursor.take(shared, {"op_workspace", {shared}, "bytes", kWorkspace});
  layout.per_worker_bytes = round_up(std::max({linear.per_worker, qkv.per_worker, attention.per_worker, ffn.per_worker,
                                               moe.per_worker, lm_head.per_worker}),
                                     64);
  layout.per_worker = cursor.take(layout.per_worker_bytes * n_threads,
                                  {"workers", {n_threads, layout.per_worker_bytes}, "bytes", kWorkspace});
  const std::uint64_t groups = std::max<std::size_t>(spec.kv_groups.size(), 1);
  layout.tokens = cursor.take(rows * sizeof(std::int32_t), {"token_ids", {rows}, "i32"});
  const auto take_ids = [&](std::string_view name, std::uint32_t table) {
    const std::uint64_t n = table != 0 ? rows : 0;
    return cursor.take(n * sizeof(std::int32_t), {name, {n}, "i32"});
  };
  layout.positions = take_ids("positions", spec.n_positions);
  layout.types = take_ids("token_types", spec.n_types);
  const std::uint64_t distances = spec.has_distances ? model::distance_values(shape.n_heads) : 0;
  layout.distances = cursor.take(distances * sizeof(float), {"distances", {distances}});
  layout.logit_rows = cursor.take(rows * sizeof(std::int32_t), {"logit_rows", {rows}, "i32"});
  layout.logit_out = cursor.take(rows * sizeof(float*), {"logit_out", {rows}, "u64"});
  layout.sequences = cursor.take(rows * groups * sizeof(kernels::Sequence),
                                 {"sequences", {groups, rows, sizeof(kernels::Sequence)}, "bytes"});
  layout.embeddings =
      cursor.take(rows * sizeof(HiddenStateRows), {"embedding_rows", {rows, sizeof(HiddenStateRows)}, "bytes"});
  const std::uint64_t hidden = spec.is_stage() ? rows : 0;
  layout.hidden = cursor.take(hidden * sizeof(HiddenRows), {"hidden_rows", {hidden, sizeof(HiddenRows)}, "bytes"});
  for (const model::DenseSpec& dense : spec.embedding.dense)
    layout.dense_width = std::max<std::uint64_t>({layout.dense_width, dense.inputs, dense.outputs});
  layout.dense_width = round_up(layout.dense_width, 16);
  layout.dense = cursor.take(layout.dense_width * 2 * sizeof(float), {"pooled", {2, layout.dense_width}});
  if (!spec.causal) {
    // One layer's at a time.
    const model::AttentionSpec one = spec.largest_attention();
    layout.kv = layout_of({0, 1, one.n_kv_heads, one.head_dim}, kernels, DType::f32, kTileTokens);
    // Twice the whole ones: a batch of short texts has blocks that are not full, and ends when there are no more.
    layout.key_blocks = 2 * layout.kv.blocks_for(batch);
    cursor.align(4096);
    layout.keys = cursor.take(
        layout.key_blocks * layout.kv.block_bytes(),
        {"keys_values", {layout.key_blocks, layout.kv.block_bytes()}, "bytes", {Step::qkv, Step::attention}});
  }
  if (region != nullptr) region->bytes = cursor.at();
  layout.bytes = cursor.at();
  return layout;
}

std::vector<KvLayout> kv_layouts(const model::ModelSpec& spec, const kernels::KernelSet& kernels, DType type,
                                 std::uint32_t block_tokens) {
  std::vector<KvLayout> layouts;
  layouts.reserve(spec.kv_groups.size());
  for (const model::KvGroup& group : spec.kv_groups) layouts.push_back(layout_of(group, kernels, type, block_tokens));
  return layouts;
}

std::uint64_t blocks_of_session(const KvLayout& layout, std::uint32_t window, std::uint64_t tokens,
                                std::uint64_t chunk) {
  const std::uint64_t all = layout.blocks_for(tokens);
  if (window == 0) return all;
  return std::min(all, ceil_div(std::uint64_t{window} - 1 + chunk, layout.block_tokens) + 1);
}

SessionLayout session_layout(const model::ModelSpec& spec, std::uint32_t max_token_bytes, const SessionShape& shape,
                             PlannedRegion* region) {
  SessionLayout layout;
  layout.max_tokens = shape.max_tokens;
  layout.max_logits = spec.gives_logits() ? shape.max_logits : 0;
  layout.max_draft = shape.max_draft;
  layout.n_groups = static_cast<std::uint32_t>(spec.kv_groups.size());
  layout.embeddings = shape.embeddings || spec.gives_embeddings_only();
  layout.max_blocks =
      layout.n_groups == 0 ? 0 : static_cast<std::uint32_t>(ceil_div(shape.max_tokens, shape.block_tokens));
  const std::uint64_t vocab_bytes = std::uint64_t{spec.n_vocab} * 4, blocks = layout.max_blocks;
  Cursor cursor(region);
  layout.table = cursor.take(layout.n_groups * blocks * 4, {"block_tables", {layout.n_groups, blocks}, "u32"});
  layout.names = cursor.take(shape.prefix ? blocks * sizeof(kv::PrefixName) : 0, {"prefix_names", {blocks}, "u64"});
  layout.sampler_logits = cursor.take(vocab_bytes, {"sampler_logits", {spec.n_vocab}});
  layout.sampler_ids = cursor.take(vocab_bytes, {"sampler_ids", {spec.n_vocab}, "u32"});
  layout.sampler_counts = cursor.take(vocab_bytes, {"sampler_counts", {spec.n_vocab}, "u32"});
  if (spec.gives_logits()) {
    layout.repeats = cursor.take(std::uint64_t{shape.max_tokens} * 4, {"repeats", {shape.max_tokens}, "u32"});
    layout.bounds = cursor.take(std::uint64_t{shape.max_tokens} * 4, {"surprise_bounds", {shape.max_tokens}});
  }
  layout.bias = cursor.take(std::uint64_t{spec.n_vocab} * sizeof(sampling::Bias),
                            {"biases", {spec.n_vocab, sizeof(sampling::Bias)}, "bytes"});
  layout.accepted_words = ceil_div(shape.max_tokens, 64);
  layout.accepted = cursor.take(layout.accepted_words * 8, {"accepted_tokens", {layout.accepted_words}, "u64"});
  // What one token adds (a replacement character is three bytes) on top of the longest stop text.
  layout.text_bytes = kMaxStopBytes + std::uint64_t{max_token_bytes} * 3 + 16;
  layout.text = cursor.take(layout.text_bytes, {"text", {layout.text_bytes}, "bytes"});
  const std::uint64_t hidden_rows = spec.classifier.n_labels != 0 ? 5 : 3;
  if (layout.embeddings)
    layout.embedding =
        cursor.take(spec.n_embd * hidden_rows * sizeof(float), {"hidden_states", {hidden_rows, spec.n_embd}});
  layout.bytes = cursor.at();
  layout.tokens_bytes = round_up(std::uint64_t{layout.max_tokens} * 4, 64);
  layout.logits_bytes = (std::uint64_t{layout.max_logits} + layout.max_draft) * vocab_bytes;
  if (region != nullptr) region->bytes = layout.bytes;
  return layout;
}

}  // namespace qinfer::engine
