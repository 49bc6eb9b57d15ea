// Writing a model as a GGUF file that llama.cpp reads: the inverse of gguf_source.h. The values are the source's, in
// its encodings; vectors and routers become f32. Names, keys and the order of rows are those that conversion gives.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "source/model_source.h"
#include "source/pack_input.h"

namespace qinfer::source {

/// Rows of a tensor of the file that are one tensor of the model.
struct GgufExportPart {
  model::TensorNeed need;
  model::TensorInfo stored;
  Encoding encoding = Encoding::f32;  ///< in the file
  model::RowOrder order;              ///< row i of each run in the file is row order[i] of the model; empty: the same
};

struct GgufExportTensor {
  std::string name;
  std::vector<std::uint64_t> dims;  ///< the contiguous axis first
  Encoding encoding = Encoding::f32;
  std::vector<GgufExportPart> parts;
  std::vector<float> values;  ///< of a tensor that the source does not have, in place of parts
  std::uint64_t bytes() const;
};

struct GgufExport {
  std::string header;
  std::vector<GgufExportTensor> tensors;
  std::uint64_t data_bytes = 0;
  std::vector<std::string> notes;  ///< what llama.cpp cannot read of it, or takes otherwise
};

/// `texts`: of the model (PackInput). `label`: general.file_type, a number that llama.cpp shows. QINFER_E_UNSUPPORTED
/// for a model that a GGUF file cannot say: the header is read back, and must give the same spec.
Result<GgufExport> plan_gguf_export(ModelSource& source, std::span<const PackInput::Text> texts, std::uint32_t label,
                                    CancelFlag cancel);

/// Takes the next bytes of the file.
using GgufSink = std::function<Status(std::span<const std::byte> bytes)>;
/// Called with bytes written and in total; false cancels.
using GgufProgress = std::function<bool(std::uint64_t done, std::uint64_t total)>;

/// Some MiB of the model at a time are in memory.
Status write_gguf_export(const GgufExport& plan, const ModelSource& source, const model::ParallelFor& parallel_for,
                         const GgufSink& sink, const GgufProgress& progress);

}  // namespace qinfer::source
