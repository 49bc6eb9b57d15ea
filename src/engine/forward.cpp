// See forward.h.
//
// All threads run the same pass, Pass::work(), and meet at a barrier after each phase of an operation: about five to a
// layer (qkv, attention, output projection, gate and up, down), up to eight more in a mixture of experts. Between two
// barriers each thread computes some of the phase's units. The norms of few rows are computed by the thread that
// arrives last at the barrier before them, while the others still wait there; the norms of many rows are a separate
// operation, compared with which its barrier is cheap.
#include "engine/forward.h"

#include <algorithm>
#include <cmath>
#include <variant>

#include "engine/phases.h"
#include "model/distances.h"

namespace qinfer::engine {
namespace {

using model::AttentionSpec;
using model::Role;

/// Up to this many rows a norm is cheaper than a barrier; one that cannot be cut always is.
constexpr std::int64_t kSerialNormRows = 8;
/// Attention is split by segments of keys only for this many rows; more rows make enough units by themselves.
constexpr std::int64_t kSplitRows = 4;

class Pass {
 public:
  Pass(const Model& model, std::span<const KvLayout> kv_layouts, const Batch& batch, const std::atomic<bool>* cancelled)
      : model_(model),
        spec_(model.spec()),
        kernels_(model.kernels()),
        team_(model.runtime().team()),
        kv_layouts_(kv_layouts),
        batch_(batch),
        cancelled_(cancelled),
        layout_(model.scratch_layout()),
        residual_(kernels_.layouts.residual_of(batch.n_rows)),
        operand_(kernels_.layouts.operand_of(batch.n_rows)),
        query_(kernels_.layouts.query_of(batch.n_rows)) {}

  bool run() {
    team_.run([this](std::int32_t worker) { work(worker); });
    model_.scratch_poison().after_pass();
    return !stop_;
  }

 private:
  kernels::Activations view(std::uint64_t offset, kernels::ActivationLayout layout, std::uint32_t width) const {
    return {model_.scratch() + offset, layout, width};
  }
  kernels::Activations residual(std::uint64_t offset) const { return view(offset, residual_, spec_.n_embd); }
  kernels::Activations operand(std::uint64_t offset, std::uint32_t width) const {
    return view(offset, operand_, width);
  }
  kernels::Activations queries(const AttentionSpec& about) const { return view(layout_.q, query_, about.q_dim()); }

  kernels::Workspace workspace(std::uint64_t shared_offset) const {
    return {model_.scratch() + shared_offset, model_.scratch() + layout_.per_worker, layout_.per_worker_bytes};
  }

  template <typename Args, typename Then>
  void run_phases(const kernels::Operation<Args>& operation, const Args& args, std::int32_t worker, Then&& then) {
    engine::run_phases(team_, operation, args, worker, then);
  }

  /// Runs one step of the pass; debug builds then poison the buffers whose lifetime ends with it.
  template <typename Args, typename Then>
  void run_step(Step step, const kernels::Operation<Args>& operation, const Args& args, std::int32_t worker,
                Then&& then) {
    run_phases(operation, args, worker, [&](std::int32_t w) {
      model_.scratch_poison().after(step);
      then(w);
    });
  }

  template <typename Args>
  void run_step(Step step, const kernels::Operation<Args>& operation, const Args& args, std::int32_t worker) {
    run_step(step, operation, args, worker, [](std::int32_t) {});
  }

  bool is_serial(const kernels::NormArgs& args) const {
    const std::int64_t units = kernels_.norm.units(args, 0);
    return args.n <= kSerialNormRows || units == 1;
  }

  /// With many rows a norm is cut among the threads.
  void run_norm(const kernels::NormArgs& args, std::int32_t worker) {
    run_phases(kernels_.norm, args, worker, [](std::int32_t) {});
  }

