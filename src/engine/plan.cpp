// See plan.h.
#include "engine/plan.h"

#include "engine/rope_table.h"

#include <algorithm>
#include <bit>

namespace qinfer::engine {
namespace {

constexpr std::uint64_t kMaxConfigBytes = 1 << 20;
constexpr std::uint64_t kMaxTokenizerBytes = 256 << 20;

/// "torch_dtype" (version 4) or "dtype" (version 5); bf16 where neither tells.
Encoding stated_encoding(const formats::Json& config) {
  for (const char* key : {"dtype", "torch_dtype"}) {
    const formats::Json* value = formats::find_field(config, key);
    if (value == nullptr || !value->is_string()) continue;
    const std::string_view text = value->text();
    if (text == "float32") return Encoding::f32;
    if (text == "float16") return Encoding::f16;
  }
  return Encoding::bf16;
}

/// The texts of a model: files of a directory, or parts of a packed model.
class Texts {
 public:
  explicit Texts(const platform::Directory& directory) : directory_(&directory) {}
  explicit Texts(const model::PackedFile& packed) : packed_(&packed) {}

  Result<std::string> read(std::string_view name, std::uint64_t max_bytes) const {
    return directory_ != nullptr ? directory_->read_text(name, max_bytes) : packed_->text(name, max_bytes);
  }
  /// Absent files are std::nullopt.
  Result<std::optional<std::string>> find(std::string_view name, std::uint64_t max_bytes) const {
    auto text = read(name, max_bytes);
    Status status = text.take_status();
    if (status.ok()) return std::optional<std::string>(std::move(text.value()));
    if (status.code() == Code::not_found) return std::optional<std::string>();
    return status;
  }

