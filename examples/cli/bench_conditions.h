// bench_conditions.h: under which conditions `qinfer bench` measured: the CPU, the build and the command, and around
// each sample how fast memory and multiplications were and what other programs took. A number without them can be
// compared with no other.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "ceilings.h"

namespace cli {

/// Around one sample.
struct Conditions {
  double bandwidth_before = 0, bandwidth_after = 0;  // bytes per second
  double peak_before = 0, peak_after = 0;            // operations per second
  double share_of_others = -1;  // of the CPUs' time; negative: unknown, as the sample is too short or the system silent
};

class ConditionsMeter {
 public:
  ConditionsMeter(const std::vector<std::uint32_t>& cpus, std::uint64_t read_bytes, Multiplier multiplier)
      : cpus_(cpus), memory_(cpus, read_bytes), peak_(cpus, multiplier) {}
  /// Directly before and after a sample.
  void begin();
  Conditions end();

 private:
  std::vector<std::uint32_t> cpus_;
  BandwidthProbe memory_;
  PeakProbe peak_;
  double bandwidth_ = 0, flops_ = 0, busy_ = 0, own_ = 0;
  std::chrono::steady_clock::time_point begin_;
};

/// Members of a JSON object, as bench/results/README.md describes them: date, commit, build, os, command and machine.
std::string json_provenance(const std::string& cpu_name, std::size_t threads);

}  // namespace cli
