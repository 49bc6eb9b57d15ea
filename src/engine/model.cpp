// See model.h.
#include "engine/model.h"

#include <algorithm>

#include "platform/thread.h"

namespace qinfer::engine {
namespace {

/// What describes a model is small; names that repeat in every path below them could make a gigabyte of a megabyte.
constexpr std::size_t kMaxMetadata = 64 << 20;

/// config.json flattened: "config.rope_scaling.factor" -> "8.0"; lists and strings as JSON and text.
Status flatten(const formats::Json& value, std::string& prefix, std::size_t& left, formats::TextTable& out) {
  if (!value.is_object()) {
    const std::string text = value.is_string() ? std::string(value.text()) : formats::json_text(value);
    if (prefix.size() + text.size() > left)
      return error_at(Code::format, -1, "config.json: its fields and their paths take more than {} bytes",
                      kMaxMetadata);
    left -= prefix.size() + text.size();
    out.add(prefix, text);
    return Status();
  }
  const std::size_t size = prefix.size();
  for (const formats::Json& member : value) {
    prefix.append(".").append(member.key());
    QINFER_TRY(flatten(member, prefix, left, out));
    prefix.resize(size);
  }
  return Status();
}

Result<formats::TextTable> describe(const ModelFiles& files, bool with_tensors) {
  formats::TextTable out;
  std::string prefix = "config";
  std::size_t left = kMaxMetadata;
  QINFER_TRY(flatten(files.config.root(), prefix, left, out));
  if (with_tensors) {
    const formats::TextTable& metadata = files.tensors()->metadata();
    for (std::size_t i = 0; i < metadata.size(); ++i)
      if (!metadata.key(i).starts_with("qinfer.tensor."))
        out.add("safetensors." + std::string(metadata.key(i)), metadata.value(i));
  }
  static_cast<void>(out.finish());
  return out;
}

std::string describe_formats(const model::WeightsPlan& plan) {
  std::string text;
  for (const model::WeightItem& item : plan.items) {
    if (item.is_vector || item.role == kernels::WeightRole::embedding) continue;  // looked up, not multiplied
    const std::string_view name = encoding_name(item.format.encoding);
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

Status Model::prepare_rope(std::uint32_t tokens) const {
  if (packed_rope_ != nullptr) return Status();
  return rope_.fill(spec_, tokens, *runtime_, [this](std::uint64_t bytes) {
    return charge(bytes, "the RoPE table", [](std::uint64_t) { return std::string("fewer max_tokens take less"); });
  });
}

MemoryTotals Model::memory() const {
  MemoryTotals totals = memory_;
  if (RopeTable::takes_all_at_once(runtime_->allocator())) return totals;
  totals.tables += rope_.bytes();
  totals.total += rope_.bytes();
  return totals;
}

Status Model::map_rope_table(ModelFiles& files, const formats::Tensor& tensor, bool verify) {
  QINFER_ASSIGN(rope_file_, files.packed->checkpoint.map_shard(tensor.shard));
  const std::span<const std::byte> data = rope_file_->bytes().subspan(tensor.begin, tensor.bytes());
  if (verify) QINFER_TRY(files.packed->verify(model::kRopeTensor, data));
  packed_rope_ = reinterpret_cast<const float*>(data.data());
  return Status();
}

Status Model::load_weights(ModelFiles& files, const model::WeightsPlan& plan, const model::WeightsOptions& options,
                           const model::LoadProgress& progress) {
  const model::ParallelFor parallel_for = [this](std::int64_t n, const auto& body) {
    ThreadTeam& team = runtime_->team();
    const Lock lock(runtime_->eval_mutex());
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

Result<std::string> fingerprint_of(const ModelFiles& files, const std::string& path, const LoadOptions& load) {
  if (files.packed) return files.packed->source;
  QINFER_ASSIGN(const platform::Directory directory, platform::Directory::open(path, load.files));
  return model::source_fingerprint(directory, *files.tensors(), load.cancel);
}

}  // namespace

void Model::set_chat_templates(std::vector<ChatTemplate> templates) {
  std::sort(templates.begin(), templates.end(),
            [](const ChatTemplate& a, const ChatTemplate& b) { return a.name < b.name; });
  chat_templates_ = std::move(templates);
}

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
  std::string_view rows;  // of tied embeddings, if they are not what the LM head has
  for (const model::WeightItem& item : weights_plan_.items)
    if (spec_.tied_embeddings && item.role == kernels::WeightRole::embedding && spec_.causal)
      rows = weights_.embedding.format.encoding != weights_.lm_head.format.encoding ? "+rows" : "";
  return fmt::format("{}/{}{}{}", runtime_->kernels().name, weight_format_, rows, runtime_->exact() ? "/exact" : "");
}

Result<std::shared_ptr<const Model>> Model::load(std::shared_ptr<Runtime> runtime, const std::string& path,
                                                 const LoadOptions& options, const model::LoadProgress& progress) {
  // Numbers in files, the RoPE table and conversions must not depend on the host's rounding mode.
  const platform::ScopedFloatEnvironment environment;
  QINFER_TRY(options.cancel.check("loading"));
  std::shared_ptr<Model> model(new Model);
  model->runtime_ = std::move(runtime);
  Runtime& shared = *model->runtime_;
  QINFER_ASSIGN(const model::WeightsOptions weights_options, engine::weights_options(options, shared.exact()));
  QINFER_ASSIGN(const std::uint32_t batch, batch_tokens(options));
  QINFER_ASSIGN(ModelFiles files, read_model_files(path, options));
  model->spec_ = files.spec;
  model->file_bytes_ = files.file_bytes;
  QINFER_ASSIGN(model->metadata_, describe(files, !options.no_weights));

  model::WeightsPlan plan;
  if (!options.no_weights) {
    QINFER_ASSIGN(plan, plan_model_weights(files, shared.kernels(), weights_options));
    model->scratch_layout_ =
        engine::scratch_layout(files.spec, shared.kernels(), batch, static_cast<std::uint32_t>(shared.team().size()));
  }
  QINFER_ASSIGN(model->memory_, model_totals(files, plan, model->scratch_layout_, options, shared.allocator(), 0));
  QINFER_TRY(check_budget(model->memory_, options.memory_budget_bytes));
  if (options.memory_budget_bytes != 0) model->budget_ = options.memory_budget_bytes;
  model->charged_ = model->memory_.total;
  QINFER_TRY(options.cancel.check("loading"));
  if (files.tokenizer != nullptr) QINFER_TRY(files.tokenizer->move_to(shared.allocator()));
  if (!options.no_weights) {
    const formats::Tensor* rope = packed_rope(files, options);
    QINFER_TRY(rope != nullptr ? model->map_rope_table(files, *rope, options.verify)
                               : model->rope_.reserve(model->spec_, shared.allocator()));
    const model::LoadProgress stop_or_report = [&](std::uint64_t done, std::uint64_t total) {
      return (!progress || progress(done, total)) &&
             !options.cancel.requested();  // the callback itself may have cancelled
    };
    QINFER_TRY(model->load_weights(files, plan, weights_options, stop_or_report));
    QINFER_ASSIGN(model->fingerprint_, fingerprint_of(files, path, options));
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
