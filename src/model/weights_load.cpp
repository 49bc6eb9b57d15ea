// Reading tensors into the places that the plan gave them. See weights.h.
#include <algorithm>
#include <atomic>
#include <cmath>

#include "base/block_formats.h"
#include "model/weights.h"

namespace qinfer::model {
namespace {

constexpr std::uint64_t kProgressStep = 16 << 20;

/// Puts the rows of one run into the model's order, in place.
void reorder_run(const RowOrder& order, std::byte* run, std::uint64_t row_bytes) {
  for (std::size_t i = 0; i < order.size(); ++i) {
    // Where the row that belongs at i is now: one that was stored before i was exchanged when its place was filled.
    std::size_t from = order[i];
    while (from < i) from = order[from];
    if (from != i) std::swap_ranges(run + i * row_bytes, run + (i + 1) * row_bytes, run + from * row_bytes);
  }
}

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
    for (const WeightItem& item : plan_.items) total_ += item.stored.bytes;
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

  /// Whether a tensor passes through the staging buffer when it is converted; otherwise the mapped file is read.
  bool is_staged(const WeightItem& item) const {
    return !options_.use_mmap || (!item.stored.row_order.empty() && !item.need.is_vector);
  }

  /// The bytes that a tensor is converted from, of a matrix with the rows in the model's order: mapped, or read into
  /// the staging buffer.
  Result<const std::byte*> source(const WeightItem& item) {
    if (!is_staged(item)) {
      QINFER_ASSIGN(const auto mapping, tensors_.map(item.stored.file));
      return mapping->bytes().data() + item.stored.offset;
    }
    if (staging_.size() == 0) {
      QINFER_ASSIGN(staging_, platform::Buffer::allocate(allocator_, plan_.staging_bytes, "a tensor being converted"));
    }
    QINFER_TRY(read(item.stored, staging_.data()));
    if (!item.need.is_vector) reorder_rows(item, staging_.data());
    return static_cast<const std::byte*>(staging_.data());
  }

  /// Puts the rows of a matrix as it is stored into the model's order, in place, all threads at it.
  void reorder_rows(const WeightItem& item, std::byte* rows) const {
    const RowOrder& order = item.stored.row_order;
    if (order.empty()) return;
    const auto run = static_cast<std::int64_t>(order.size());
    const std::uint64_t row_bytes = encoded_bytes(item.stored.encoding, static_cast<std::uint64_t>(item.need.cols));
    parallel_for_(item.need.rows / run, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        reorder_run(order, rows + static_cast<std::uint64_t>(i * run) * row_bytes, row_bytes);
    });
  }

  /// Reads a tensor in steps, so that a large one reports and can be cancelled.
  Status read(const TensorInfo& tensor, std::byte* destination) {
    for (std::uint64_t at = 0; at < tensor.bytes; at += kProgressStep) {
      const std::uint64_t part = std::min(kProgressStep, tensor.bytes - at);
      QINFER_TRY(tensors_.read(tensor, at, {destination + at, part}));
      QINFER_TRY(report(part));
    }
    return Status();
  }

  /// Converts a matrix in steps of whole tiles, all threads at each, and looks for a cancellation between them. Pages
  /// of the file that were read leave the process again. `largest`: the largest finite magnitude of the source.
  Status pack_rows(const kernels::Matrix& view, const WeightItem& item, const TensorInfo& tensor,
                   const kernels::PackInfo& info, std::byte* destination, float& largest) {
    constexpr std::int64_t kTile = kernels::kPackRows;
    const std::uint64_t row_bytes = encoded_bytes(view.format.encoding, static_cast<std::uint64_t>(view.cols));
    const auto step = static_cast<std::int64_t>(round_up(std::max<std::uint64_t>(kProgressStep / row_bytes, 1), kTile));
    std::atomic<float> most{0};
    std::atomic<std::int64_t> bad{-1};
    for (std::int64_t row = 0; row < view.rows; row += step) {
      const std::int64_t end = std::min(row + step, view.rows);
      parallel_for_((end - row + kTile - 1) / kTile, [&](std::int64_t first_tile, std::int64_t last_tile) {
        const std::int64_t first = row + first_tile * kTile, last = std::min(row + last_tile * kTile, end);
        check_scales(view, first, last, bad);
        const float found = kernels_.pack(view, item.format, info, destination, first, last);
        for (float seen = most; found > seen && !most.compare_exchange_weak(seen, found);) {
        }
      });
      if (bad >= 0) return bad_scale(item, tensor, bad);
      const std::uint64_t bytes = static_cast<std::uint64_t>(end - row) * row_bytes;
      if (is_staged(item)) {  // reading has counted the bytes
        if (end < view.rows && progress_ && !progress_(done_, total_))
          return error(Code::cancelled, "loading was cancelled");
        continue;
      }
      QINFER_ASSIGN(const auto mapping, tensors_.map(tensor.file));
      mapping->drop(tensor.offset + static_cast<std::uint64_t>(row) * row_bytes, bytes);
      QINFER_TRY(report(bytes));
    }
    largest = most;
    return Status();
  }

