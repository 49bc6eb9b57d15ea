// What a weight format says by itself, whichever kernel set it belongs to: names, sizes and shapes of layouts.
#include "base/checked.h"
#include "common/quant_tiles.h"
#include "kernel_set.h"

namespace qinfer::kernels {
namespace {

struct LayoutRow {
  WeightLayout layout;
  std::string_view name;
};
constexpr LayoutRow kLayouts[] = {{WeightLayout::row_major, "row_major"},
                                  {WeightLayout::tile32, "tile32"},
                                  {WeightLayout::pairs32, "pairs32"},
                                  {WeightLayout::squares32, "squares32"},
                                  {WeightLayout::pairs16, "pairs16"}};

}  // namespace

std::string_view weight_layout_name(WeightLayout layout) { return kLayouts[static_cast<std::size_t>(layout)].name; }

std::optional<WeightLayout> find_weight_layout(std::string_view name) {
  for (const LayoutRow& row : kLayouts)
    if (row.name == name) return row.layout;
  return std::nullopt;
}

StoredShape weight_shape(const WeightFormat& format, std::int64_t rows, std::int64_t cols) {
  const auto n = static_cast<std::uint64_t>(rows), k = static_cast<std::uint64_t>(cols);
  const bool tiles = format.layout == WeightLayout::tile32;
  constexpr auto kRows = static_cast<std::uint64_t>(kTileRows);
  if (!is_plain(format.encoding)) {
    const auto tile_bytes = static_cast<std::uint64_t>(bytes_of_quant_tile(format.encoding, cols));
    if (tiles) return {{ceil_div(n, kRows), tile_bytes}, 2};
    return {{n, encoded_bytes(format.encoding, k)}, 2};
  }
  if (tiles) return {{ceil_div(n, kRows), k, kRows}, 3};
  if (format.layout == WeightLayout::pairs32) return {{ceil_div(n, kRows), ceil_div(k, 2), 2 * kRows}, 3};
  if (format.layout == WeightLayout::pairs16) return {{ceil_div(n, 16), ceil_div(k, 32) * 16, 32}, 3};
  return {{n, k}, 2};
}

std::uint64_t weight_bytes(const WeightFormat& format, std::int64_t rows, std::int64_t cols) {
  const StoredShape shape = weight_shape(format, rows, cols);
  std::uint64_t elements = 1;
  for (std::uint32_t i = 0; i < shape.n; ++i) elements *= shape.lengths[i];
  return is_plain(format.encoding) ? encoded_bytes(format.encoding, elements) : elements;
}

std::uint64_t weight_alignment(const WeightFormat& format) {
  const bool plain = is_plain(format.encoding);
  if (format.layout != WeightLayout::row_major) return plain ? 64 : 32;
  return plain ? encoding_traits(format.encoding).block_bytes : 1;
}

}  // namespace qinfer::kernels
