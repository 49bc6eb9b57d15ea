// See quantised_source.h.
#include "source/quantised_source.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_map>

#include "base/mutex.h"
#include "base/quantise.h"
#include "source/derived_source.h"

namespace qinfer::source {
namespace {

using model::TensorId;
using model::TensorInfo;

/// Bytes of the inner source that are read at once, at most, but for runs of rows that are longer.
constexpr std::uint64_t kReadStep = 4 << 20;
/// Values that are widened at once: whole blocks of every encoding.
constexpr std::int64_t kRun = 256;

struct Sums {
  double squares = 0, squared_errors = 0;
};

/// A matrix that is quantised.
struct Quantised {
  TensorInfo original;
  Encoding to = Encoding::f32;
  std::int64_t rows = 0, cols = 0;

  std::uint64_t row_bytes() const { return encoded_bytes(to, static_cast<std::uint64_t>(cols)); }
};

/// Which rows of a matrix were read.
struct RowsRead {
  std::vector<Sums> sums;  ///< of each row
  std::vector<bool> was_read;
  std::int64_t count = 0;
};

/// Quantises a row. Returns the first value that cannot be quantised, -1 if there is none.
std::int64_t quantise_row(const Quantised& matrix, const std::byte* row, std::byte* out, Sums& sums) {
  float values[kRun], found[kRun];
  for (std::int64_t at = 0; at < matrix.cols; at += kRun) {
    const std::int64_t n = std::min(kRun, matrix.cols - at);
    encoding_traits(matrix.original.encoding).to_f32(row, n, values);
    const std::int64_t bad = find_unquantisable(values, n);
    if (bad >= 0) return at + bad;
    quantise(matrix.to, values, n, out);
    encoding_traits(matrix.to).to_f32(out, n, found);
    for (std::int64_t i = 0; i < n; ++i) {
      const double x = values[i], error = x - found[i];
      sums.squares += x * x;
      sums.squared_errors += error * error;
    }
    row += encoded_bytes(matrix.original.encoding, static_cast<std::uint64_t>(n));
    out += encoded_bytes(matrix.to, static_cast<std::uint64_t>(n));
  }
  return -1;
}

class QuantisedSource final : public DerivedSource {
 public:
  QuantisedSource(std::unique_ptr<ModelSource> inner, QuantiseOptions options)
      : DerivedSource(std::move(inner)), options_(std::move(options)) {}

  /// Decides for each matrix.
  Status choose() {
    for (const model::TensorNeed& need : model::tensors_of(spec_)) {
      if (need.is_vector) continue;
      QINFER_ASSIGN(TensorInfo info, inner().find(need.id));
      if (!info.packed) QINFER_TRY(model::check_stored(inner(), need, info));
      if (!is_plain(info.encoding) || info.packed)
        return error(Code::unsupported,
                     "tensor {} is {} already, and quantising it again would add another error: take the checkpoint in "
                     "{} that it was made of",
                     info.quoted(), encoding_name(info.encoding), encoding_names());
      const auto to = quantised_encoding(options_.mix, spec_, need.id, need.cols);
      if (!to) continue;
      std::string name = info.name;
      matrices_.emplace(std::move(name), Quantised{std::move(info), *to, need.rows, need.cols});
    }
    return Status();
  }

  /// Checksums are those of the original's bytes.
  Status verify(const TensorInfo&, std::span<const std::byte>) const override { return Status(); }

  Result<TensorInfo> find(const TensorId& id) const override {
    QINFER_ASSIGN(TensorInfo info, inner().find(id));
    const auto found = matrices_.find(info.name);
    if (found == matrices_.end()) return info;
    info.encoding = found->second.to;
    info.row_bytes = found->second.row_bytes();
    info.converted = true;
    return info;
  }

  Status read_rows(const TensorInfo& tensor, std::uint64_t first, std::uint64_t n, std::byte* out,
                   const model::ParallelFor& parallel_for) const override {
    const auto found = matrices_.find(tensor.name);
    if (found == matrices_.end()) return inner().read_rows(tensor, first, n, out, parallel_for);
    const Quantised& matrix = found->second;
    const std::uint64_t step = rows_at_once(matrix);
    for (std::uint64_t row = first; row < first + n; row += step) {
      QINFER_TRY(options_.cancel.check("quantising"));
      const std::uint64_t rows = std::min(step, first + n - row);
      QINFER_TRY(read_step(matrix, row, rows, out + (row - first) * matrix.row_bytes(), parallel_for));
    }
    return Status();
  }