  kernels::NormArgs norm_args(Role role, std::uint32_t layer, const std::int32_t* gather, std::int64_t n) const {
    kernels::NormArgs args{n,
                           spec_.n_embd,
                           gather,
                           residual(layout_.h),
                           model_.weights().vector(role, layer),
                           spec_.norm_eps,
                           operand(layout_.normed, spec_.n_embd)};
    args.centred = spec_.norm_kind != model::NormKind::rms;
    if (const auto bias = model::bias_of(role)) args.bias = model_.weights().vector(*bias, layer);
    return args;
  }

  /// Runs an operation and the norm that follows it.
  template <typename Args>
  void run_then_norm(Step step, const kernels::Operation<Args>& operation, const Args& args,
                     const kernels::NormArgs& norm, std::int32_t worker) {
    const bool serial = is_serial(norm);
    run_step(step, operation, args, worker, [&](std::int32_t w) {
      if (cancelled_ != nullptr && cancelled_->load()) stop_ = true;
      if (serial) run_whole(norm, w);
    });
    if (!serial) run_norm(norm, worker);
  }

  const KvLayout& kv_of(const AttentionSpec& about) const { return kv_layouts_[about.kv_group]; }

  std::span<const kernels::Sequence> sequences_of(const AttentionSpec& about) const {
    return {batch_arrays(model_).sequences_of(about.kv_group), batch_.n_sequences};
  }

  kernels::QkvArgs qkv_args(const AttentionSpec& about, std::uint32_t layer) const {
    const model::Weights& w = model_.weights();
    kernels::QkvArgs args;
    args.n = batch_.n_rows;
    args.x = operand(layout_.normed, spec_.n_embd);
    args.wq = w.linear(Role::q, layer), args.wk = w.linear(Role::k, layer), args.wv = w.linear(Role::v, layer);
    args.q_norm = w.vector(Role::q_norm, layer), args.k_norm = w.vector(Role::k_norm, layer);
    args.norm_eps = spec_.norm_eps;
    args.rules = about.rules;
    args.norm_whole = about.qk_norm == model::QkNorm::whole;
    args.rope = about.no_rope ? nullptr : model_.rope(about.rope);
    args.n_heads = about.n_heads;
    args.kv = kv_of(about);
    args.layer = about.kv_index;
    args.sequences = sequences_of(about);
    args.q = queries(about);
    args.workspace = workspace(layout_.shared);
    return args;
  }

  kernels::AttentionArgs attention_args(const AttentionSpec& about) const {
    kernels::AttentionArgs args;
    args.n = batch_.n_rows;
    args.q = queries(about);
    args.out = operand(layout_.attn_out, about.q_dim());
    args.n_heads = about.n_heads;
    args.scale =
        about.scale != 0 ? about.scale : static_cast<float>(1.0 / std::sqrt(static_cast<double>(about.head_dim)));
    args.softcap = about.softcap;
    if (spec_.has_distances)
      args.bias = {reinterpret_cast<const float*>(model_.scratch() + layout_.distances), model::kDistanceReach};
    args.causal = spec_.causal;
    args.window = about.window;
    args.kv = kv_of(about);
    args.layer = about.kv_index;
    args.sequences = sequences_of(about);
    args.workspace = workspace(layout_.attn_shared);
    args.split = false;
    if (batch_.n_rows <= kSplitRows && batch_.longest_context > kSegmentTokens)
      args.split = kernels_.attention_split_bytes(args) <= layout_.attn_shared_bytes;
    return args;
  }

  void run_whole(const kernels::NormArgs& args, std::int32_t worker) const {
    if (args.n > 0) kernels_.norm.run(args, 0, {0, kernels_.norm.units(args, 0), worker});
  }

