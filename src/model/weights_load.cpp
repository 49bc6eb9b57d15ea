// Reading tensors into the places that the plan gave them. See weights.h.
#include <algorithm>
#include <atomic>
#include <cmath>

#include "base/block_formats.h"
#include "model/weights.h"

namespace qinfer::model {
namespace {

constexpr std::uint64_t kProgressStep = 16 << 20;  // bytes

class Loader {
 public:
  Loader(const WeightsPlan& plan, TensorSource& tensors, const kernels::KernelSet& kernels,
         const WeightsOptions& options, const platform::Allocator& allocator, const ParallelFor& parallel_for,
         const LoadProgress& progress)
      : plan_(plan),
        tensors_(tensors),
        kernels_(kernels),
        options_(options),
        allocator_(allocator),
        parallel_for_(parallel_for),
        progress_(progress) {}

  Result<Weights> run(const ModelSpec& spec) {
    weights_ = Weights(spec);
    QINFER_ASSIGN(weights_.memory,
                  platform::Buffer::allocate(allocator_, plan_.private_bytes, "weights", platform::Pages::huge));
    for (const WeightItem& item : plan_.items) total_ += item.stored.bytes();
    for (const WeightItem& item : plan_.items) QINFER_TRY(load(item));
    if (options_.lock) QINFER_TRY(weights_.memory.lock());
    return std::move(weights_);
  }

 private:
  /// Counts bytes that were read or converted; every 16 MiB and at the end the host hears of it and may cancel.
  Status report(std::uint64_t done) {
    done_ += done;
    if (done_ < reported_ + kProgressStep && done_ < total_) return Status();
    reported_ = done_;
    if (progress_ && !progress_(done_, total_)) return error(Code::cancelled, "loading was cancelled");
    return Status();
  }

  /// Whether a tensor is converted out of the staging buffer; otherwise out of the mapped file.
  bool is_staged(const TensorInfo& tensor) const { return !options_.use_mmap || !tensor.is_in_file(); }

  /// Rows [first, end) of a tensor in the model's order: mapped, or read into the staging buffer.
  Result<const std::byte*> rows_of(const TensorInfo& tensor, std::uint64_t first, std::uint64_t end) {
    if (!is_staged(tensor)) {
      QINFER_ASSIGN(const auto mapping, tensors_.map(tensor.file()));
      return mapping->bytes().data() + tensor.offset() + first * tensor.row_bytes;
    }
    if (staging_.size() == 0) {
      QINFER_ASSIGN(staging_, platform::Buffer::allocate(allocator_, plan_.staging_bytes, "a tensor being converted"));
    }
    QINFER_TRY(tensors_.read_rows(tensor, first, end - first, staging_.data(), parallel_for_));
    return static_cast<const std::byte*>(staging_.data());
  }

  /// Rows [first, end) were converted: pages of the file that were read leave the process again.
  Status done_with(const TensorInfo& tensor, std::uint64_t first, std::uint64_t end) {
    const std::uint64_t bytes = (end - first) * tensor.row_bytes;
    if (!is_staged(tensor)) {
      QINFER_ASSIGN(const auto mapping, tensors_.map(tensor.file()));
      mapping->drop(tensor.offset() + first * tensor.row_bytes, bytes);
    }
    return report(bytes);
  }

  /// Calls f(first, end) for the rows of a tensor in steps, so that a large one reports and can be cancelled.
  template <typename F>
  static Status in_steps(const TensorInfo& tensor, F f) {
    const std::uint64_t step = step_rows(tensor);
    for (std::uint64_t row = 0; row < tensor.rows; row += step) QINFER_TRY(f(row, std::min(row + step, tensor.rows)));
    return Status();
  }

  /// Reads a whole tensor.
  Status read(const TensorInfo& tensor, std::byte* destination) {
    return in_steps(tensor, [&](std::uint64_t first, std::uint64_t end) -> Status {
      QINFER_TRY(tensors_.read_rows(tensor, first, end - first, destination + first * tensor.row_bytes, parallel_for_));
      return report((end - first) * tensor.row_bytes);
    });
  }