 private:
  /// Rows of the original that are in memory at once, in whole runs of its order.
  static std::uint64_t rows_at_once(const Quantised& matrix) {
    const TensorInfo& original = matrix.original;
    return round_up(std::max<std::uint64_t>(kReadStep / std::max<std::uint64_t>(original.row_bytes, 1), 1),
                    std::max<std::size_t>(original.row_order.size(), 1));
  }

  Status read_step(const Quantised& matrix, std::uint64_t first, std::uint64_t n, std::byte* out,
                   const model::ParallelFor& parallel_for) const {
    const std::uint64_t original_bytes = matrix.original.row_bytes, bytes = matrix.row_bytes();
    std::vector<std::byte> originals(n * original_bytes);
    std::vector<Sums> sums(n);
    std::vector<std::int64_t> bad(n, -1);
    QINFER_TRY(inner().read_rows(matrix.original, first, n, originals.data(), parallel_for));
    parallel_for(static_cast<std::int64_t>(n), [&](std::int64_t begin, std::int64_t end) {
      for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
        bad[i] = quantise_row(matrix, originals.data() + i * original_bytes, out + i * bytes, sums[i]);
    });
    for (std::size_t i = 0; i < n; ++i)
      if (bad[i] >= 0) return bad_value(matrix, first + i, bad[i], originals.data() + i * original_bytes);
    if (const auto all = count(matrix, first, sums)) report(matrix, *all);
    return Status();
  }

  /// Notes the rows from `first` on as read. Returns the sums of the whole matrix when the last row was read; they are
  /// added in the order of rows, so that they do not depend on who read first.
  std::optional<Sums> count(const Quantised& matrix, std::uint64_t first, std::span<const Sums> sums) const {
    const Lock lock(mutex_);
    RowsRead& read = rows_read_[matrix.original.name];
    if (read.count == matrix.rows) return std::nullopt;
    read.sums.resize(static_cast<std::size_t>(matrix.rows));
    read.was_read.resize(static_cast<std::size_t>(matrix.rows));
    for (std::size_t i = 0; i < sums.size(); ++i) {
      read.count += read.was_read[first + i] ? 0 : 1;
      read.was_read[first + i] = true;
      read.sums[first + i] = sums[i];
    }
    if (read.count != matrix.rows) return std::nullopt;
    Sums all;
    for (const Sums& row : read.sums) all.squares += row.squares, all.squared_errors += row.squared_errors;
    std::vector<Sums>().swap(read.sums);
    return all;
  }

  Status bad_value(const Quantised& matrix, std::uint64_t row, std::int64_t col, const std::byte* data) const {
    const Encoding encoding = matrix.original.encoding;
    float value = 0;
    encoding_traits(encoding).to_f32(data + encoded_bytes(encoding, static_cast<std::uint64_t>(col)), 1, &value);
    return error_at(Code::format, static_cast<std::int64_t>(matrix.original.offset()),
                    "{}: element [{}, {}] of tensor {} is {}, expected a magnitude of at most {} to quantise it",
                    file_name(matrix.original.file()), matrix.original.stored_row(row), col, matrix.original.quoted(),
                    value, kLargestQuantised);
  }

  void report(const Quantised& matrix, const Sums& all) const {
    if (!options_.report) return;
    options_.report({matrix.original.name, matrix.original.encoding, matrix.to,
                     static_cast<std::uint64_t>(matrix.rows) * static_cast<std::uint64_t>(matrix.cols), all.squares,
                     all.squared_errors});
  }

  QuantiseOptions options_;
  std::unordered_map<std::string, Quantised> matrices_;  ///< by name
  mutable Mutex mutex_;
  mutable std::unordered_map<std::string, RowsRead> rows_read_ ABSL_GUARDED_BY(mutex_);  ///< by name
};

}  // namespace

double QuantisedMatrix::bits() const {
  const EncodingTraits& traits = encoding_traits(to);
  return 8.0 * traits.block_bytes / traits.block_values;
}

double QuantisedMatrix::relative_error() const { return squares > 0 ? std::sqrt(squared_errors / squares) : 0.0; }

Result<std::unique_ptr<ModelSource>> quantise_source(std::unique_ptr<ModelSource> source, QuantiseOptions options) {
  auto quantised = std::make_unique<QuantisedSource>(std::move(source), std::move(options));
  QINFER_TRY(quantised->choose());
  return std::unique_ptr<ModelSource>(std::move(quantised));
}

}  // namespace qinfer::source