  /// Runs an operation that adds to h, or whose results go through `post_norm` first, and then the norm that follows.
  template <typename Args>
  void run_and_add(Step step, const kernels::Operation<Args>& operation, Args args, Role post_norm, std::uint32_t layer,
                   const kernels::NormArgs& next, std::int32_t worker) {
    if (model_.weights().vector(post_norm, layer) == nullptr) return run_then_norm(step, operation, args, next, worker);
    args.accumulate = false;
    args.out = residual(layout_.normed);
    kernels::NormArgs add = norm_args(post_norm, layer, nullptr, batch_.n_rows);
    add.x = args.out;
    add.out = residual(layout_.h);
    add.accumulate = true;
    const bool serial = is_serial(add);
    run_step(step, operation, args, worker, [&](std::int32_t w) {
      if (cancelled_ != nullptr && cancelled_->load()) stop_ = true;
      if (!serial) return;
      run_whole(add, w);
      run_whole(next, w);
    });
    if (serial) return;
    run_norm(add, worker);
    run_norm(next, worker);
  }

  /// The mixer of layer `layer` over normed rows, added to the residual stream, and the norm of the network after it.
  void mix(const AttentionSpec& about, std::uint32_t layer, std::int32_t worker) {
    const model::Weights& w = model_.weights();
    run_step(Step::qkv, kernels_.qkv, qkv_args(about, layer), worker);
    run_step(Step::attention, kernels_.attention, attention_args(about), worker);
    const kernels::LinearArgs out{batch_.n_rows,
                                  operand(layout_.attn_out, about.q_dim()),
                                  w.linear(Role::o, layer, spec_.layers[layer].residual_scale),
                                  true,
                                  residual(layout_.h),
                                  workspace(layout_.shared)};
    run_and_add(Step::output, kernels_.linear, out, Role::attn_post_norm, layer, layer_norm(Role::ffn_norm, layer),
                worker);
  }

  /// Layer `layer` over normed rows; ends with the norm that the next consumer needs.
  void layer(std::uint32_t layer, std::int32_t worker) {
    std::visit([&](const auto& about) { mix(about, layer, worker); }, spec_.layers[layer].mixer);
    if (stop_) return;
    const bool last = layer + 1 == spec_.n_layers();
    const kernels::NormArgs next = last ? last_norm() : layer_norm(Role::attn_norm, layer + 1);
    if (spec_.layers[layer].ffn.has_experts()) {
      run_and_add(Step::ffn, kernels_.moe_ffn, moe_args(layer), Role::ffn_post_norm, layer, next, worker);
    } else {
      run_and_add(Step::ffn, kernels_.ffn, ffn_args(layer), Role::ffn_post_norm, layer, next, worker);
    }
  }

  kernels::FfnArgs ffn_args(std::uint32_t layer) const {
    const model::Weights& w = model_.weights();
    kernels::FfnArgs args;
    args.n = batch_.n_rows;
    args.x = operand(layout_.normed, spec_.n_embd);
    args.gate = w.linear(Role::gate, layer), args.up = w.linear(Role::up, layer);
    args.down = w.linear(Role::down, layer, spec_.layers[layer].residual_scale);
    args.out = residual(layout_.h);
    args.workspace = workspace(layout_.ffn_shared);
    args.activation = spec_.layers[layer].ffn.activation;
    return args;
  }

  kernels::MoeArgs moe_args(std::uint32_t layer) const {
    const model::Weights& w = model_.weights();
    const model::FfnSpec& about = spec_.layers[layer].ffn;
    kernels::MoeArgs args;
    args.n = batch_.n_rows;
    args.x = operand(layout_.normed, spec_.n_embd);
    args.router = w.linear(Role::router, layer);
    args.gate = w.experts(Role::gate, layer), args.up = w.experts(Role::up, layer);
    args.down = w.experts(Role::down, layer);
    args.shared_router = w.linear(Role::shared_router, layer);
    args.shared_gate = w.linear(Role::shared_gate, layer), args.shared_up = w.linear(Role::shared_up, layer);
    args.shared_down = w.linear(Role::shared_down, layer);
    args.experts = about.experts, args.top_k = about.top_k;
    args.normalise = about.normalise;
    args.out = residual(layout_.h);
    args.buffers = {model_.scratch() + layout_.moe_routes, model_.scratch() + layout_.moe_gathered,
                    model_.scratch() + layout_.moe_inner};
    args.workspace = workspace(layout_.moe_routes);
    args.activation = about.activation;
    args.scale = spec_.layers[layer].residual_scale;
    args.usage = model_.expert_usage(layer);
    return args;
  }

