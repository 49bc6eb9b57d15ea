// See quantised_source.h.
#include "source/quantised_source.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <unordered_map>

#include "base/quantise.h"

namespace qinfer::source {
namespace {

using model::TensorId;
using model::TensorInfo;

/// Bytes of the inner source that are read at once, at most, but for a row that is longer.
constexpr std::uint64_t kReadStep = 4 << 20;
/// Values that are widened at once: whole blocks of every encoding.
constexpr std::int64_t kRun = 256;

struct Sums {
  double squares = 0, squared_errors = 0;
};

/// A matrix that is quantised, and how far reading it has come.
struct Quantised {
  TensorInfo original;
  Encoding to = Encoding::f32;
  std::int64_t rows = 0, cols = 0;
  std::int64_t rows_read = 0;
  Sums sums;

  std::uint64_t original_row_bytes() const {
    return encoded_bytes(original.encoding, static_cast<std::uint64_t>(cols));
  }
  std::uint64_t row_bytes() const { return encoded_bytes(to, static_cast<std::uint64_t>(cols)); }
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

class QuantisedSource final : public ModelSource {
 public:
  QuantisedSource(std::unique_ptr<ModelSource> inner, QuantiseOptions options)
      : inner_(std::move(inner)), options_(std::move(options)) {
    spec_ = inner_->spec();
    tokenizer_ = inner_->take_tokenizer();
    metadata_ = inner_->take_metadata();
    chat_templates_ = inner_->take_chat_templates();
    file_bytes_ = inner_->file_bytes();
    assumed_encoding_ = inner_->assumed_encoding();
  }

  /// Decides for each matrix.
  Status choose() {
    for (const model::TensorNeed& need : model::tensors_of(spec_)) {
      if (need.is_vector) continue;
      QINFER_ASSIGN(TensorInfo info, inner_->find(need.id));
      if (!is_plain(info.encoding) || info.packed)
        return error(Code::unsupported,
                     "tensor {} is {} already, and quantising it again would add another error: take the checkpoint in "
                     "{} that it was made of",
                     info.quoted(), encoding_name(info.encoding), encoding_names());
      const auto to = quantised_encoding(options_.mix, spec_, need.id, need.cols);
      if (!to) continue;
      std::string name = info.name;
      matrices_.emplace(std::move(name), Quantised{std::move(info), *to, need.rows, need.cols, 0, {}});
    }
    return Status();
  }

  bool has_tensors() const override { return inner_->has_tensors(); }
  std::string name(const TensorId& id) const override { return inner_->name(id); }
  model::RowOrder row_order(const TensorId& id) const override { return inner_->row_order(id); }
  std::string_view file_name(std::uint32_t file) const override { return inner_->file_name(file); }
  Result<Fingerprints> fingerprints(CancelFlag cancel) const override { return inner_->fingerprints(cancel); }
  Status verify(const TensorInfo&, std::span<const std::byte>) const override { return Status(); }

  Result<TensorInfo> find(const TensorId& id) const override {
    QINFER_ASSIGN(TensorInfo info, inner_->find(id));
    const auto found = matrices_.find(info.name);
    if (found == matrices_.end()) return info;
    info.encoding = found->second.to;
    info.bytes = found->second.row_bytes() * static_cast<std::uint64_t>(found->second.rows);
    return info;
  }

  Result<std::shared_ptr<platform::MappedFile>> map(std::uint32_t) override {
    return error(Code::internal, "a source that is quantised while it is read cannot be mapped");
  }

  Status read(const TensorInfo& tensor, std::uint64_t offset, std::span<std::byte> out) const override {
    const auto found = matrices_.find(tensor.name);
    if (found == matrices_.end()) return inner_->read(tensor, offset, out);
    Quantised& matrix = found->second;
    const std::uint64_t row_bytes = matrix.row_bytes(), end = offset + out.size();
    const std::uint64_t rows_at_once = std::max<std::uint64_t>(kReadStep / matrix.original_row_bytes(), 1);
    const std::uint64_t last = (end + row_bytes - 1) / row_bytes;
    std::vector<std::byte> blocks;
    for (std::uint64_t row = offset / row_bytes; row < last; row += rows_at_once) {
      QINFER_TRY(options_.cancel.check("quantising"));
      const std::uint64_t rows = std::min(rows_at_once, last - row), begin = row * row_bytes;
      blocks.resize(rows * row_bytes);
      QINFER_TRY(quantise_rows(matrix, row, rows, offset, blocks.data()));
      const std::uint64_t from = std::max(begin, offset), to = std::min(begin + blocks.size(), end);
      std::copy_n(blocks.data() + (from - begin), to - from, out.data() + (from - offset));
    }
    return Status();
  }

 private:
  /// `counted_from`: rows that begin before this byte were counted by the read before.
  Status quantise_rows(Quantised& matrix, std::uint64_t first, std::uint64_t n, std::uint64_t counted_from,
                       std::byte* out) const {
    const std::uint64_t original_bytes = matrix.original_row_bytes(), bytes = matrix.row_bytes();
    std::vector<std::byte> originals(n * original_bytes);
    std::vector<Sums> sums(n);
    QINFER_TRY(inner_->read(matrix.original, first * original_bytes, originals));
    std::vector<std::int64_t> bad(n, -1);
    options_.parallel_for(static_cast<std::int64_t>(n), [&](std::int64_t begin, std::int64_t end) {
      for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
        bad[i] = quantise_row(matrix, originals.data() + i * original_bytes, out + i * bytes, sums[i]);
    });
    for (std::size_t i = 0; i < n; ++i) {
      if (bad[i] >= 0) return bad_value(matrix, first + i, bad[i], originals.data() + i * original_bytes);
      if ((first + i) * bytes < counted_from) continue;
      matrix.sums.squares += sums[i].squares;
      matrix.sums.squared_errors += sums[i].squared_errors;
      if (++matrix.rows_read == matrix.rows) report(matrix);
    }
    return Status();
  }

  Status bad_value(const Quantised& matrix, std::uint64_t row, std::int64_t col, const std::byte* data) const {
    const Encoding encoding = matrix.original.encoding;
    float value = 0;
    encoding_traits(encoding).to_f32(data + encoded_bytes(encoding, static_cast<std::uint64_t>(col)), 1, &value);
    return error_at(Code::format, static_cast<std::int64_t>(matrix.original.offset),
                    "{}: element [{}, {}] of tensor {} is {}, expected a magnitude of at most {} to quantise it",
                    file_name(matrix.original.file), row, col, matrix.original.quoted(), value, kLargestQuantised);
  }

  void report(const Quantised& matrix) const {
    if (!options_.report) return;
    options_.report({matrix.original.name, matrix.original.encoding, matrix.to,
                     static_cast<std::uint64_t>(matrix.rows) * static_cast<std::uint64_t>(matrix.cols),
                     matrix.sums.squares, matrix.sums.squared_errors});
  }

  std::unique_ptr<ModelSource> inner_;
  QuantiseOptions options_;
  mutable std::unordered_map<std::string, Quantised> matrices_;  ///< by name; reading counts in them
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
