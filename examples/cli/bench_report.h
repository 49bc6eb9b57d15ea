// bench_report.h: the outcome of `qinfer bench`, the work it is compared with, and its two forms: table and JSON.
#pragma once

#include <cstdint>
#include <qinfer/qinfer.hpp>
#include <string>
#include <vector>

#include "bench_conditions.h"
#include "ceilings.h"

namespace cli {

/// The wall time of each repetition of one measurement over `tokens` tokens.
struct Samples {
  std::uint32_t tokens = 0;
  std::vector<double> seconds;
  std::vector<Conditions> conditions;  // of each repetition
};

/// What a token costs at least, from the sizes of the model; independent of how the library does it.
struct Work {
  double decode_weight_bytes = 0;  // read once per step, which decodes a token of every session
  double decode_kv_bytes = 0;      // mean per token
  double layer_params = 0;         // all that a token is computed with but embedding and LM head
  double prefill_flops = 0;        // for all tokens of the prompt
  bool tied = false;               // embedding and LM head are one tensor
};

/// The experts of a model that has some.
struct Experts {
  std::uint32_t n = 0, active = 0, layers = 0;  // in a layer; of them for a token; layers that have some
  double touched = 0;       // distinct ones of a layer that a step of all sessions reads, on average
  std::uint32_t steps = 0;  // in which that was counted
};

/// kv_position_bytes: keys and values of a position in all layers, as if none had a window; prompt: tokens before the
/// decoded ones.
Work count_work(const qi::Model& model, const Experts& experts, double kv_position_bytes, std::uint32_t prefill,
                std::uint32_t prompt, std::uint32_t decode);

/// What a kernel set multiplies with, for weights in this format (of qinfer_model_info).
Multiplier multiplier_of(const std::string& kernel_set, const std::string& weight_format);

struct BenchReport {
  std::string model_name, weight_format, kernel_set, kv;
  std::uint64_t n_params = 0, n_active_params = 0;
  Experts experts;
  bool exact = false;
  std::uint32_t depth = 0, sessions = 1;  // of decoding
  qinfer_cpu_info cpu{};
  std::string cpu_name;
  std::vector<std::uint32_t> cpus;
  Bandwidth bandwidth;
  FmaPeak fma;
  Samples prefill, decode;
  Work work;
};

void print_table(const BenchReport& report);
/// The head of a table that compares kernel sets, and the rows of one of them, which the library may have chosen.
void print_comparison(const BenchReport& report);
void print_target(const BenchReport& report, bool chosen);
void print_json(const BenchReport& report);

}  // namespace cli
