// What a host may choose when it loads a model and creates caches and sessions, as the engine reads it. Zero and empty
// mean the defaults, which blueprint.h fills in.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/cancel.h"
#include "base/dtype.h"
#include "kv/block_pool.h"
#include "platform/file.h"
#include "source/model_source.h"

namespace qinfer::engine {

inline constexpr std::uint32_t kDefaultBatch = 512;
inline constexpr std::uint32_t kMaxBatch = 1 << 16;

struct LoadOptions {
  bool no_weights = false, no_mmap = false, lock = false, verify = false;
  bool budget_private = false;      ///< QINFER_LOAD_BUDGET_PRIVATE: mapped weights do not count against the budget
  bool separate_embedding = false;  ///< QINFER_LOAD_EMBED_ROWS: tied embeddings are kept a second time, to look rows up
  bool pack = false;                ///< QINFER_LOAD_PACK: weights in the layout that the kernel set multiplies fastest
  std::uint32_t max_batch_tokens = 0;
  std::uint64_t memory_budget_bytes = 0;
  std::uint32_t max_context = 0;
  std::uint32_t first_layer = 0, n_layers = 0;  ///< of a stage; both 0: the whole model
  std::string weight_format;
  std::string packed_path;  ///< a packed file made from the model directory, to be used in its place
  CancelFlag cancel;
  std::shared_ptr<const platform::Files> files;  ///< of the host; null: the operating system's

  source::SourceOptions source() const {
    return {no_weights, packed_path, cancel, files, max_context, first_layer, n_layers};
  }
};

struct KvCacheOptions {
  bool commit = false, prefix = false;
  kv::Storage storage = kv::Storage::paged;
  std::optional<DType> type;
  std::uint32_t block_tokens = 0;
  std::uint64_t budget_bytes = 0, budget_blocks = 0;
};

struct SessionOptions {
  std::uint32_t max_tokens = 0, max_logits = 0;
  bool embeddings = false;
  std::uint32_t max_draft = 0;
  std::uint32_t prefix_space = 0;  ///< only sessions of the same one find what it publishes
};

}  // namespace qinfer::engine
