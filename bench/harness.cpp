// See harness.h.
#include "harness.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <sstream>
#include <stdexcept>

#include "base/checked.h"
#include "ceilings.h"
#include "platform/cpu.h"
#include "random.h"

namespace qinfer::bench {

Ceilings measure_ceilings(const std::vector<std::uint32_t>& cpus) {
  const platform::TileSystem& tiles = platform::tile_system();
  const cli::FmaPeak peak = cli::measure_fma_peak(cpus, platform::has_tiles(tiles) && tiles.request_permission().ok());
  return {cli::measure_read_bandwidth(cpus).bytes_per_second,
          peak.flops,
          peak.f16_flops,
          peak.int16_flops,
          peak.dot_flops,
          peak.tile_flops,
          peak.avx2_flops};
}

std::vector<std::uint32_t> parse_cpus(const std::string& list, std::uint32_t threads) {
  std::vector<std::uint32_t> cpus;
  std::istringstream stream(list);
  for (std::string item; std::getline(stream, item, ',');) cpus.push_back(static_cast<std::uint32_t>(std::stoul(item)));
  if (list.empty()) cpus = cli::usable_cpus();
  if (cpus.size() < threads) throw std::runtime_error("each thread needs a CPU of its own");
  cpus.resize(threads);
  return cpus;
}

std::vector<const kernels::KernelSet*> usable_sets() {
  const bool permitted = platform::tile_system().request_permission().ok();
  const std::string features = platform::cpu_features();
  std::vector<const kernels::KernelSet*> sets;
  for (const kernels::KernelSetRow& row : kernels::kernel_sets()) {
    const kernels::KernelSet* set = kernels::find_kernel_set(row.name, features);
    if (set != nullptr && (permitted || row.needs.find("amx_tile") == row.needs.npos)) sets.push_back(set);
  }
  return sets;
}

const kernels::KernelSetRow& row_of(const kernels::KernelSet& set) {
  for (const kernels::KernelSetRow& row : kernels::kernel_sets())
    if (row.name == set.name) return row;
  throw std::runtime_error(std::string(set.name) + " has no row in kernel_sets()");
}

double projection_peak(const Ceilings& ceilings, const kernels::KernelSet& set, Encoding weights) {
  switch (row_of(set).numerics.multiplier(weights)) {
    case kernels::Multiplier::f32_fma:
      return std::string_view(set.name).starts_with("avx2") ? ceilings.avx2_flops : ceilings.f32_flops;
    case kernels::Multiplier::int16_dot: return ceilings.int16_flops;
    case kernels::Multiplier::f16_fma: return ceilings.f16_flops;
    case kernels::Multiplier::bf16_dot: return ceilings.dot_flops;
    case kernels::Multiplier::bf16_tiles: return ceilings.tile_flops;
    case kernels::Multiplier::int16_tiles: return ceilings.tile_flops / 2;
  }
  return 0;
}

Team::Team(const std::vector<std::uint32_t>& cpus) {
  engine::TeamOptions options;
  options.n_threads = options.usable_cpus = static_cast<std::uint32_t>(cpus.size());
  options.cpu_ids = cpus;
  team_ = value_of(engine::ThreadTeam::create(options));
}

Memory::Memory(std::uint64_t bytes)
    : buffer_(value_of(platform::Buffer::allocate({}, bytes, "a bench", platform::Pages::huge))) {
  buffer_.commit();
}

RandomRows::RandomRows(std::int64_t n, std::int64_t width, kernels::ActivationLayout layout)
    : memory_(kernels::layout_bytes(layout, static_cast<std::uint64_t>(n), static_cast<std::uint64_t>(width))),
      layout_(layout),
      width_(width) {
  Random random(1);
  const bool narrow = layout == kernels::ActivationLayout::bf16_panels;
  for (std::uint64_t i = 0; i < memory_.size() / (narrow ? 2 : 4); ++i) {
    const float value = random.normal();
    narrow ? void(memory_.as<std::uint16_t>()[i] = f32_to_bf16(value)) : void(memory_.as<float>()[i] = value);
  }
}

SourceMatrix::SourceMatrix(std::int64_t rows, std::int64_t cols, Encoding encoding)
    : memory_(static_cast<std::uint64_t>(rows) * encoded_bytes(encoding, static_cast<std::uint64_t>(cols))),
      encoding_(encoding),
      rows_(rows),
      cols_(cols) {
  Random random(2);
  if (encoding == Encoding::bf16) {
    for (std::int64_t i = 0; i < rows * cols; ++i)
      memory_.as<std::uint16_t>()[i] = f32_to_bf16(0.02f * random.normal());
  } else {
    // Blocks of any bytes in which the exponent of an f16 has a bit that is zero, so that scales are finite.
    std::mt19937 bytes(2);
    for (std::uint64_t i = 0; i < memory_.size(); ++i) memory_.data()[i] = static_cast<std::byte>(bytes() & 0xbf);
    // Its scales are exponents alone: small ones would give numbers that the CPU computes with twenty times as long.
    const EncodingTraits& traits = encoding_traits(encoding);
    for (std::uint64_t i = 0; encoding == Encoding::mxfp4 && i < memory_.size(); i += traits.block_bytes)
      memory_.data()[i] = static_cast<std::byte>(116 + bytes() % 8);
  }
}

kernels::Matrix SourceMatrix::view() const {
  return {memory_.data(), {encoding_, kernels::WeightLayout::row_major}, rows_, cols_, {}};
}

float pack_on_team(Team& team, const kernels::KernelSet& set, const kernels::Matrix& source,
                   const kernels::WeightFormat& format, std::byte* destination) {
  constexpr std::int64_t kTile = kernels::kPackRows;
  const std::int64_t tiles = (source.rows + kTile - 1) / kTile;
  std::vector<float> largest(static_cast<std::size_t>(team.size()));
  team.run([&](std::int32_t worker) {
    const std::int64_t first = tiles * worker / team.size(), last = tiles * (worker + 1) / team.size();
    if (first < last)
      largest[static_cast<std::size_t>(worker)] =
          set.pack(source, format, {}, destination, first * kTile, std::min(last * kTile, source.rows));
  });
  return *std::max_element(largest.begin(), largest.end());
}

Weights::Weights(Team& team, const kernels::KernelSet& set, const kernels::WeightFormat& format, std::int64_t rows,
                 std::int64_t cols, std::int64_t copies)
    : bytes_(kernels::weight_bytes(format, rows, cols)) {
  const std::uint64_t stride = round_up(bytes_, 64);
  memory_ = Memory(stride * static_cast<std::uint64_t>(copies));
  const SourceMatrix source(rows, cols, source_of(format.encoding));
  const float largest = pack_on_team(team, set, source.view(), format, memory_.data());
  for (std::int64_t i = 0; i < copies; ++i) {
    std::byte* at = memory_.data() + stride * static_cast<std::uint64_t>(i);
    if (i > 0) std::memcpy(at, memory_.data(), bytes_);
    views_.push_back(kernels::Matrix{at, format, rows, cols, {1, largest}});
  }
}

kernels::WeightFormat format_for(const kernels::KernelSet& set, kernels::WeightRole role, const Encoding* wanted) {
  kernels::WeightFormat format;
  const Encoding stored = wanted != nullptr ? source_of(*wanted) : Encoding::bf16;
  if (!set.weight_format(role, stored, wanted, false, format))
    throw std::runtime_error(std::string(set.name) + " has no such weights");
  return format;
}

OperationMemory::OperationMemory(const kernels::WorkspaceSize& size, std::int32_t threads)
    : shared_(round_up(size.shared, 64)), per_worker_(round_up(size.per_worker, 64)) {
  memory_ = Memory(shared_ + per_worker_ * static_cast<std::uint64_t>(threads) + 64);
}

kernels::Workspace OperationMemory::view() const {
  return {memory_.data(), memory_.data() + shared_, static_cast<std::size_t>(per_worker_)};
}

RandomCache::RandomCache(const KvLayout& layout, std::int64_t sequences, std::uint64_t tokens)
    : layout_(layout), blocks_(layout.blocks_for(tokens)), table_(static_cast<std::size_t>(sequences) * blocks_) {
  for (std::size_t i = 0; i < table_.size(); ++i) table_[i] = static_cast<std::uint32_t>(i);
  arena_ = Memory(table_.size() * layout_.block_bytes());
  Random random(3);
  const std::uint64_t count = arena_.size() / dtype_bytes(layout_.type);
  for (std::uint64_t i = 0; i < count; ++i) {
    const float value = random.normal();
    if (layout_.type == DType::f32) arena_.as<float>()[i] = value;
    if (layout_.type == DType::f16) arena_.as<std::uint16_t>()[i] = f32_to_f16(value);
    if (layout_.type == DType::bf16) arena_.as<std::uint16_t>()[i] = f32_to_bf16(value);
  }
}

KvView RandomCache::view(std::int64_t sequence) const {
  return {arena_.data(), table_.data() + static_cast<std::size_t>(sequence) * blocks_};
}

}  // namespace qinfer::bench