  /// Converts a matrix in steps of whole tiles, all threads at each. `largest`: the largest finite magnitude of the
  /// source.
  Status pack_rows(const WeightItem& item, const kernels::PackInfo& info, std::byte* destination, float& largest) {
    constexpr std::int64_t kTile = kernels::kPackRows;
    const TensorInfo& tensor = item.stored;
    std::atomic<float> most{0};
    QINFER_TRY(in_steps(tensor, [&](std::uint64_t first, std::uint64_t end) -> Status {
      QINFER_ASSIGN(const std::byte* bytes, rows_of(tensor, first, end));
      // Tiles come one after the other, so the rows of a step are a matrix of their own.
      const auto row = static_cast<std::int64_t>(first), n = static_cast<std::int64_t>(end - first);
      const kernels::Matrix view{bytes, as_stored(tensor), n, item.need.cols, {}};
      std::byte* to = destination + kernels::weight_bytes(item.format, row, item.need.cols);
      std::atomic<std::int64_t> bad{-1};
      parallel_for_((n + kTile - 1) / kTile, [&](std::int64_t first_tile, std::int64_t last_tile) {
        const std::int64_t begin = first_tile * kTile, last = std::min(last_tile * kTile, n);
        check_scales(view, begin, last, bad);
        const float found = kernels_.pack(view, item.format, info, to, begin, last);
        for (float seen = most; found > seen && !most.compare_exchange_weak(seen, found);) {
        }
      });
      if (bad >= 0) return bad_scale(item, row, bad);
      return done_with(tensor, first, end);
    }));
    largest = most;
    return Status();
  }

  /// Where a tensor is in its file, which stays mapped as long as there are weights. The file is then read again with
  /// every token, faster from 2 MiB pages: on Zen 4 decoding takes 1 to 5 % less time than from pages of 4 KiB.
  Result<const std::byte*> keep_mapped(const TensorInfo& tensor) {
    QINFER_ASSIGN(auto mapping, tensors_.map(tensor.file()));
    const std::byte* data = mapping->bytes().data() + tensor.offset();
    if (weights_.mappings.empty() || weights_.mappings.back() != mapping) {
      mapping->prefer(allocator_.normal_pages ? platform::Pages::normal : platform::Pages::huge);
      weights_.mappings.push_back(std::move(mapping));
    }
    if (options_.lock) QINFER_TRY(platform::lock_memory(data, tensor.bytes()));
    return data;
  }

  /// A tensor of a packed model: in the file, or copied. Small ones are always verified, matrices on request.
  Status load_packed(const WeightItem& item, const TensorInfo& tensor) {
    const std::byte* data = nullptr;
    if (item.mapped) {
      QINFER_ASSIGN(data, keep_mapped(tensor));
    } else {
      QINFER_TRY(read(tensor, weights_.memory.data() + item.offset));
      data = weights_.memory.data() + item.offset;
    }
    if (item.need.is_vector || options_.verify) QINFER_TRY(tensors_.verify(tensor, {data, tensor.bytes()}));
    if (item.need.is_vector) {
      const auto* values = reinterpret_cast<const float*>(data);
      if (options_.verify) QINFER_TRY(check_finite(item, tensor, values));
      weights_.set(item.need.id, values);
    } else {
      place(item, data, item.stored.packed->info);
    }
    return item.mapped ? report(tensor.bytes()) : Status();
  }

  Status load(const WeightItem& item) {
    const TensorInfo& tensor = item.stored;
    if (tensor.packed) return load_packed(item, tensor);
    std::byte* destination = item.mapped ? nullptr : weights_.memory.data() + item.offset;
    if (item.need.is_vector) return load_vector(item, reinterpret_cast<float*>(destination));
    if (!item.mapped) return load_matrix(item, destination);
    QINFER_TRY(map_matrix(item));
    return report(tensor.bytes());
  }

  Status check_finite(const WeightItem& item, const TensorInfo& tensor, const float* values) const {
    for (std::int64_t i = 0; i < item.need.cols; ++i)
      if (!std::isfinite(values[i]))
        return error_at(Code::format, static_cast<std::int64_t>(tensor.offset()),
                        "{}: element {} of tensor {} is {}, expected a finite number",
                        tensors_.file_name(tensor.file()), i, tensor.quoted(), values[i]);
    return Status();
  }

  Status load_vector(const WeightItem& item, float* destination) {
    const TensorInfo& tensor = item.stored;
    QINFER_TRY(in_steps(tensor, [&](std::uint64_t first, std::uint64_t end) -> Status {
      QINFER_ASSIGN(const std::byte* bytes, rows_of(tensor, first, end));
      const kernels::Matrix view{bytes, as_stored(tensor), 1, static_cast<std::int64_t>(end - first), {}};
      kernels_.pack(view, {Encoding::f32, kernels::WeightLayout::row_major}, {},
                    reinterpret_cast<std::byte*>(destination + first), 0, 1);
      return report((end - first) * tensor.row_bytes);
    }));
    if (tensor.transform == Transform::add_one)
      for (std::int64_t i = 0; i < item.need.cols; ++i) destination[i] += 1.0f;
    if (options_.verify) QINFER_TRY(check_finite(item, tensor, destination));
    weights_.set(item.need.id, destination);
    return Status();
  }