  /// Where a tensor is in its file, which stays mapped as long as there are weights. The file is then read again with
  /// every token, faster from 2 MiB pages: on Zen 4 decoding takes 1 to 5 % less time than from pages of 4 KiB.
  Result<const std::byte*> keep_mapped(const TensorInfo& tensor) {
    QINFER_ASSIGN(auto mapping, tensors_.map(tensor.file));
    const std::byte* data = mapping->bytes().data() + tensor.offset;
    if (weights_.mappings.empty() || weights_.mappings.back() != mapping) {
      mapping->prefer(allocator_.normal_pages ? platform::Pages::normal : platform::Pages::huge);
      weights_.mappings.push_back(std::move(mapping));
    }
    if (options_.lock) QINFER_TRY(platform::lock_memory(data, tensor.bytes));
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
    if (item.need.is_vector || options_.verify) QINFER_TRY(tensors_.verify(tensor, {data, tensor.bytes}));
    if (item.need.is_vector) {
      const auto* values = reinterpret_cast<const float*>(data);
      if (options_.verify) QINFER_TRY(check_finite(item, tensor, values));
      weights_.set(item.need.id, values);
    } else {
      place(item, data, item.stored.packed->info);
    }
    return item.mapped ? report(tensor.bytes) : Status();
  }

  Status load(const WeightItem& item) {
    const TensorInfo& tensor = item.stored;
    if (tensor.packed) return load_packed(item, tensor);
    std::byte* destination = item.mapped ? nullptr : weights_.memory.data() + item.offset;
    if (item.need.is_vector) {
      QINFER_TRY(load_vector(item, tensor, reinterpret_cast<float*>(destination)));
      if (!options_.use_mmap) return Status();  // reading has reported already
      return report(tensor.bytes);
    }
    if (!item.mapped) return load_matrix(item, tensor, destination);
    QINFER_TRY(map_matrix(item, tensor));
    return report(tensor.bytes);
  }

  Status check_finite(const WeightItem& item, const TensorInfo& tensor, const float* values) const {
    for (std::int64_t i = 0; i < item.need.cols; ++i)
      if (!std::isfinite(values[i]))
        return error_at(Code::format, static_cast<std::int64_t>(tensor.offset),
                        "{}: element {} of tensor {} is {}, expected a finite number", tensors_.file_name(tensor.file),
                        i, tensor.quoted(), values[i]);
    return Status();
  }

  Status load_vector(const WeightItem& item, const TensorInfo& tensor, float* destination) {
    QINFER_ASSIGN(const std::byte* bytes, source(item));
    const kernels::Matrix view{bytes, {tensor.encoding, kernels::WeightLayout::row_major}, 1, item.need.cols, {}};
    kernels_.pack(view, {Encoding::f32, kernels::WeightLayout::row_major}, {},
                  reinterpret_cast<std::byte*>(destination), 0, 1);
    for (std::size_t i = 0; !tensor.row_order.empty() && i < static_cast<std::size_t>(item.need.cols);
         i += tensor.row_order.size())
      reorder_run(tensor.row_order, reinterpret_cast<std::byte*>(destination + i), sizeof(float));
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

  Status bad_scale(const WeightItem& item, const TensorInfo& tensor, std::int64_t block) const {
    const EncodingTraits& traits = encoding_traits(tensor.encoding);
    const std::int64_t per_row = item.need.cols / traits.block_values;
    return error_at(Code::format, static_cast<std::int64_t>(tensor.offset),
                    "{}: block {} of row {} of tensor {} ({}) has a scale that is not finite: the file is damaged",
                    tensors_.file_name(tensor.file), block % per_row, block / per_row, tensor.quoted(), traits.name);
  }

  /// All scales of a matrix that is used as the file has it.
  Status verify_scales(const kernels::Matrix& rows, const WeightItem& item, const TensorInfo& tensor) {
    std::atomic<std::int64_t> bad{-1};
    parallel_for_(rows.rows, [&](std::int64_t first, std::int64_t last) { check_scales(rows, first, last, bad); });
    if (bad >= 0) return bad_scale(item, tensor, bad);
    return Status();
  }

  Status map_matrix(const WeightItem& item, const TensorInfo& tensor) {
    QINFER_ASSIGN(const std::byte* data, keep_mapped(tensor));
    if (options_.verify)
      QINFER_TRY(verify_scales({data, item.format, item.need.rows, item.need.cols, {}}, item, tensor));
    place(item, data, {});
    return Status();
  }

  Status load_matrix(const WeightItem& item, const TensorInfo& tensor, std::byte* destination) {
    const kernels::WeightFormat as_in_file{tensor.encoding, kernels::WeightLayout::row_major};
    if (item.format == as_in_file) {
      QINFER_TRY(read(tensor, destination));
      QINFER_TRY(verify_scales({destination, item.format, item.need.rows, item.need.cols, {}}, item, tensor));
      reorder_rows(item, destination);
    } else {
      QINFER_ASSIGN(const std::byte* bytes, source(item));
      return pack_matrix({bytes, as_in_file, item.need.rows, item.need.cols, {}}, item, tensor, destination);
    }
    place(item, destination, {});
    return Status();
  }

  /// Packs a matrix as often as the kernel set asks for.
  Status pack_matrix(const kernels::Matrix& view, const WeightItem& item, const TensorInfo& tensor,
                     std::byte* destination) {
    kernels::PackInfo info;
    for (;;) {
      float largest = 0;
      QINFER_TRY(pack_rows(view, item, tensor, info, destination, largest));
      const kernels::PackEnd end = kernels_.pack_end(item.format, largest, info);
      if (end == kernels::PackEnd::done) break;
      if (end == kernels::PackEnd::out_of_range)
        return error(Code::unsupported, "tensor {} holds {}, beyond the range of {}: load it as bf16 or f32",
                     tensor.quoted(), largest, encoding_name(item.format.encoding));
      if (!is_staged(item)) total_ += tensor.bytes;
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
