// What the benches of the kernels share: a pinned team that runs operations as the engine does, enough copies of
// weights in a kernel set's own format that they come from memory, keys and values to attend to, and the ceilings of
// this machine, measured in the same process.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/phases.h"
#include "engine/team.h"
#include "kernel_set.h"
#include "platform/memory.h"

namespace qinfer::bench {

/// What all copies of some weights should take together: twice the caches of most machines.
inline constexpr std::uint64_t kColdBytes = std::uint64_t{512} << 20;
inline std::int64_t cold_copies(std::uint64_t bytes) {
  return static_cast<std::int64_t>((kColdBytes + bytes - 1) / bytes);
}

/// Unwraps a Result; benches end on the first failure.
template <typename T>
T value_of(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(std::string(result.take_status().message()));
  return std::move(result.value());
}

// ---- The machine ----

struct Ceilings {
  double bandwidth = 0;  ///< bytes per second
  double f32_flops = 0;
  double f16_flops = 0;    ///< 0: the CPU does not compute in f16
  double int16_flops = 0;  ///< of products of 16-bit integers; 0: the CPU has no instruction for them
  double dot_flops = 0;    ///< of products of bf16; 0: the CPU has no instruction for them
  double tile_flops = 0;   ///< 0: no AMX
  double avx2_flops = 0;   ///< f32_flops with registers of 256 bits; 0: the CPU has none
};
Ceilings measure_ceilings(const std::vector<std::uint32_t>& cpus);

/// "0,1"; empty: the first `threads` CPUs of cores of their own.
std::vector<std::uint32_t> parse_cpus(const std::string& list, std::uint32_t threads);

/// The sets that this CPU can run, best first.
std::vector<const kernels::KernelSet*> usable_sets();

/// The row of a set in kernels::kernel_sets().
const kernels::KernelSetRow& row_of(const kernels::KernelSet& set);

/// Of the multiply-adds that a set uses for weights of this type.
double projection_peak(const Ceilings& ceilings, const kernels::KernelSet& set, Encoding weights);

// ---- Threads ----

/// Persistent threads, one on each CPU.
class Team {
 public:
  explicit Team(const std::vector<std::uint32_t>& cpus);

  std::int32_t size() const { return team_->size(); }
  void barrier(std::int32_t worker) { team_->barrier(worker); }

  /// All phases of an operation, as in the engine; called by every worker.
  template <typename Args>
  void run_operation(const kernels::Operation<Args>& operation, const Args& args, std::int32_t worker) {
    engine::run_phases(*team_, operation, args, worker, [](std::int32_t) {});
  }

  /// body(worker, i) on all threads for i = first .. first + count - 1, in one run of the team: the seconds from when
  /// all have begun until all are done. The body ends with a barrier, as operations do.
  template <typename Body>
  double time(std::int64_t first, std::int64_t count, Body&& body) {
    double seconds = 0;
    team_->run([&](std::int32_t worker) {
      barrier(worker);
      const auto begin = std::chrono::steady_clock::now();
      for (std::int64_t i = first; i < first + count; ++i) body(worker, i);
      if (worker == 0) seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    });
    return seconds;
  }

  /// body(worker) on every thread.
  template <typename Body>
  void run(Body&& body) {
    team_->run(std::forward<Body>(body));
  }

 private:
  std::unique_ptr<engine::ThreadTeam> team_;
};

// ---- Data ----

/// Zero-filled and on 2 MiB pages where the system has them, as the library takes its own memory.
class Memory {
 public:
  Memory() = default;
  explicit Memory(std::uint64_t bytes);
  std::byte* data() const { return buffer_.data(); }
  std::uint64_t size() const { return buffer_.size(); }
  template <typename T>
  T* as() const {
    return buffer_.as<T>();
  }

 private:
  platform::Buffer buffer_;
};

/// Rows of normally distributed values (deviation 1) in some layout.
class RandomRows {
 public:
  RandomRows(std::int64_t n, std::int64_t width,
             kernels::ActivationLayout layout = kernels::ActivationLayout::row_major);
  kernels::Activations view() const { return {memory_.data(), layout_, width_}; }

 private:
  Memory memory_;
  kernels::ActivationLayout layout_;
  std::int64_t width_;
};

/// What a set multiplies with weights, what it adds the products to, and the queries of its attention.
inline RandomRows random_operand(const kernels::KernelSet& set, std::int64_t n, std::int64_t width) {
  return RandomRows(n, width, set.layouts.operand_of(n));
}
inline RandomRows random_residual(const kernels::KernelSet& set, std::int64_t n, std::int64_t width) {
  return RandomRows(n, width, set.layouts.residual_of(n));
}
inline RandomRows random_queries(const kernels::KernelSet& set, std::int64_t n, std::uint64_t n_heads,
                                 std::uint64_t head_dim) {
  const kernels::ActivationLayout layout = set.layouts.query_of(n);
  return RandomRows(n, static_cast<std::int64_t>(kernels::query_width(layout, n_heads, head_dim)), layout);
}

/// What a file holds that is to become `wanted`: blocks of a quantised encoding as they are, anything else as bf16.
constexpr Encoding source_of(Encoding wanted) { return is_plain(wanted) ? Encoding::bf16 : wanted; }

/// Random values, bf16 or quantised, in row-major order, as a file holds them.
class SourceMatrix {
 public:
  SourceMatrix(std::int64_t rows, std::int64_t cols, Encoding encoding);
  kernels::Matrix view() const;

 private:
  Memory memory_;
  Encoding encoding_;
  std::int64_t rows_, cols_;
};

/// Packs all rows of a source, each thread a part; returns the largest magnitude.
float pack_on_team(Team& team, const kernels::KernelSet& set, const kernels::Matrix& source,
                   const kernels::WeightFormat& format, std::byte* destination);

/// A matrix of random weights, packed, in several copies of the same values.
class Weights {
 public:
  Weights(Team& team, const kernels::KernelSet& set, const kernels::WeightFormat& format, std::int64_t rows,
          std::int64_t cols, std::int64_t copies);
  const kernels::Linear& copy(std::int64_t i) const { return views_[static_cast<std::size_t>(i) % views_.size()]; }
  std::uint64_t bytes() const { return bytes_; }  ///< of one copy

 private:
  std::uint64_t bytes_;
  Memory memory_;  // one block for all, as the library keeps the weights of a model
  std::vector<kernels::Linear> views_;
};

/// The format a set wants for a matrix stored as bf16, or as `wanted` where that is quantised; `wanted`: an encoding to
/// ask for, or null. Throws if it has none.
kernels::WeightFormat format_for(const kernels::KernelSet& set, kernels::WeightRole role, const Encoding* wanted);

/// The workspace of one operation.
class OperationMemory {
 public:
  OperationMemory(const kernels::WorkspaceSize& size, std::int32_t threads);
  kernels::Workspace view() const;

 private:
  Memory memory_;
  std::uint64_t shared_, per_worker_;
};

/// A cache of random keys and values for a number of sequences of one length, each with blocks of its own.
class RandomCache {
 public:
  RandomCache(const KvLayout& layout, std::int64_t sequences, std::uint64_t tokens);
  const KvLayout& layout() const { return layout_; }
  KvView view(std::int64_t sequence) const;

 private:
  KvLayout layout_;
  std::uint32_t blocks_;
  std::vector<std::uint32_t> table_;
  Memory arena_;
};

}  // namespace qinfer::bench