  /// One of a layer's norms, of all rows; a layer that has none there reads the residual stream as it is.
  kernels::NormArgs layer_norm(Role role, std::uint32_t layer) const {
    const model::NormPlaces& places = spec_.layers[layer].norms;
    kernels::NormArgs args = norm_args(role, layer, nullptr, batch_.n_rows);
    args.replaces = role == Role::attn_norm ? places.attention_replaces : places.ffn_replaces;
    return args;
  }

  /// After the last layer only the rows go on whose logits are wanted, or all of them to be gathered.
  kernels::NormArgs last_norm() const {
    if (batch_.n_embeddings == 0) return logit_norm();
    kernels::NormArgs args = norm_args(Role::final_norm, 0, nullptr, batch_.n_rows);
    args.out.layout = kernels::ActivationLayout::row_major;
    return args;
  }

  /// The rows whose logits are wanted, of which there may be so few that their layout is another than the batch's.
  kernels::Activations logit_operand() const {
    return view(layout_.normed, kernels_.layouts.operand_of(batch_.n_logits), spec_.n_embd);
  }

  kernels::NormArgs logit_norm() const {
    kernels::NormArgs args = norm_args(Role::final_norm, 0, batch_arrays(model_).logit_rows, batch_.n_logits);
    args.out = logit_operand();
    return args;
  }

  /// Adds the final hidden states of all rows to what their sessions have; each worker has some of the columns, and
  /// rows are added in their order, so that the sum does not depend on threads or chunks.
  void gather_embeddings(std::int32_t worker) {
    team_.together(
        worker, [this](std::int32_t w) { gather_columns(w); }, [](std::int32_t) {});
  }

  void gather_columns(std::int32_t worker) {
    const std::int64_t width = spec_.n_embd;
    const std::int64_t begin = width * worker / team_.size(), end = width * (worker + 1) / team_.size();
    const kernels::Activations normed = view(layout_.normed, kernels::ActivationLayout::row_major, spec_.n_embd);
    for (std::size_t s = 0; s < batch_.n_embeddings; ++s) {
      const HiddenStateRows& about = batch_arrays(model_).embeddings[s];
      float *first = about.out, *sum = first + width, *last = sum + width;
      for (std::int64_t i = begin; i < end; ++i) {
        if (about.begins) first[i] = normed.row(about.first_row)[i];
        float total = about.begins ? 0.0f : sum[i];
        for (std::int32_t r = 0; r < about.n_rows; ++r) total += normed.row(about.first_row + r)[i];
        sum[i] = total;
        last[i] = normed.row(about.first_row + about.n_rows - 1)[i];
      }
    }
  }

  /// Copies the host's hidden states into the residual stream, or out of it: f32 both, so that no bit changes. Each
  /// worker has some of the rows.
  template <typename Then>
  void copy_hidden(bool in, std::int32_t worker, Then&& then) {
    team_.together(
        worker,
        [this, in](std::int32_t w) {
          for (std::size_t s = 0; s < batch_.n_sequences; ++s) {
            const HiddenRows& rows = batch_arrays(model_).hidden[s];
            const std::int32_t begin = rows.n_rows * w / team_.size(), end = rows.n_rows * (w + 1) / team_.size();
            for (std::int32_t r = begin; r < end; ++r) copy_hidden_row(in, rows, r);
          }
        },
        then);
  }