  /// The scales of rows [first, last) of a quantised matrix must be finite; `bad` gets the number of the first block
  /// of the matrix whose scale is not.
  static void check_scales(const kernels::Matrix& rows, std::int64_t first, std::int64_t last,
                           std::atomic<std::int64_t>& bad) {
    if (is_plain(rows.format.encoding)) return;
    const EncodingTraits& traits = encoding_traits(rows.format.encoding);
    const std::int64_t begin = first * rows.cols / traits.block_values, end = last * rows.cols / traits.block_values;
    const std::int64_t found =
        blocks::find_bad_scale(traits.encoding, rows.data + begin * traits.block_bytes, end - begin);
    if (found < 0) return;
    for (std::int64_t seen = bad;
         (seen < 0 || begin + found < seen) && !bad.compare_exchange_weak(seen, begin + found);) {
    }
  }

  /// `block`: of the rows from `first_row` on.
  Status bad_scale(const WeightItem& item, std::int64_t first_row, std::int64_t block) const {
    const TensorInfo& tensor = item.stored;
    const EncodingTraits& traits = encoding_traits(tensor.encoding);
    const std::int64_t per_row = item.need.cols / traits.block_values;
    const auto row = static_cast<std::uint64_t>(first_row + block / per_row);
    return error_at(Code::format, static_cast<std::int64_t>(tensor.offset()),
                    "{}: block {} of row {} of tensor {} ({}) has a scale that is not finite: the file is damaged",
                    tensors_.file_name(tensor.file()), block % per_row, tensor.stored_row(row), tensor.quoted(),
                    traits.name);
  }

  /// All scales of a matrix that is used as the file has it.
  Status verify_scales(const WeightItem& item, const std::byte* data) {
    const kernels::Matrix rows{data, item.format, item.need.rows, item.need.cols, {}};
    std::atomic<std::int64_t> bad{-1};
    parallel_for_(rows.rows, [&](std::int64_t first, std::int64_t last) { check_scales(rows, first, last, bad); });
    if (bad >= 0) return bad_scale(item, 0, bad);
    return Status();
  }

  Status map_matrix(const WeightItem& item) {
    QINFER_ASSIGN(const std::byte* data, keep_mapped(item.stored));
    if (options_.verify) QINFER_TRY(verify_scales(item, data));
    place(item, data, {});
    return Status();
  }

  static kernels::WeightFormat as_stored(const TensorInfo& tensor) {
    return {tensor.encoding, kernels::WeightLayout::row_major};
  }

  Status load_matrix(const WeightItem& item, std::byte* destination) {
    if (item.format != as_stored(item.stored)) return pack_matrix(item, destination);
    QINFER_TRY(read(item.stored, destination));
    QINFER_TRY(verify_scales(item, destination));
    place(item, destination, {});
    return Status();
  }

  /// Packs a matrix as often as the kernel set asks for.
  Status pack_matrix(const WeightItem& item, std::byte* destination) {
    kernels::PackInfo info;
    for (;;) {
      float largest = 0;
      QINFER_TRY(pack_rows(item, info, destination, largest));
      const kernels::PackEnd end = kernels_.pack_end(item.format, largest, info);
      if (end == kernels::PackEnd::done) break;
      if (end == kernels::PackEnd::out_of_range)
        return error(Code::unsupported, "tensor {} holds {}, beyond the range of {}: load it as bf16 or f32",
                     item.stored.quoted(), largest, encoding_name(item.format.encoding));
      total_ += item.stored.bytes();
    }
    place(item, destination, info);
    return Status();
  }

  void place(const WeightItem& item, const std::byte* data, const kernels::PackInfo& info) {
    const kernels::Matrix matrix{data, item.format, item.need.rows, item.need.cols, info};
    weights_.set(item.need.id, matrix);
    if (item.serves_as_head) weights_.set({Role::lm_head}, matrix);
  }

  const WeightsPlan& plan_;
  TensorSource& tensors_;
  const kernels::KernelSet& kernels_;
  const WeightsOptions& options_;
  const platform::Allocator& allocator_;
  const ParallelFor& parallel_for_;
  const LoadProgress& progress_;
  Weights weights_;
  platform::Buffer staging_;
  std::uint64_t done_ = 0, reported_ = 0, total_ = 0;
};

}  // namespace

Weights::Weights(const ModelSpec& spec)
    : matrices_(kGlobalRoles + spec.n_layers() * kLayerRoleCount), vectors_(matrices_.size()) {
  std::size_t n = 0;
  experts_of_layer_.reserve(spec.n_layers());
  for (const LayerSpec& layer : spec.layers) {
    experts_of_layer_.push_back({n, layer.ffn.experts});
    n += std::size_t{3} * layer.ffn.experts;
  }
  experts_.resize(n);
}

Result<Weights> load_weights(const WeightsPlan& plan, TensorSource& source, const kernels::KernelSet& kernels,
                             const WeightsOptions& options, const platform::Allocator& allocator, const ModelSpec& spec,
                             const ParallelFor& parallel_for, const LoadProgress& progress) {
  return Loader(plan, source, kernels, options, allocator, parallel_for, progress).run(spec);
}

}  // namespace qinfer::model
