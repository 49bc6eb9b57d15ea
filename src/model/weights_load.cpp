// Reading tensors into the places that the plan gave them. See weights.h.
#include <cmath>

#include "model/weights.h"

namespace qinfer::model {
namespace {

constexpr std::uint64_t kProgressStep = 16 << 20;
constexpr float kLargestF16 = 65504.0f;

class Loader {
 public:
  Loader(const WeightsPlan& plan, formats::Checkpoint& checkpoint, const kernels::KernelSet& kernels,
         const WeightsOptions& options, const platform::Allocator& allocator, const LoadProgress& progress)
      : plan_(plan),
        checkpoint_(checkpoint),
        kernels_(kernels),
        options_(options),
        allocator_(allocator),
        progress_(progress) {}

  Result<Weights> run(std::uint32_t n_layers) {
    weights_.layers.resize(n_layers);
    QINFER_ASSIGN(weights_.memory, platform::Buffer::allocate(allocator_, plan_.private_bytes, "weights"));
    for (const WeightItem& item : plan_.items) total_ += checkpoint_.find(item.name)->bytes();
    QINFER_TRY(report(0, true));
    for (const WeightItem& item : plan_.items) QINFER_TRY(load(item));
    if (options_.lock) QINFER_TRY(platform::lock_memory(weights_.memory.data(), weights_.memory.size()));
    return std::move(weights_);
  }

 private:
  Status report(std::uint64_t done, bool now) {
    done_ += done;
    if (!now && done_ < reported_ + kProgressStep && done_ < total_) return Status();
    reported_ = done_;
    if (progress_ && !progress_(done_, total_)) return error(Code::cancelled, "loading was cancelled");
    return Status();
  }

  /// The tensor's bytes as in the file: mapped, or read into the staging buffer.
  Result<const std::byte*> source(const formats::Tensor& tensor) {
    if (options_.use_mmap) {
      QINFER_ASSIGN(const auto mapping, checkpoint_.map_shard(tensor.shard));
      return mapping->bytes().data() + tensor.begin;
    }
    if (staging_.size() == 0) {
      QINFER_ASSIGN(staging_, platform::Buffer::allocate(allocator_, plan_.staging_bytes, "a tensor being converted"));
    }
    QINFER_TRY(checkpoint_.read(tensor, {staging_.data(), tensor.bytes()}));
    return static_cast<const std::byte*>(staging_.data());
  }

  Status load(const WeightItem& item) {
    const formats::Tensor& tensor = *checkpoint_.find(item.name);
    std::byte* destination = item.mapped ? nullptr : weights_.memory.data() + item.offset;
    if (item.is_vector) {
      QINFER_TRY(load_vector(item, tensor, reinterpret_cast<float*>(destination)));
    } else if (item.mapped) {
      QINFER_TRY(map_matrix(item, tensor));
    } else {
      QINFER_TRY(load_matrix(item, tensor, destination));
    }
    return report(tensor.bytes(), false);
  }

  Status load_vector(const WeightItem& item, const formats::Tensor& tensor, float* destination) {
    QINFER_ASSIGN(const std::byte* bytes, source(tensor));
    const kernels::Matrix view{bytes, {item.file_dtype, kernels::WeightLayout::row_major}, 1, item.cols};
    kernels_.pack(view, {DType::f32, kernels::WeightLayout::row_major}, reinterpret_cast<std::byte*>(destination), 0,
                  1);
    if (options_.verify) {
      for (std::int64_t i = 0; i < item.cols; ++i)
        if (!std::isfinite(destination[i]))
          return error_at(Code::format, static_cast<std::int64_t>(tensor.begin),
                          "{}: element {} of tensor \"{}\" is {}, expected a finite number",
                          checkpoint_.shard_name(tensor.shard), i, item.name, destination[i]);
    }
    (item.is_global ? weights_.final_norm : weights_.layers[item.layer].*item.vector) = destination;
    return Status();
  }

  Status map_matrix(const WeightItem& item, const formats::Tensor& tensor) {
    QINFER_ASSIGN(auto mapping, checkpoint_.map_shard(tensor.shard));
    const std::byte* data = mapping->bytes().data() + tensor.begin;
    if (options_.lock) QINFER_TRY(platform::lock_memory(data, tensor.bytes()));
    if (weights_.mappings.empty() || weights_.mappings.back() != mapping)
      weights_.mappings.push_back(std::move(mapping));
    place(item, data);
    return Status();
  }

  Status load_matrix(const WeightItem& item, const formats::Tensor& tensor, std::byte* destination) {
    const kernels::WeightFormat as_in_file{item.file_dtype, kernels::WeightLayout::row_major};
    if (item.format == as_in_file) {
      QINFER_TRY(checkpoint_.read(tensor, {destination, tensor.bytes()}));
    } else {
      QINFER_ASSIGN(const std::byte* bytes, source(tensor));
      const kernels::Matrix view{bytes, as_in_file, item.rows, item.cols};
      if (item.format.dtype == DType::f16) QINFER_TRY(check_f16_range(item, view));
      kernels_.pack(view, item.format, destination, 0, item.rows);
    }
    place(item, destination);
    return Status();
  }

  /// f16 ends at 65504; a larger weight would silently become infinite.
  Status check_f16_range(const WeightItem& item, const kernels::Matrix& view) {
    std::vector<float> row(static_cast<std::size_t>(item.cols));
    const auto row_bytes = item.cols * static_cast<std::int64_t>(dtype_bytes(view.format.dtype));
    for (std::int64_t n = 0; n < item.rows; ++n) {
      const kernels::Matrix one{view.data + n * row_bytes, view.format, 1, item.cols};
      kernels_.pack(one, {DType::f32, kernels::WeightLayout::row_major}, reinterpret_cast<std::byte*>(row.data()), 0,
                    1);
      for (const float value : row)
        if (std::isfinite(value) && std::fabs(value) > kLargestF16)
          return error(Code::unsupported, "tensor \"{}\" holds {}, beyond the 65504 of f16: load it as bf16 or f32",
                       item.name, value);
    }
    return Status();
  }

  void place(const WeightItem& item, const std::byte* data) {
    const kernels::Matrix matrix{data, item.format, item.rows, item.cols};
    if (!item.is_global) {
      weights_.layers[item.layer].*item.matrix = matrix;
    } else if (item.role == kernels::WeightRole::embedding) {
      weights_.embedding = matrix;
      if (weights_.lm_head.data == nullptr) weights_.lm_head = matrix;  // stays so when the embeddings are tied
    } else {
      weights_.lm_head = matrix;
    }
  }

  const WeightsPlan& plan_;
  formats::Checkpoint& checkpoint_;
  const kernels::KernelSet& kernels_;
  const WeightsOptions& options_;
  const platform::Allocator& allocator_;
  const LoadProgress& progress_;
  Weights weights_;
  platform::Buffer staging_;
  std::uint64_t done_ = 0, reported_ = 0, total_ = 0;
};

}  // namespace

Result<Weights> load_weights(const WeightsPlan& plan, formats::Checkpoint& checkpoint,
                             const kernels::KernelSet& kernels, const WeightsOptions& options,
                             const platform::Allocator& allocator, std::uint32_t n_layers,
                             const LoadProgress& progress) {
  return Loader(plan, checkpoint, kernels, options, allocator, progress).run(n_layers);
}

}  // namespace qinfer::model