  void copy_hidden_row(bool in, const HiddenRows& rows, std::int32_t r) const {
    const std::int64_t width = spec_.n_embd, row = rows.first_row + r, panel = kernels::kPanelRows;
    const bool is_row_major = residual_ == kernels::ActivationLayout::row_major;
    const std::int64_t step = is_row_major ? 1 : panel;
    float* at = residual(layout_.h).f32() + (is_row_major ? row * width : row / panel * panel * width + row % panel);
    for (std::int64_t i = 0; i < width; ++i) {
      if (in) {
        at[i * step] = rows.in[r * width + i];
      } else {
        rows.out[r * width + i] = at[i * step];
      }
    }
  }

  /// The embeddings of the tokens, or what the stage before this one gives, and the first norm.
  void begin(std::int32_t worker) {
    const kernels::NormArgs norm = layer_norm(Role::attn_norm, 0);
    if (!spec_.takes_hidden()) return embed(norm, worker);
    const bool serial = is_serial(norm);
    copy_hidden(true, worker, [&](std::int32_t w) {
      if (serial) run_whole(norm, w);
    });
    if (!serial) run_norm(norm, worker);
  }

  void embed(const kernels::NormArgs& norm, std::int32_t worker) {
    const BatchArrays arrays = batch_arrays(model_);
    const model::Weights& w = model_.weights();
    const kernels::EmbedArgs embed{
        batch_.n_rows,
        arrays.tokens,
        w.matrix(Role::embedding),
        residual(layout_.h),
        spec_.embedding_scale,
        {{arrays.types, w.matrix(Role::types)}, {arrays.positions, w.matrix(Role::positions)}}};
    run_then_norm(Step::embed, kernels_.embed, embed, norm, worker);
  }

  void work(std::int32_t worker) {
    const BatchArrays arrays = batch_arrays(model_);
    begin(worker);
    for (std::uint32_t i = 0; i < spec_.n_layers() && !stop_; ++i) layer(i, worker);
    if (stop_) return;
    if (spec_.gives_hidden()) return copy_hidden(false, worker, [](std::int32_t) {});
    if (batch_.n_embeddings != 0) {
      gather_embeddings(worker);
      if (batch_.n_logits != 0) run_norm(logit_norm(), worker);
    }
    if (batch_.n_logits == 0) return;
    const kernels::LmHeadArgs head{
        batch_.n_logits,  logit_operand(),           model_.weights().linear(Role::lm_head, 0, spec_.logit_scale),
        arrays.logit_out, workspace(layout_.shared), spec_.logit_softcap};
    run_step(Step::head, kernels_.lm_head, head, worker);
  }

  const Model& model_;
  const model::ModelSpec& spec_;
  const kernels::KernelSet& kernels_;
  ThreadTeam& team_;
  std::span<const KvLayout> kv_layouts_;
  const Batch& batch_;
  const std::atomic<bool>* cancelled_;
  const ScratchLayout& layout_;
  const kernels::ActivationLayout residual_, operand_, query_;  ///< of all rows of the batch
  bool stop_ = false;  ///< written by the last thread at a barrier, read by all after it
};

}  // namespace

BatchArrays batch_arrays(const Model& model) {
  const ScratchLayout& layout = model.scratch_layout();
  std::byte* base = model.scratch();
  return {reinterpret_cast<std::int32_t*>(base + layout.tokens),
          reinterpret_cast<std::int32_t*>(base + layout.positions),
          reinterpret_cast<std::int32_t*>(base + layout.types),
          reinterpret_cast<std::int32_t*>(base + layout.logit_rows),
          reinterpret_cast<float**>(base + layout.logit_out),
          reinterpret_cast<kernels::Sequence*>(base + layout.sequences),
          reinterpret_cast<HiddenStateRows*>(base + layout.embeddings),
          reinterpret_cast<HiddenRows*>(base + layout.hidden),
          layout.batch_capacity};
}

bool forward(const Model& model, std::span<const KvLayout> kv_layouts, const Batch& batch,
             const std::atomic<bool>* cancelled) {
  return Pass(model, kv_layouts, batch, cancelled).run();
}

}  // namespace qinfer::engine
