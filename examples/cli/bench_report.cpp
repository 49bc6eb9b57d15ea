// bench_report.cpp: see bench_report.h.
#include "bench_report.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "support.h"

namespace cli {
namespace {

struct Spread {
  double median = 0, lowest = 0, highest = 0;  // tokens per second
};

Spread tokens_per_second(const Samples& samples) {
  if (samples.seconds.empty()) return {};
  std::vector<double> rates;
  rates.reserve(samples.seconds.size());
  for (const double seconds : samples.seconds) rates.push_back(samples.tokens / std::max(seconds, 1e-9));
  std::sort(rates.begin(), rates.end());
  const std::size_t middle = rates.size() / 2;
  const double median = rates.size() % 2 == 1 ? rates[middle] : (rates[middle - 1] + rates[middle]) / 2;
  return {median, rates.front(), rates.back()};
}

std::string speed(const Samples& samples, double work_rate, const char* unit, double share, const char* ceiling) {
  const Spread spread = tokens_per_second(samples);
  return format("%10.1f tokens/s (%.1f..%.1f, %zu runs)   %.2f %s = %.1f %% of %s", spread.median, spread.lowest,
                spread.highest, samples.seconds.size(), work_rate / 1e9, unit, share * 100, ceiling);
}

std::string join_numbers(const std::vector<std::uint32_t>& numbers) {
  std::string text;
  for (const std::uint32_t number : numbers) text += (text.empty() ? "" : ", ") + std::to_string(number);
  return text;
}

/// The peak that the projections of this kernel set could reach.
bool sums_in_f16(const BenchReport& report) {
  return kernels_need(report.kernel_set, "avx512_fp16") && report.weight_format == "f16" && report.fma.f16_flops > 0;
}

/// The same of a set that multiplies bf16 without tiles.
bool multiplies_bf16(const BenchReport& report) {
  return report.kernel_set == "avx512_bf16" && report.fma.dot_flops > 0;
}

/// The same of a set whose registers have 256 bits.
bool has_avx2_alone(const BenchReport& report) { return kernels_need(report.kernel_set, "avx2"); }

bool on_tiles(const BenchReport& report) { return kernels_need(report.kernel_set, "amx_bf16"); }

double fma_peak(const BenchReport& report) {
  if (on_tiles(report)) return report.fma.tile_flops;
  if (multiplies_bf16(report)) return report.fma.dot_flops;
  if (has_avx2_alone(report)) return report.fma.avx2_flops;
  return sums_in_f16(report) ? report.fma.f16_flops : report.fma.flops;
}

/// As programs name it that read the JSON.
const char* key_of_peak(const BenchReport& report) {
  if (on_tiles(report)) return "amx-bf16";
  if (multiplies_bf16(report)) return "bf16-dot";
  if (has_avx2_alone(report)) return "avx2-fma";
  return sums_in_f16(report) ? "f16-fma" : "f32-fma";
}

const char* name_of_peak(const BenchReport& report) {
  if (on_tiles(report)) return "the AMX peak";
  if (multiplies_bf16(report)) return "the bf16 dot peak";
  if (has_avx2_alone(report)) return "the AVX2 FMA peak";
  return sums_in_f16(report) ? "the f16 FMA peak" : "the f32 FMA peak";
}

struct Rates {
  double prefill_flops, prefill_share, decode_bytes, decode_share;
};

Rates rates(const BenchReport& report) {
  const double prefill = tokens_per_second(report.prefill).median, decode = tokens_per_second(report.decode).median;
  Rates result{};
  result.prefill_flops = report.prefill.tokens > 0 ? report.work.prefill_flops / report.prefill.tokens * prefill : 0;
  result.prefill_share = result.prefill_flops / fma_peak(report);
  // One pass over the weights serves a token of every session; each reads its own keys and values.
  result.decode_bytes = (report.work.decode_weight_bytes / report.sessions + report.work.decode_kv_bytes) * decode;
  result.decode_share = result.decode_bytes / report.bandwidth.bytes_per_second;
  return result;
}

const char* embedding_note(const Work& work) {
  return work.tied ? "embedding and LM head counted once (tied)" : "layers and LM head, not the embedding (untied)";
}

std::string active_note(const BenchReport& report) {
  if (report.experts.n == 0) return "";
  return format(" (%s active: %u of %u experts)", human_count(report.n_active_params).c_str(), report.experts.active,
                report.experts.n);
}

void print_counted(const BenchReport& report) {
  const Work& work = report.work;
  if (report.decode.tokens > 0) {
    print_row("decode counts", format("%.1f MB of weights, %s", work.decode_weight_bytes / 1e6, embedding_note(work)));
    if (report.experts.n > 0)
      print_row("", format("of each mixture %.1f experts of %u, as many as a step read on average (%u steps counted)",
                           report.experts.touched, report.experts.n, report.experts.steps));
    print_row(
        "", format("+ %.2f MB of KV per token on average; time includes greedy sampling", work.decode_kv_bytes / 1e6));
  }
  if (report.prefill.tokens > 0) {
    print_row("prefill counts", format("%.4g GFLOP: 2 x %.4g M %slayer parameters x %u tokens + one row of the LM head",
                                       work.prefill_flops / 1e9, work.layer_params / 1e6,
                                       report.experts.n > 0 ? "active " : "", report.prefill.tokens));
    print_row("", "+ full causal attention");
  }
}

/// Nothing is faster than what the machine can do: then the measurement of that is wrong.
void print_wrong_ceilings(const BenchReport& report, const Rates& rate) {
  const char* const kTooLow =
      "was measured too low, perhaps beside other programs: its share says nothing, measure again";
  if (rate.prefill_share > 1) print_row("wrong ceiling", format("%s %s", name_of_peak(report), kTooLow));
  if (report.work.decode_weight_bytes < static_cast<double>(report.cpu.l3_bytes)) {
    print_row("note", "the weights fit into the L3 cache: decode is not bound by memory, its share may exceed 100 %");
  } else if (rate.decode_share > 1) {
    print_row("wrong ceiling", format("the read bandwidth %s", kTooLow));
  }
}

}  // namespace

Work count_work(const qi::Model& model, const Experts& experts, double kv_position_bytes, std::uint32_t prefill,
                std::uint32_t prompt, std::uint32_t decode) {
  const qinfer_model_info info = model.info();
  const qinfer_memory memory = model.memory();
  const double embedding = static_cast<double>(info.n_vocab) * info.n_embd;

  Work work;
  work.tied = (info.flags & QINFER_MODEL_TIED_EMBEDDINGS) != 0;
  work.decode_weight_bytes = static_cast<double>(memory.active_weight_bytes);
  if (experts.n > 0)  // those of one token give way to those of a step
    work.decode_weight_bytes +=
        static_cast<double>(memory.expert_weight_bytes) * (experts.touched - experts.active) / experts.n;
  work.layer_params = static_cast<double>(info.n_active_params) - (work.tied ? 1 : 2) * embedding;

  // Token i of a sequence attends to i + 1 positions; decoding begins after the prompt.
  const double n = prefill, attention_width = static_cast<double>(info.n_heads) * info.head_dim;
  work.prefill_flops =
      2 * work.layer_params * n + 2 * embedding + 4 * attention_width * info.n_layers * n * (n + 1) / 2;
  const double positions = prompt + (decode + 1.0) / 2;
  work.decode_kv_bytes = kv_position_bytes * positions;
  return work;
}

namespace {

std::string model_line(const BenchReport& report) {
  return format("%s, %s parameters%s", report.model_name.substr(0, 200).c_str(), human_count(report.n_params).c_str(),
                active_note(report).c_str());
}

void print_ceilings(const BenchReport& report) {
  print_row("read bandwidth",
            format("%10.2f GB/s (best: %s pages, prefetch %u lines ahead; buffer %s%s)",
                   report.bandwidth.bytes_per_second / 1e9, report.bandwidth.huge_pages ? "2 MiB" : "4 KiB",
                   report.bandwidth.prefetch_lines, human_bytes(report.bandwidth.buffer_bytes).c_str(),
                   report.bandwidth.buffer_reduced ? ", less than was asked for because memory is short" : ""));
  print_row("f32 FMA peak", format("%10.1f GFLOP/s (%s)", report.fma.flops / 1e9, report.fma.isa));
  if (report.fma.avx2_flops > 0 && report.fma.avx2_flops != report.fma.flops)
    print_row("AVX2 FMA peak", format("%10.1f GFLOP/s", report.fma.avx2_flops / 1e9));
  if (report.fma.f16_flops > 0) print_row("f16 FMA peak", format("%10.1f GFLOP/s", report.fma.f16_flops / 1e9));
  if (report.fma.dot_flops > 0) print_row("bf16 dot peak", format("%10.1f GFLOP/s", report.fma.dot_flops / 1e9));
  if (report.fma.tile_flops > 0) print_row("AMX bf16 peak", format("%10.1f GFLOP/s", report.fma.tile_flops / 1e9));
}

std::string prefill_name(const BenchReport& report) { return format("prefill %u", report.prefill.tokens); }

std::string decode_name(const BenchReport& report) {
  std::string what = format("decode %u", report.decode.tokens / report.sessions);
  if (report.sessions > 1) what += format(" x %u", report.sessions);
  if (report.depth > 8) what += format(" at %u", report.depth);
  return what;
}

/// What other programs took, and how fast memory was, around all samples.
void print_conditions(const BenchReport& report) {
  double lowest = 0, highest = 0, others = -1;
  for (const Samples* samples : {&report.prefill, &report.decode}) {
    for (const Conditions& c : samples->conditions) {
      const double least = std::min(c.bandwidth_before, c.bandwidth_after);
      lowest = lowest == 0 ? least : std::min(lowest, least);
      highest = std::max({highest, c.bandwidth_before, c.bandwidth_after});
      others = std::max(others, c.share_of_others);
    }
  }
  std::string text = format("memory gave %.1f..%.1f GB/s", lowest / 1e9, highest / 1e9);
  if (others >= 0) text += format(", other programs took up to %.0f %% of the CPUs", others * 100);
  print_row("around samples", text);
}

void print_speeds(const BenchReport& report, const Rates& rate) {
  if (report.prefill.tokens > 0) {
    print_row(prefill_name(report),
              speed(report.prefill, rate.prefill_flops, "GFLOP/s", rate.prefill_share, name_of_peak(report)));
  }
  if (report.decode.tokens > 0) {
    print_row(decode_name(report),
              speed(report.decode, rate.decode_bytes, "GB/s", rate.decode_share, "the read bandwidth"));
  }
  print_conditions(report);
}

}  // namespace

void print_table(const BenchReport& report) {
  print_row("model", model_line(report) + ", weights " + report.weight_format);
  print_row("machine",
            format("%s, kernel set %s%s, %zu threads on CPUs %s", report.cpu.model_name, report.kernel_set.c_str(),
                   report.exact ? " (exact)" : "", report.cpus.size(), join_numbers(report.cpus).c_str()));
  print_ceilings(report);
  const Rates rate = rates(report);
  print_speeds(report, rate);
  print_counted(report);
  print_wrong_ceilings(report, rate);
}

void print_comparison(const BenchReport& report) {
  print_row("model", model_line(report));
  print_row("machine", format("%s, %zu threads on CPUs %s%s", report.cpu.model_name, report.cpus.size(),
                              join_numbers(report.cpus).c_str(), report.exact ? " (exact)" : ""));
  print_ceilings(report);
}

void print_target(const BenchReport& report, bool chosen) {
  print_row(report.kernel_set, "weights " + report.weight_format + (chosen ? ", chosen for this model" : ""));
  const Rates rate = rates(report);
  print_speeds(report, rate);
  print_wrong_ceilings(report, rate);
}

namespace {

std::string json_samples(const Samples& samples) {
  const Spread spread = tokens_per_second(samples);
  std::string text = format("{\"tokens\": %u, \"tokens_per_second\": {\"median\": %.3f, \"min\": %.3f, \"max\": %.3f}",
                            samples.tokens, spread.median, spread.lowest, spread.highest);
  text += ", \"seconds\": [";
  for (std::size_t i = 0; i < samples.seconds.size(); ++i) {
    text += (i > 0 ? ", " : "") + format("%.9f", samples.seconds[i]);
  }
  return text + "]";
}

/// Each repetition as an entry of "samples" in bench/results; work: bytes or FLOPs of a token, which `bound` limits.
std::string json_entries(const Samples& samples, const std::string& what, double work, const char* bound) {
  std::string text;
  for (std::size_t i = 0; i < samples.seconds.size(); ++i) {
    const Conditions& c = samples.conditions[i];
    text += (i > 0 ? ", " : "") + std::string("{\"what\": ") + json_string(what) +
            format(
                ", \"engine\": \"qinfer\", \"round\": %zu, \"tokens_per_second\": %.3f, \"work\": %.0f, "
                "\"bound\": \"%s\", \"bandwidth_before_gb_s\": %.2f, \"bandwidth_after_gb_s\": %.2f",
                i + 1, samples.tokens / std::max(samples.seconds[i], 1e-9), work, bound, c.bandwidth_before / 1e9,
                c.bandwidth_after / 1e9) +
            ", \"share_others\": " + (c.share_of_others < 0 ? "null" : format("%.4f", c.share_of_others)) + "}";
  }
  return text;
}

/// The members that a file of bench/results has and that are not there already under another name.
std::string json_kept(const BenchReport& report) {
  const std::string model = std::filesystem::path(report.model_name).filename().string();
  std::string text =
      "\"format\": 1, \"title\": \"qinfer alone\", \"label\": " + json_string(model + ", " + report.kernel_set) + ", " +
      json_provenance(report.cpu.model_name, report.cpus.size()) + ", \"engines\": {\"qinfer\": " +
      json_string("kernel set " + report.kernel_set + ", weights " + report.weight_format) + "}" +
      format(", \"ceilings\": {\"read-bandwidth\": [%.3f], \"f32-fma\": [%.2f]",
             report.bandwidth.bytes_per_second / 1e9, report.fma.flops / 1e9);
  const std::pair<const char*, double> others[] = {{"avx2-fma", report.fma.avx2_flops},
                                                   {"f16-fma", report.fma.f16_flops},
                                                   {"bf16-dot", report.fma.dot_flops},
                                                   {"amx-bf16", report.fma.tile_flops}};
  for (const auto& [name, flops] : others)
    if (flops > 0) text += format(", \"%s\": [%.2f]", name, flops / 1e9);
  text += "}, \"samples\": [";
  if (report.prefill.tokens > 0)
    text += json_entries(report.prefill, prefill_name(report), report.work.prefill_flops / report.prefill.tokens,
                         key_of_peak(report));
  if (report.prefill.tokens > 0 && report.decode.tokens > 0) text += ", ";
  if (report.decode.tokens > 0)
    text +=
        json_entries(report.decode, decode_name(report),
                     report.work.decode_weight_bytes / report.sessions + report.work.decode_kv_bytes, "read-bandwidth");
  return text + "]";
}

std::string json_machine_at_best(const BenchReport& report) {
  return format(
             ", \"read_bandwidth\": {\"bytes_per_second\": %.0f, \"buffer_bytes\": %llu, \"huge_pages\": %s, "
             "\"prefetch_lines\": %u}",
             report.bandwidth.bytes_per_second, static_cast<unsigned long long>(report.bandwidth.buffer_bytes),
             report.bandwidth.huge_pages ? "true" : "false", report.bandwidth.prefetch_lines) +
         format(
             ", \"fma_peak\": {\"flops\": %.0f, \"isa\": \"%s\", \"avx2_flops\": %.0f, \"f16_flops\": %.0f, "
             "\"dot_flops\": %.0f, \"tile_flops\": %.0f}, \"sums\": \"%s\", \"peak\": \"%s\"",
             report.fma.flops, report.fma.isa, report.fma.avx2_flops, report.fma.f16_flops, report.fma.dot_flops,
             report.fma.tile_flops, sums_in_f16(report) ? "f16" : "f32", key_of_peak(report));
}

}  // namespace

void print_json(const BenchReport& report) {
  const Work& work = report.work;
  const Rates rate = rates(report);
  std::string text = "{" + json_kept(report) + ", \"model\": " + json_string(report.model_name) +
                     ", \"weight_format\": " + json_string(report.weight_format) +
                     ", \"n_params\": " + std::to_string(report.n_params) +
                     ", \"n_active_params\": " + std::to_string(report.n_active_params) +
                     ", \"kv\": " + json_string(report.kv.empty() ? "default" : report.kv) +
                     ", \"exact\": " + (report.exact ? "true" : "false") +
                     ", \"cpu\": " + json_string(report.cpu.model_name) +
                     ", \"kernel_set\": " + json_string(report.kernel_set) + ", \"cpu_ids\": [" +
                     join_numbers(report.cpus) + "]" + json_machine_at_best(report);
  if (report.prefill.tokens > 0) {
    text += ", \"prefill\": " + json_samples(report.prefill) +
            format(", \"counted_flops\": %.0f, \"flops\": %.0f, \"share_of_fma_peak\": %.4f}", work.prefill_flops,
                   rate.prefill_flops, rate.prefill_share);
  }
  if (report.decode.tokens > 0) {
    text += format(", \"depth\": %u, \"sessions\": %u", report.depth, report.sessions);
    text += ", \"decode\": " + json_samples(report.decode) +
            format(", \"counted_weight_bytes\": %.0f, \"counted_kv_bytes\": %.0f, \"tied\": %s",
                   work.decode_weight_bytes, work.decode_kv_bytes, work.tied ? "true" : "false") +
            format(", \"bytes_per_second\": %.0f, \"share_of_read_bandwidth\": %.4f}", rate.decode_bytes,
                   rate.decode_share);
  }
  if (report.experts.n > 0)
    text += format(", \"experts\": {\"n\": %u, \"active\": %u, \"layers\": %u, \"touched\": %.3f, \"steps\": %u}",
                   report.experts.n, report.experts.active, report.experts.layers, report.experts.touched,
                   report.experts.steps);
  print(text + "}\n");
}

}  // namespace cli
