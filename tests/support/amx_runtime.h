// A runtime with the AMX backend that asks neither the CPU for tiles nor the system for permission: what it executes
// ends in the emulator, wherever the tests run; and so do the instructions of AVX512-BF16 and AVX512-FP16.
#pragma once

#include <qinfer/qinfer.hpp>

#include "kernel_set.h"
#include "platform/cpu.h"
#include "support.h"
#include "support/amx_emulator.h"
#include "support/catch.h"
#include "support/skip.h"

namespace qinfer::test {

/// A system with all that has_tiles() asks for, whatever this one has.
inline platform::TileSystem system_with_tiles() {
  platform::TileSystem system;
  system.cpuid = [](unsigned leaf, unsigned subleaf) -> platform::CpuidResult {
    if (leaf == 0) return {0x1e, 0, 0, 0};
    if (leaf == 7 && subleaf == 0) return {0, 0, 0, 1u << 22 | 1u << 23 | 1u << 24};
    if (leaf == 7 && subleaf == 1) {  // AVX512-BF16; and AVX512-FP16 above
      platform::CpuidResult own = platform::tile_system().cpuid(leaf, subleaf);
      own.a |= 1u << 5;
      return own;
    }
    if (leaf == 0x1d && subleaf == 0) return {1, 0, 0, 0};
    if (leaf == 0x1d && subleaf == 1) return {1024u << 16 | 8192, 8u << 16 | 64, 16, 0};
    if (leaf == 0x1e) return {0, 64u << 8 | 16, 0, 0};
    return {};
  };
  system.enabled_state = [] { return std::uint64_t{0x60000}; };
  system.request_permission = [] { return Status(); };
  return system;
}

/// Whether this CPU has what the emulator does not execute of what the AMX backend needs.
inline bool can_emulate_amx() {
  const platform::TileSystem system = system_with_tiles();
  return kernels::find_kernel_set("amx", platform::cpu_features(system)) != nullptr;
}

class EmulatedRuntime : public qi::Runtime {
 public:
  explicit EmulatedRuntime(std::uint32_t threads = 2, const char* target = "amx")
      : EmulatedRuntime(options_for(threads, target)) {}
  explicit EmulatedRuntime(const engine::RuntimeOptions& options) : qi::Runtime(small()) {
    if (!emulator::is_native()) emulator::install();
    auto impl = engine::Runtime::create(options);
    REQUIRE(impl.ok());
    create([&](qinfer_runtime** out, qinfer_error*) {
      *out = new qinfer_runtime{std::move(impl.value())};
      return QINFER_OK;
    });
  }

  static engine::RuntimeOptions options_for(std::uint32_t threads, const char* target) {
    static const platform::TileSystem kSystem = system_with_tiles();
    engine::RuntimeOptions options;
    options.cpu_target = target;
    options.n_threads = threads;
    options.tiles = &kSystem;
    return options;
  }

 private:
  static qinfer_runtime_options small() {
    auto options = qi::options<qinfer_runtime_options>();
    options.n_threads = 1;
    return options;
  }
};

}  // namespace qinfer::test
