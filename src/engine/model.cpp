// See model.h.
#include "engine/model.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "base/format.h"
#include "base/hash.h"
#include "kv/snapshot.h"
#include "model/distances.h"
#include "model/rope.h"
#include "platform/cgroup.h"
#include "platform/thread.h"

namespace qinfer::engine {
namespace {

/// Whether dead buffers of the scratch arena are filled with NaN, for which it must be known where they are.
#if defined(QINFER_POISON)
constexpr bool kPoisonsScratch = true;
#else
constexpr bool kPoisonsScratch = false;
#endif

/// Of `bytes`, load_peak or total, what memory_budget_bytes counts.
std::uint64_t counted(const MemoryTotals& totals, std::uint64_t bytes, const LoadOptions& options) {
  return options.budget_private ? bytes - totals.weights_mapped : bytes;
}

Status check_budget(const MemoryTotals& totals, const LoadOptions& options) {
  const std::uint64_t budget = options.memory_budget_bytes, needed = counted(totals, totals.load_peak, options);
  if (budget == 0 || needed <= budget) return Status();
  return error_at(
      Code::no_memory, static_cast<std::int64_t>(needed),
      "memory_budget_bytes is {}, loading needs {} (weights {} mapped{} and {} private, tables {}, scratch {})", budget,
      needed, totals.weights_mapped, options.budget_private ? ", not counted," : "", totals.weights_private,
      totals.tables, totals.scratch);
}

/// Bytes of the pages that QINFER_LOAD_LOCK keeps resident.
struct LockedWeights {
  std::uint64_t mapped = 0, in_memory = 0;
};

LockedWeights locked_weights(const model::WeightsPlan& plan) {
  LockedWeights out;
  const std::uint64_t page = platform::page_bytes();
  out.in_memory = plan.private_bytes / page * page;
  // Tensors share the pages at their ends with their neighbours.
  std::vector<std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>> ranges;  // file, first page, end
  for (const model::WeightItem& item : plan.items)
    if (item.mapped && item.bytes != 0)
      ranges.emplace_back(item.stored.file(), item.stored.offset() / page,
                          ceil_div(item.stored.offset() + item.bytes, page));
  std::sort(ranges.begin(), ranges.end());
  std::uint64_t reached = 0;
  std::uint32_t in_file = UINT32_MAX;
  for (const auto& [file, first, end] : ranges) {
    if (file != in_file) reached = 0;
    in_file = file;
    if (end > reached) out.mapped += (end - std::max(first, reached)) * page;
    reached = std::max(reached, end);
  }
  return out;
}

/// Locking reads every page, which takes minutes where a model is large: what cannot end well should not begin.
Status check_lock(const model::WeightsPlan& plan) {
  const LockedWeights weights = locked_weights(plan);
  const std::uint64_t bytes = weights.mapped + weights.in_memory;
  const auto needed = static_cast<std::int64_t>(bytes);
  const std::uint64_t memory = platform::system_memory().limit;
  if (memory != 0 && bytes > memory)
    return error_at(Code::no_memory, needed,
                    "QINFER_LOAD_LOCK would lock {} bytes ({} of mapped files, {} of private memory), more than the {} "
                    "of this machine or cgroup: load without it",
                    bytes, weights.mapped, weights.in_memory, memory);
  const platform::LockRoom room = platform::lock_room(bytes);
  if (room.enough) return Status();
  return error_at(Code::no_memory, needed,
                  "QINFER_LOAD_LOCK would lock {} bytes ({} of mapped files, {} of private memory), RLIMIT_MEMLOCK "
                  "(ulimit -l) is {} bytes with {} in use: raise it, or grant CAP_IPC_LOCK",
                  bytes, weights.mapped, weights.in_memory, room.limit, room.locked);
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

Target Model::target() const {
  return {*kernels_, runtime_->exact(), static_cast<std::uint32_t>(runtime_->team().size()), runtime_->allocator()};
}

Status Model::map_rope_table(source::ModelSource& source) {
  const model::TensorInfo& table = *blueprint_.packed_rope;
  QINFER_ASSIGN(rope_file_, source.map(table.file()));
  const std::span<const std::byte> data = rope_file_->bytes().subspan(table.offset(), table.bytes());
  if (blueprint_.weights_options.verify) QINFER_TRY(source.verify(table, data));
  packed_rope_ = reinterpret_cast<const float*>(data.data());
  return Status();
}

Status Model::load_weights(source::ModelSource& source, const model::LoadProgress& progress) {
  const model::ParallelFor parallel_for = [this](std::int64_t n, const auto& body) { runtime_->parallel_for(n, body); };
  QINFER_ASSIGN(weights_, model::load_weights(blueprint_.weights, source, *kernels_, blueprint_.weights_options,
                                              runtime_->allocator(), spec_, parallel_for, progress));
  QINFER_ASSIGN(scratch_, platform::Buffer::allocate(runtime_->allocator(), blueprint_.scratch.bytes,
                                                     "the scratch arena", platform::Pages::huge));
#if defined(QINFER_POISON)
  scratch_poison_ = ScratchPoison(scratch_.data(), blueprint_.scratch, blueprint_.scratch_region);
#endif
  if (spec_.has_distances)
    model::fill_distances(weights_.matrix(model::Role::distances),
                          reinterpret_cast<float*>(scratch_.data() + blueprint_.scratch.distances));
  weight_format_ = describe_formats();
  count_encodings();
  std::size_t experts = 0;
  for (const model::LayerSpec& layer : spec_.layers) {
    usage_begin_.push_back(experts);
    experts += layer.ffn.experts;
  }
  expert_usage_.resize(experts);
  return Status();
}

/// The encoding of the matrices that are multiplied; an embedding that is only looked up does not count, nor do
/// routers, which a kernel set may keep as the file has them, nor layers after pooling.
std::string Model::describe_formats() const {
  std::string text;
  for (const model::WeightItem& item : blueprint_.weights.items) {
    const model::Role role = item.need.id.role;
    if (item.need.is_vector || (role == model::Role::embedding && !item.serves_as_head)) continue;
    if (role == model::Role::router || role == model::Role::shared_router || model::is_row_table(role)) continue;
    if (role == model::Role::dense_first || role == model::Role::dense_second) continue;
    const std::string_view name = encoding_name(item.format.encoding);
    if (text.empty()) text = name;
    if (text != name) return "mixed";
  }
  return text;
}

void Model::count_encodings() {
  const model::WeightItem* before = nullptr;
  for (const model::WeightItem& item : blueprint_.weights.items) {
    const Encoding encoding = item.stored.packed ? item.stored.packed->original : item.stored.encoding;
    auto at = std::find_if(stored_encodings_.begin(), stored_encodings_.end(),
                           [&](const StoredEncoding& stored) { return stored.encoding == encoding; });
    if (at == stored_encodings_.end()) at = stored_encodings_.insert(at, StoredEncoding{encoding});
    at->memory_bytes += item.bytes;
    // A tied embedding that is also kept as a table of rows is one tensor of the file, listed twice.
    if (before != nullptr && before->stored.name == item.stored.name) continue;
    const auto n = static_cast<std::uint64_t>(item.need.rows) * static_cast<std::uint64_t>(item.need.cols);
    ++at->n_tensors;
    at->n_params += n;
    at->file_bytes += encoded_bytes(encoding, n);
    before = item.need.id.role == model::Role::embedding ? &item : before;
  }
  std::sort(stored_encodings_.begin(), stored_encodings_.end(),
            [](const StoredEncoding& a, const StoredEncoding& b) { return a.file_bytes > b.file_bytes; });
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

/// The encodings of all matrices, "q4_k+q6_k", where some are quantised: a packed file may hold a checkpoint in one mix
/// or in another, with the same fingerprint. Empty where none is.
std::string Model::describe_mix() const {
  std::set<std::string_view> names;
  bool quantised = false;
  for (const model::WeightItem& item : blueprint_.weights.items) {
    if (item.need.is_vector) continue;
    names.insert(encoding_name(item.format.encoding));
    quantised = quantised || !is_plain(item.format.encoding);
  }
  return quantised ? format_text("{}", join_texts(names, "+")) : std::string();
}

std::string Model::describe_origin() const {
  // A table of rows whose values differ from those of the LM head.
  const auto encoding = [this](model::Role role) { return weights_.matrix(role).format.encoding; };
  const bool rows = spec_.tied_embeddings && spec_.gives_logits() && has_weights() &&
                    encoding(model::Role::embedding) != encoding(model::Role::lm_head);
  // "mixed" is what layers that mixed encodings had when they were converted to f32.
  const std::string mix = describe_mix();
  std::string format = weight_format_ == "mixed" ? mix : weight_format_;
  if (format.empty() && weight_format_ == "mixed") format = "each";
  return format_text("{}{}/{}{}{}", kernels_->name, mix.empty() ? "" : kernels_->quantised_name, format,
                     rows ? "+rows" : "", runtime_->exact() ? "/exact" : "");
}

std::string Model::origin() const {
  std::string origin = describe_origin();
  if (origin.size() <= kv::kMaxSnapshotName) return origin;
  const std::size_t family = origin.find('/') + 1;
  return format_text("{}#{:016x}", origin.substr(0, family), hash_text(std::string_view(origin).substr(family)));
}

bool Model::has_origin(std::string_view saved) const {
  if (saved == origin()) return true;
  // Earlier builds cut what was longer.
  const std::string whole = describe_origin();
  return saved.size() == kv::kMaxSnapshotName && whole.starts_with(saved);
}

Result<std::shared_ptr<const Model>> Model::load(std::shared_ptr<Runtime> runtime, const std::string& path,
                                                 const LoadOptions& options, const model::LoadProgress& progress) {
  const platform::ScopedFloatEnvironment environment;
  QINFER_TRY(options.cancel.check("loading"));
  QINFER_ASSIGN(const auto source, source::ModelSource::open(path, options.source()));
  return load(std::move(runtime), *source, path, options, progress);
}

Result<std::shared_ptr<const Model>> Model::load(std::shared_ptr<Runtime> runtime, source::ModelSource& source,
                                                 const std::string& path, const LoadOptions& options,
                                                 const model::LoadProgress& progress) {
  // Numbers in files, the RoPE table and conversions must not depend on the host's rounding mode.
  const platform::ScopedFloatEnvironment environment;
  std::shared_ptr<Model> model(new Model);
  model->runtime_ = std::move(runtime);
  Runtime& model_runtime = *model->runtime_;
  if (!source.has_tensors() && !options.no_weights)
    return error_at(Code::format, -1, "{}: a config.json alone: it can be planned for, but there is nothing to load",
                    path);
  model->spec_ = source.spec();
  model->file_bytes_ = source.file_bytes();
  std::string refusal;
  QINFER_ASSIGN(const KernelsForModel chosen, kernels_for(source, model_runtime.kernels(), model_runtime.exact(),
                                                          options, !options.no_weights, refusal));
  model->kernels_ = chosen.set;
  if (!refusal.empty())
    model_runtime.log(LogLevel::warn, "kernel set {}, without tiles: {}", model->kernels_->name, refusal);
  Target target = model->target();
  target.packs = chosen.packs;
  QINFER_ASSIGN(model->blueprint_, plan_model(source, target, options, kPoisonsScratch));
  QINFER_ASSIGN(model->memory_, model->blueprint_.totals(model->spec_, 0));
  QINFER_TRY(check_budget(model->memory_, options));
  if (options.memory_budget_bytes != 0) model->budget_ = options.memory_budget_bytes;
  model->charged_ = counted(model->memory_, model->memory_.total, options);
  if (options.lock) QINFER_TRY(check_lock(model->blueprint_.weights));
  QINFER_TRY(options.cancel.check("loading"));
  model->tokenizer_ = source.take_tokenizer();
  model->metadata_ = source.take_metadata();
  model->chat_templates_ = source.take_chat_templates();
  model->prompts_ = source.take_prompts();
  if (model->tokenizer_ != nullptr) QINFER_TRY(model->tokenizer_->move_to(model_runtime.allocator()));
  if (!options.no_weights) {
    QINFER_TRY(model->blueprint_.packed_rope ? model->map_rope_table(source)
                                             : model->rope_.reserve(model->spec_, model_runtime.allocator()));
    const model::LoadProgress stop_or_report = [&](std::uint64_t done, std::uint64_t total) {
      return (!progress || progress(done, total)) &&
             !options.cancel.requested();  // the callback itself may have cancelled
    };
    QINFER_TRY(model->load_weights(source, stop_or_report));
    QINFER_ASSIGN(model->fingerprints_, source.fingerprints(options.cancel));
  }
  const std::uint64_t private_bytes = model->blueprint_.weights.private_bytes;
  if (model_runtime.logs(LogLevel::info) && private_bytes > 0)
    model_runtime.log(LogLevel::info, "weights: {} of {} private bytes on 2 MiB pages",
                      platform::huge_page_bytes(model->weights_.memory.data(), private_bytes), private_bytes);
  for (const std::string& note : source.notes()) model_runtime.log(LogLevel::warn, "{}: {}", path, note);
  model_runtime.log(LogLevel::info, "loaded {}: {}, {} parameters, weights {}, kernel set {}", path,
                    model->spec_.architecture, model->n_params(), model->weight_format_, model->kernels_->name);
  return std::shared_ptr<const Model>(std::move(model));
}

}  // namespace qinfer::engine