 private:
  const platform::Directory* directory_ = nullptr;
  const model::PackedFile* packed_ = nullptr;
};

Status read_generation_config(const Texts& texts, model::ModelSpec& spec, CancelFlag cancel) {
  constexpr std::string_view kName = "generation_config.json";
  QINFER_ASSIGN(const auto text, texts.find(kName, kMaxConfigBytes));
  if (!text) return Status();
  QINFER_ASSIGN(const formats::JsonDocument config, formats::parse_json(*text, kName, cancel));
  return model::apply_generation_config(config.root(), kName, spec);
}

Status read_tokenizer(const Texts& texts, ModelFiles& files, CancelFlag cancel) {
  constexpr std::string_view kName = "tokenizer.json";
  QINFER_ASSIGN(const auto text, texts.find(kName, kMaxTokenizerBytes));
  if (!text) return Status();
  QINFER_ASSIGN(files.tokenizer,
                text::Tokenizer::from_json(*text, kName, {files.spec.n_vocab, files.spec.ropes.size() > 1}, cancel));
  if (files.spec.bos_token >= 0) files.tokenizer->mark_control(files.spec.bos_token);
  for (const std::int32_t token : files.spec.end_tokens) files.tokenizer->mark_control(token);
  return Status();
}

Result<model::Tied> read_config(const std::string& text, std::string_view name, ModelFiles& files, CancelFlag cancel) {
  QINFER_ASSIGN(files.config, formats::parse_json(text, name, cancel));
  QINFER_ASSIGN(model::ParsedConfig parsed, model::parse_hf_config(files.config.root(), name));
  files.spec = std::move(parsed.spec);
  files.spec.tied_embeddings = parsed.tied == model::Tied::yes;
  files.assumed_encoding = stated_encoding(files.config.root());
  return parsed.tied;
}

/// config.json, generation_config.json and tokenizer.json.
Result<model::Tied> read_texts(const Texts& texts, ModelFiles& files, CancelFlag cancel) {
  QINFER_ASSIGN(const std::string text, texts.read("config.json", kMaxConfigBytes));
  QINFER_ASSIGN(const model::Tied tied, read_config(text, "config.json", files, cancel));
  QINFER_TRY(read_generation_config(texts, files.spec, cancel));
  QINFER_TRY(read_tokenizer(texts, files, cancel));
  return tied;
}

/// Whether nothing in the directory has changed since the packed file was made from it.
Status check_source(const std::string& path, const model::PackedFile& packed, const LoadOptions& load) {
  QINFER_ASSIGN(const platform::Directory directory, platform::Directory::open(path, load.files));
  QINFER_ASSIGN(const formats::Checkpoint checkpoint, formats::Checkpoint::open(directory, load.cancel));
  QINFER_ASSIGN(const std::string source, model::source_fingerprint(directory, checkpoint, load.cancel));
  if (source == packed.source) return Status();
  return error(Code::format, "{} was packed from another state of {} (fingerprint {}, now {}): pack it again",
               load.packed_path, path, packed.source, source);
}

Result<ModelFiles> read_packed_files(const std::string& path, const LoadOptions& load) {
  ModelFiles files;
  QINFER_ASSIGN(files.packed, model::PackedFile::open(path, load.cancel, load.files.get()));
  QINFER_ASSIGN(const model::Tied tied, read_texts(Texts(*files.packed), files, load.cancel));
  if (tied == model::Tied::unstated)
    files.spec.tied_embeddings = files.packed->checkpoint.find("lm_head.weight") == nullptr;
  files.file_bytes = files.packed->checkpoint.file_bytes();
  return files;
}

}  // namespace

Result<ModelFiles> read_model_files(const std::string& path, const LoadOptions& load) {
  if (!load.packed_path.empty()) {
    QINFER_ASSIGN(ModelFiles files, read_packed_files(load.packed_path, load));
    QINFER_TRY(check_source(path, *files.packed, load));
    return files;
  }
  QINFER_ASSIGN(const bool one_file, platform::is_one_file(path, load.files.get()));
  if (one_file) {
    if (!path.ends_with(".gguf")) return read_packed_files(path, load);
    return error(Code::unsupported, "{}: not a model directory or packed model; GGUF files are not read", path);
  }
  QINFER_ASSIGN(const platform::Directory directory, platform::Directory::open(path, load.files));
  ModelFiles files;
  QINFER_ASSIGN(const model::Tied tied, read_texts(Texts(directory), files, load.cancel));
  if (!load.no_weights) {
    QINFER_ASSIGN(files.checkpoint, formats::Checkpoint::open(directory, load.cancel));
    files.file_bytes = files.checkpoint->file_bytes();
    if (tied == model::Tied::unstated) files.spec.tied_embeddings = files.checkpoint->find("lm_head.weight") == nullptr;
  }
  return files;
}

Result<ModelFiles> read_lone_config(const std::string& path, const LoadOptions& load) {
  const auto slash = path.rfind('/');
  const std::string here = load.files != nullptr ? "" : ".";
  const std::string folder = slash == path.npos ? here : slash == 0 ? "/" : path.substr(0, slash);
  const std::string name = slash == path.npos ? path : path.substr(slash + 1);
  QINFER_ASSIGN(const platform::Directory directory, platform::Directory::open(folder, load.files));
  ModelFiles files;
  QINFER_ASSIGN(const std::string text, directory.read_text(name, kMaxConfigBytes));
  QINFER_TRY(read_config(text, name, files, load.cancel).take_status());
  return files;
}

Result<model::WeightsOptions> weights_options(const LoadOptions& load, bool exact) {
  model::WeightsOptions options;
  options.exact = exact;
  options.use_mmap = !load.no_mmap;
  options.verify = load.verify;
  options.lock = load.lock;
  options.split_tied = load.embedding_rows;
  options.weight_format = find_encoding(load.weight_format);
  if (!load.weight_format.empty() && !options.weight_format)
    return error(Code::unsupported, "weight_format \"{}\" is not known, expected {}", load.weight_format,
                 encoding_names());
  return options;
}

Result<std::uint32_t> batch_tokens(const LoadOptions& load) {
  if (load.max_batch_tokens > kMaxBatch)
    return error(Code::invalid_argument, "max_batch_tokens is {}, at most {} are accepted", load.max_batch_tokens,
                 kMaxBatch);
  return load.max_batch_tokens == 0 ? kDefaultBatch : load.max_batch_tokens;
}

std::uint32_t cache_block_tokens(const KvCacheOptions& options) {
  return options.block_tokens == 0 ? kTileTokens : options.block_tokens;
}

bool takes_all_at_once(const KvCacheOptions& options, const platform::Allocator& allocator) {
  return options.commit || !allocator.is_mapping();
}

Result<std::vector<KvLayout>> resolve_kv(const model::ModelSpec& spec, const kernels::KernelSet& kernels, bool exact,
                                         const KvCacheOptions& options) {
  const std::uint32_t block = cache_block_tokens(options);
  if (block < kTileTokens || block > 256 || !std::has_single_bit(block))
    return error(Code::invalid_argument, "block_tokens is {}, expected 32, 64, 128 or 256", block);
  return kv_layouts(spec, kernels, options.type.value_or(kernels.default_kv_type(exact)), block);
}

namespace {

/// The blocks that a session of so many tokens holds of each group at most.
std::vector<std::uint64_t> blocks_for_tokens(const model::ModelSpec& spec, std::span<const KvLayout> layouts,
                                             std::uint64_t tokens, std::uint32_t batch) {
  std::vector<std::uint64_t> blocks;
  blocks.reserve(layouts.size());
  for (std::size_t g = 0; g < layouts.size(); ++g)
    blocks.push_back(blocks_of_session(layouts[g], spec.kv_groups[g].window, tokens, batch));
  return blocks;
}

std::uint64_t bytes_of(std::span<const KvLayout> layouts, std::span<const std::uint64_t> blocks) {
  std::uint64_t bytes = 0;
  for (std::size_t g = 0; g < layouts.size(); ++g) bytes += blocks[g] * layouts[g].block_bytes();
  return bytes;
}

/// Divides bytes among groups for as many sessions of the whole context as fit, and one that is as long as fits then.
std::vector<std::uint64_t> divide(const model::ModelSpec& spec, std::span<const KvLayout> layouts, std::uint64_t bytes,
                                  std::uint32_t batch) {
  std::vector<std::uint64_t> blocks = blocks_for_tokens(spec, layouts, spec.context_tokens, batch);
  const std::uint64_t one_session = std::max<std::uint64_t>(bytes_of(layouts, blocks), 1);
  const std::uint64_t sessions = bytes / one_session;
  const std::uint64_t rest = bytes % one_session;
  std::uint64_t tokens = 0, too_many = spec.context_tokens;
  while (too_many - tokens > 1) {
    const std::uint64_t middle = tokens + (too_many - tokens) / 2;
    const bool fits = bytes_of(layouts, blocks_for_tokens(spec, layouts, middle, batch)) <= rest;
    (fits ? tokens : too_many) = middle;
  }
  const std::vector<std::uint64_t> more = blocks_for_tokens(spec, layouts, tokens, batch);
  for (std::size_t g = 0; g < blocks.size(); ++g) blocks[g] = blocks[g] * sessions + (tokens != 0 ? more[g] : 0);
  return blocks;
}

Status check_addressable(std::uint64_t blocks) {
  if (blocks <= kv::BlockPool::kMaxBlocks) return Status();
  return error(Code::no_memory, "budget_bytes and budget_blocks ask for {} KV blocks, at most {} can be addressed",
               blocks, kv::BlockPool::kMaxBlocks);
}

}  // namespace

kv::PoolOptions pool_options(const CacheSize& size, const KvCacheOptions& options, std::size_t group) {
  kv::PoolOptions pool{size.blocks[group], options.commit, kv::PoolOptions::none, options.storage};
  if (options.prefix) pool.prefix = group == 0 ? kv::PoolOptions::chain : kv::PoolOptions::beside;
  return pool;
}

Result<CacheSize> resolve_cache(const model::ModelSpec& spec, std::span<const KvLayout> layouts, std::uint32_t batch,
                                const KvCacheOptions& options, bool all_at_once) {
  CacheSize size;
  std::uint64_t set_bytes = 0;  // one block of each group
  for (const KvLayout& layout : layouts) set_bytes += layout.block_bytes();
  if (set_bytes == 0) return size;  // an encoder
  const bool stated = options.budget_bytes != 0 || options.budget_blocks != 0;
  size.bytes = stated ? UINT64_MAX : bytes_of(layouts, blocks_for_tokens(spec, layouts, spec.context_tokens, batch));
  if (options.budget_blocks != 0) {
    QINFER_TRY(check_addressable(options.budget_blocks));
    const auto bytes = checked_mul(options.budget_blocks, set_bytes);
    size.bytes = bytes.value_or(UINT64_MAX);
  }
  if (options.budget_bytes != 0) size.bytes = std::min(size.bytes, options.budget_bytes);
  if (size.bytes < set_bytes)
    return error_at(Code::no_memory, static_cast<std::int64_t>(set_bytes), "budget_bytes is {}, one KV block needs {}",
                    options.budget_bytes, set_bytes);
  if (size.bytes > UINT64_MAX / 4)
    return error(Code::no_memory, "{} bytes of KV blocks cannot be addressed", size.bytes);
  if (all_at_once && layouts.size() > 1) {
    size.blocks = divide(spec, layouts, size.bytes, batch);
  } else {
    for (const KvLayout& layout : layouts) size.blocks.push_back(size.bytes / layout.block_bytes());
  }
  for (const std::uint64_t blocks : size.blocks) QINFER_TRY(check_addressable(blocks));
  for (std::size_t g = 0; g < layouts.size(); ++g)
    size.list_bytes += kv::BlockPool::list_bytes(layouts[g], pool_options(size, options, g));
  if (all_at_once || layouts.size() == 1) {
    size.bytes = bytes_of(layouts, size.blocks);
    for (const std::uint64_t blocks : size.blocks) size.blocks_total += blocks;
  } else {
    size.shared = true;
    size.blocks_total = *std::max_element(size.blocks.begin(), size.blocks.end());
  }
  return size;
}

Result<SessionOptions> resolve_session(const model::ModelSpec& spec, const SessionOptions& options) {
  SessionOptions resolved = options;
  if (resolved.max_tokens == 0) resolved.max_tokens = spec.context_tokens;
  if (resolved.max_logits == 0) resolved.max_logits = 1;
  resolved.embeddings = resolved.embeddings || !spec.causal;
  if (resolved.max_tokens > spec.context_tokens)
    return error(Code::invalid_argument, "max_tokens is {}, the model's context has {}", resolved.max_tokens,
                 spec.context_tokens);
  if (resolved.max_logits > resolved.max_tokens)
    return error(Code::invalid_argument, "max_logits is {}, more than the {} tokens of the session",
                 resolved.max_logits, resolved.max_tokens);
  return resolved;
}

Result<model::WeightsPlan> plan_model_weights(const ModelFiles& files, const kernels::KernelSet& kernels,
                                              const model::WeightsOptions& options) {
  if (files.packed) return model::plan_packed_weights(files.spec, *files.packed, kernels, options);
  return model::plan_weights(files.spec, files.tensors(), files.assumed_encoding, kernels, options);
}

const formats::Tensor* packed_rope(const ModelFiles& files, const LoadOptions& load) {
  if (!files.packed || load.no_mmap) return nullptr;
  const formats::Tensor* tensor = files.packed->checkpoint.find(model::kRopeTensor);
  const std::uint64_t bytes =
      std::uint64_t{files.spec.n_ropes()} * files.spec.context_tokens * files.spec.head_dim * sizeof(float);
  const bool fits =
      tensor != nullptr && tensor->dtype == "F32" && tensor->bytes() == bytes && tensor->begin % sizeof(float) == 0;
  return fits ? tensor : nullptr;
}

std::uint32_t rope_tokens(const ModelFiles& files, const LoadOptions& load, const platform::Allocator& allocator,
                          std::uint32_t session_tokens) {
  if (load.no_weights || packed_rope(files, load) != nullptr) return 0;
  return RopeTable::takes_all_at_once(allocator) ? files.spec.context_tokens : session_tokens;
}

Result<MemoryTotals> model_totals(const ModelFiles& files, const model::WeightsPlan& weights,
                                  const ScratchLayout& scratch, const LoadOptions& load,
                                  const platform::Allocator& allocator, std::uint32_t session_tokens) {
  MemoryTotals totals;
  QINFER_ASSIGN(const std::uint64_t rope_bytes,
                RopeTable::bytes_of(files.spec, rope_tokens(files, load, allocator, session_tokens)));
  const formats::Tensor* packed = load.no_weights ? nullptr : packed_rope(files, load);
  totals.weights_mapped = weights.mapped_bytes + (packed != nullptr ? packed->bytes() : 0);
  totals.weights_private = weights.private_bytes;
  totals.tables = (files.tokenizer ? files.tokenizer->memory_bytes() : 0) + rope_bytes;
  totals.scratch = scratch.bytes;
  totals.total = totals.weights_mapped + totals.weights_private + totals.tables + totals.scratch;
  // The staging buffer is gone before the scratch arena is made; sessions, and their rows of the RoPE table, come
  // later.
  const std::uint64_t loaded = totals.total - (RopeTable::takes_all_at_once(allocator) ? 0 : rope_bytes);
  totals.load_peak = loaded - totals.scratch + std::max(totals.scratch, weights.staging_bytes);
  return totals;
}

namespace {

/// The parts of the totals that are about caches.
Status add_cache(MemoryTotals& totals, const model::ModelSpec& spec, std::span<const KvLayout> layouts,
                 std::uint32_t batch, const KvCacheOptions* cache, const platform::Allocator& allocator,
                 std::uint32_t session_tokens, BufferMap* map) {
  for (std::size_t g = 0; g < layouts.size(); ++g) {
    totals.kv_per_block += layouts[g].block_bytes();
    totals.kv_per_token += layouts[g].token_bytes();
  }
  totals.kv_per_session = bytes_of(layouts, blocks_for_tokens(spec, layouts, session_tokens, batch));
  if (cache == nullptr) return Status();
  QINFER_ASSIGN(const CacheSize size,
                resolve_cache(spec, layouts, batch, *cache, takes_all_at_once(*cache, allocator)));
  const auto bytes = checked_add(size.bytes, size.list_bytes);
  const auto total = bytes ? checked_add(totals.total, *bytes) : std::nullopt;
  if (!total) return error(Code::no_memory, "{} bytes of KV blocks overflow 64 bits", size.bytes);
  totals.kv_cache_bytes = size.bytes;
  totals.kv_lists = size.list_bytes;
  totals.total = *total;
  if (map != nullptr) {
    map->regions.push_back(map_cache(size, layouts));
    map->regions.push_back(map_lists(size, layouts, *cache));
  }
  return Status();
}

}  // namespace

Result<MemoryTotals> plan_memory(const ModelFiles& files, const RuntimeOptions& runtime, const LoadOptions& load,
                                 const KvCacheOptions* cache, const SessionOptions* session, BufferMap* map) {
  QINFER_ASSIGN(const kernels::KernelSet* kernels, choose_kernels(runtime));
  QINFER_ASSIGN(const std::uint32_t threads, thread_count(runtime));
  QINFER_ASSIGN(const model::WeightsOptions options, weights_options(load, runtime.exact));
  QINFER_ASSIGN(const std::uint32_t batch, batch_tokens(load));
  model::WeightsPlan weights;
  ScratchLayout scratch;
  MappedRegion scratch_region{"scratch", "model", 0, {}}, session_region{"session", "session", 0, {}};
  if (!load.no_weights) {
    QINFER_ASSIGN(weights, plan_model_weights(files, *kernels, options));
    scratch = scratch_layout(files.spec, *kernels, batch, threads, &scratch_region);
  }
  QINFER_ASSIGN(const SessionOptions resolved, resolve_session(files.spec, session ? *session : SessionOptions()));
  QINFER_ASSIGN(MemoryTotals totals,
                model_totals(files, weights, scratch, load, runtime.allocator, resolved.max_tokens));
  const KvCacheOptions cache_options = cache != nullptr ? *cache : KvCacheOptions();
  QINFER_ASSIGN(const std::vector<KvLayout> layouts, resolve_kv(files.spec, *kernels, runtime.exact, cache_options));
  if (map != nullptr) {
    map->regions = {map_weights(weights, true), map_weights(weights, false),
                    map_tables(files, rope_tokens(files, load, runtime.allocator, resolved.max_tokens)),
                    scratch_region};
    if (const formats::Tensor* rope = load.no_weights ? nullptr : packed_rope(files, load)) {
      map->regions[0].buffers.push_back({"rope", map->regions[0].bytes, rope->bytes(), {rope->bytes() / 4}, "f32", {}});
      map->regions[0].bytes += rope->bytes();
    }
  }
  QINFER_TRY(add_cache(totals, files.spec, layouts, batch, cache, runtime.allocator, resolved.max_tokens, map));
  const std::uint32_t token_bytes = files.tokenizer ? files.tokenizer->max_token_bytes() : 0;
  const SessionLayout layout = session_layout(files.spec, token_bytes,
                                              {cache_block_tokens(cache_options), cache != nullptr && cache->prefix,
                                               resolved.embeddings, resolved.max_tokens, resolved.max_logits},
                                              &session_region);
  totals.per_session = layout.total_bytes();
  if (map != nullptr) {
    map->regions.push_back(std::move(session_region));
    const std::uint64_t n = layout.max_tokens, rows = layout.max_logits, vocab = files.spec.n_vocab;
    map->regions.push_back({"session_tokens", "session", layout.tokens_bytes, {{"tokens", 0, n * 4, {n}, "i32", {}}}});
    map->regions.push_back({"session_logits",
                            "session",
                            layout.logits_bytes,
                            {{"logits", 0, rows * vocab * 4, {rows, vocab}, "f32", {}}}});
  }
  return totals;
}

}  // namespace qinfer::engine
