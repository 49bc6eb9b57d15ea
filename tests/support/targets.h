// The kernel sets that this CPU can run, as values of cpu_target.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "kernel_set.h"
#include "platform/cpu.h"

namespace qinfer::test {

/// The CPU's features; those of AMX only where the system lets this process use tiles.
inline std::string usable_features() {
  const bool permitted =
      platform::has_tiles(platform::tile_system()) && platform::tile_system().request_permission().ok();
  platform::TileSystem system = platform::tile_system();
  if (!permitted) system.enabled_state = [] { return std::uint64_t{0}; };
  return platform::cpu_features(system);
}

/// `exact`: only those that QINFER_RUNTIME_EXACT allows.
inline std::vector<std::string> usable_targets(bool exact = false) {
  const std::string features = usable_features();
  std::vector<std::string> names;
  for (const kernels::KernelSetRow& row : kernels::kernel_sets())
    if (kernels::find_kernel_set(row.name, features, exact) != nullptr) names.emplace_back(row.name);
  return names;
}

// ---- What follows from a target, without knowing it by its name ----

inline const kernels::KernelSetRow& row_of(std::string_view name) {
  for (const kernels::KernelSetRow& row : kernels::kernel_sets())
    if (row.name == name) return row;
  throw std::runtime_error(std::string(name) + " has no row in kernel_sets()");
}

/// Runs on any CPU, with weights as they are in the file.
inline bool is_portable(std::string_view name) { return row_of(name).needs.empty(); }

/// Multiplies on tiles, with bf16 weights and activations.
inline bool uses_tiles(std::string_view name) {
  return row_of(name).numerics.multiplier(Encoding::bf16) == kernels::Multiplier::bf16_tiles;
}

/// Rounds what it multiplies to bf16, and has bf16 weights alone.
inline bool rounds_to_bf16(std::string_view name) {
  return uses_tiles(name) || row_of(name).numerics.multiplier(Encoding::bf16) == kernels::Multiplier::bf16_dot;
}

/// Adds up products of f16 weights and values in f16.
inline bool sums_f16_in_f16(std::string_view name) {
  return row_of(name).numerics.multiplier(Encoding::f16) == kernels::Multiplier::f16_fma;
}

/// Whether matrices that are multiplied can be held in this encoding.
inline bool holds(std::string_view name, Encoding encoding) {
  kernels::WeightFormat format;
  return row_of(name).get().weight_format(kernels::WeightRole::q, Encoding::f32, &encoding, false, format);
}

/// Keeps what is multiplied in another order than the file's.
inline bool repacks(std::string_view name) {
  kernels::WeightFormat format;
  const Encoding bf16 = Encoding::bf16;
  row_of(name).get().weight_format(kernels::WeightRole::q, bf16, &bf16, false, format);
  return format.layout != kernels::WeightLayout::row_major;
}

}  // namespace qinfer::test
