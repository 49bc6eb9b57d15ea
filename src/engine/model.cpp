// See model.h.
#include "engine/model.h"

#include <algorithm>

#include "model/rope.h"
#include "platform/thread.h"

namespace qinfer::engine {
namespace {

/// config.json flattened: "config.rope_scaling.factor" -> "8.0"; lists and strings as JSON and text.
void flatten(const formats::Json& value, const std::string& prefix,
             std::map<std::string, std::string, std::less<>>& out) {
  if (value.is_object()) {
    for (const auto& [key, member] : value.items()) flatten(member, fmt::format("{}.{}", prefix, key), out);
  } else if (value.is_string()) {
    out[prefix] = value.get<std::string>();
  } else {
    out[prefix] = value.dump(-1, ' ', false, formats::Json::error_handler_t::replace);
  }
}

std::string describe_formats(const model::WeightsPlan& plan) {
  std::string text;
  for (const model::WeightItem& item : plan.items) {
    if (item.is_vector || item.role == kernels::WeightRole::embedding) continue;  // looked up, not multiplied
    const std::string_view name = dtype_name(item.format.dtype);
    if (text.empty()) text = name;
    if (text != name) return "mixed";
  }
  return text;
}

Status check_budget(const MemoryTotals& totals, std::uint64_t budget) {
  if (budget == 0 || totals.load_peak <= budget) return Status();
  return error_at(
      Code::no_memory, static_cast<std::int64_t>(totals.load_peak),
      "memory_budget_bytes is {}, loading needs {} (weights {} mapped and {} private, tables {}, scratch {})", budget,
      totals.load_peak, totals.weights_mapped, totals.weights_private, totals.tables, totals.scratch);
}

}  // namespace

bool Model::is_end_token(std::int32_t token) const {
  return std::find(spec_.end_tokens.begin(), spec_.end_tokens.end(), token) != spec_.end_tokens.end();
}

Status Model::fill_rope_table() {
  QINFER_ASSIGN(rope_, platform::Buffer::allocate(runtime_->allocator(), rope_table_bytes(spec_), "the RoPE table"));
  const std::uint64_t floats = std::uint64_t{spec_.context_tokens} * spec_.head_dim;
  std::vector<std::vector<float>> frequencies;
  frequencies.reserve(spec_.ropes.size());
  for (const model::RopeSpec& rope : spec_.ropes) frequencies.push_back(model::rope_frequencies(rope, spec_.head_dim));
  ThreadTeam& team = runtime_->team();
  const std::lock_guard lock(runtime_->eval_mutex());
  team.run([&](std::int32_t worker) {
    const auto part = [&](std::int32_t i) {
      return static_cast<std::uint32_t>(std::uint64_t{spec_.context_tokens} * static_cast<std::uint64_t>(i) /
                                        static_cast<std::uint64_t>(team.size()));
    };
    for (std::uint32_t i = 0; i < spec_.n_ropes(); ++i)
      model::fill_rope_table(spec_.ropes[i], frequencies[i], part(worker), part(worker + 1),
                             rope_.as<float>() + i * floats);
  });
  rope_table_ = rope_.as<float>();
  return Status();
}

Status Model::map_rope_table(ModelFiles& files, const formats::Tensor& tensor, bool verify) {
  QINFER_ASSIGN(rope_file_, files.packed->checkpoint.map_shard(tensor.shard));
  const std::span<const std::byte> data = rope_file_->bytes().subspan(tensor.begin, tensor.bytes());
  if (verify) QINFER_TRY(files.packed->verify(model::kRopeTensor, data));
  rope_table_ = reinterpret_cast<const float*>(data.data());
  return Status();
}

Status Model::load_weights(ModelFiles& files, const model::WeightsPlan& plan, const model::WeightsOptions& options,
                           const model::LoadProgress& progress) {
  const model::ParallelFor parallel_for = [this](std::int64_t n, const auto& body) {
    ThreadTeam& team = runtime_->team();
    const std::lock_guard lock(runtime_->eval_mutex());
    team.run([&](std::int32_t worker) {
      const std::int64_t begin = n * worker / team.size(), end = n * (worker + 1) / team.size();
      if (begin < end) body(begin, end);
    });
  };
  QINFER_ASSIGN(weights_, model::load_weights(plan, *files.tensors(), files.packed ? &*files.packed : nullptr,
                                              runtime_->kernels(), options, runtime_->allocator(), spec_.n_layers(),
                                              parallel_for, progress));
  QINFER_ASSIGN(scratch_, platform::Buffer::allocate(runtime_->allocator(), scratch_layout_.bytes, "the scratch arena",
                                                     platform::Pages::huge));
#if defined(QINFER_POISON)
  MappedRegion region;
  (void)engine::scratch_layout(spec_, runtime_->kernels(), scratch_layout_.batch,
                               static_cast<std::uint32_t>(runtime_->team().size()), &region);
  scratch_poison_ = ScratchPoison(scratch_.data(), scratch_layout_, std::move(region));
#endif
  n_params_ = plan.n_params;
  weight_format_ = describe_formats(plan);
  return Status();
}

namespace {

Result<std::string> fingerprint_of(const ModelFiles& files, const std::string& path) {
  if (files.packed) return files.packed->source;
  QINFER_ASSIGN(const platform::Directory directory, platform::Directory::open(path));
  return model::source_fingerprint(directory, *files.tensors());
}

}  // namespace

Result<Charge> Model::charge(std::uint64_t bytes, std::string_view what,
                             const std::function<std::string(std::uint64_t left)>& what_fits) const {
  std::uint64_t before = charged_;
  do {
    if (bytes <= budget_ && before <= budget_ - bytes) continue;
    const std::uint64_t left = budget_ - std::min(before, budget_);
    const std::uint64_t all = bytes > UINT64_MAX - before ? UINT64_MAX : before + bytes;
    const auto needed = static_cast<std::int64_t>(std::min<std::uint64_t>(all, INT64_MAX));
    return error_at(Code::no_memory, needed, "memory_budget_bytes is {}, of which {} are left: {} needs {}; {}",
                    budget_, left, what, bytes, what_fits(left));
  } while (!charged_.compare_exchange_weak(before, before + bytes));
  return Charge(charged_, bytes);
}

std::string Model::origin() const {
  return std::string(runtime_->kernels().name) + "/" + weight_format_ + (runtime_->exact() ? "/exact" : "");
}

Result<std::shared_ptr<const Model>> Model::load(std::shared_ptr<Runtime> runtime, const std::string& path,
                                                 const LoadOptions& options, const model::LoadProgress& progress,
                                                 const std::atomic<bool>* cancelled) {
  // Numbers in files, the RoPE table and conversions must not depend on the host's rounding mode.
  const platform::ScopedFloatEnvironment environment;
  const auto is_cancelled = [cancelled] { return cancelled != nullptr && cancelled->load(); };
  if (is_cancelled()) return error(Code::cancelled, "loading was cancelled before it began");
  std::shared_ptr<Model> model(new Model);
  model->runtime_ = std::move(runtime);
  Runtime& shared = *model->runtime_;
  QINFER_ASSIGN(const model::WeightsOptions weights_options, engine::weights_options(options, shared.exact()));
  QINFER_ASSIGN(const std::uint32_t batch, batch_tokens(options));
  QINFER_ASSIGN(ModelFiles files, read_model_files(path, options));
  model->spec_ = files.spec;
  model->file_bytes_ = files.file_bytes;
  flatten(files.config, "config", model->metadata_);

  model::WeightsPlan plan;
  if (!options.no_weights) {
    QINFER_ASSIGN(plan, plan_model_weights(files, shared.kernels(), weights_options));
    for (const auto& [key, value] : files.tensors()->metadata())
      if (!key.starts_with("qinfer.tensor.")) model->metadata_["safetensors." + key] = value;
    model->scratch_layout_ =
        engine::scratch_layout(files.spec, shared.kernels(), batch, static_cast<std::uint32_t>(shared.team().size()));
  }
  model->memory_ = model_totals(files, plan, model->scratch_layout_, options);
  QINFER_TRY(check_budget(model->memory_, options.memory_budget_bytes));
  if (options.memory_budget_bytes != 0) model->budget_ = options.memory_budget_bytes;
  model->charged_ = model->memory_.total;
  if (is_cancelled()) return error(Code::cancelled, "loading was cancelled");
  if (files.tokenizer != nullptr) QINFER_TRY(files.tokenizer->move_to(shared.allocator()));
  if (!options.no_weights) {
    const formats::Tensor* rope = packed_rope(files, options);
    QINFER_TRY(rope != nullptr ? model->map_rope_table(files, *rope, options.verify) : model->fill_rope_table());
    const model::LoadProgress stop_or_report = [&](std::uint64_t done, std::uint64_t total) {
      return (!progress || progress(done, total)) && !is_cancelled();  // the callback itself may have cancelled
    };
    QINFER_TRY(model->load_weights(files, plan, weights_options, stop_or_report));
    QINFER_ASSIGN(model->fingerprint_, fingerprint_of(files, path));
  }
  model->weights_plan_ = std::move(plan);
  model->tokenizer_ = std::move(files.tokenizer);
  const std::uint64_t private_bytes = model->weights_plan_.private_bytes;
  if (shared.logs(LogLevel::info) && private_bytes > 0)
    shared.log(LogLevel::info, "weights: {} of {} private bytes on 2 MiB pages",
               platform::huge_page_bytes(model->weights_.memory.data(), private_bytes), private_bytes);
  shared.log(LogLevel::info, "loaded {}: {}, {} parameters, weights {}", path, model->spec_.architecture,
             model->n_params_, model->weight_format_);
  return std::shared_ptr<const Model>(std::move(model));
}

}  // namespace qinfer::engine
