// bench_report.cpp: see bench_report.h.
#include "bench_report.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
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

struct PeakRow {
  Multiplier multiplier;
  double FmaPeak::*flops;
  const char *key, *name;  // as programs name it that read the JSON; for people
};
constexpr PeakRow kPeaks[] = {
    {Multiplier::widest_fma, &FmaPeak::flops, "f32-fma", "the f32 FMA peak"},
    {Multiplier::avx2_fma, &FmaPeak::avx2_flops, "avx2-fma", "the AVX2 FMA peak"},
    {Multiplier::int16_dot, &FmaPeak::int16_flops, "int16-dot", "the int16 dot peak"},
    {Multiplier::f16_fma, &FmaPeak::f16_flops, "f16-fma", "the f16 FMA peak"},
    {Multiplier::bf16_dot, &FmaPeak::dot_flops, "bf16-dot", "the bf16 dot peak"},
    {Multiplier::int16_tiles, &FmaPeak::int16_tile_flops, "amx-int16", "half of the AMX peak"},
    {Multiplier::bf16_tiles, &FmaPeak::tile_flops, "amx-bf16", "the AMX peak"}};

/// The peak that the projections of this kernel set could reach.
const PeakRow& peak_row(const BenchReport& report) {
  const Multiplier multiplier = multiplier_of(report.kernel_set, report.weight_format);
  const auto* row = std::find_if(std::begin(kPeaks), std::end(kPeaks),
                                 [&](const PeakRow& candidate) { return candidate.multiplier == multiplier; });
  return report.fma.*(row->flops) > 0 ? *row : kPeaks[0];
}
const char* key_of_peak(const BenchReport& report) { return peak_row(report).key; }
const char* name_of_peak(const BenchReport& report) { return peak_row(report).name; }

bool sums_in_f16(const BenchReport& report) { return peak_row(report).multiplier == Multiplier::f16_fma; }

/// The peaks around all samples, in ascending order.
std::vector<double> peaks_around(const BenchReport& report) {
  std::vector<double> peaks;
  for (const Samples* samples : {&report.prefill, &report.decode})
    for (const Conditions& c : samples->conditions) peaks.insert(peaks.end(), {c.peak_before, c.peak_after});
  std::sort(peaks.begin(), peaks.end());
  return peaks;
}

/// Whether multiplications were slow before or after a sample: below a share of the upper quartile of all. (The largest
/// may be a moment in which the clock was higher than it can stay.)
bool in_slow_phase(const BenchReport& report, const Conditions& conditions) {
  constexpr double kSlow = 0.8;
  const std::vector<double> peaks = peaks_around(report);
  return std::min(conditions.peak_before, conditions.peak_after) < kSlow * peaks[peaks.size() * 3 / 4];
}

/// The samples that no slow phase touched; all where each was.
Samples fast_samples(const BenchReport& report, const Samples& samples) {
  Samples fast{samples.tokens, {}, {}};
  for (std::size_t i = 0; i < samples.seconds.size(); ++i) {
    if (in_slow_phase(report, samples.conditions[i])) continue;
    fast.seconds.push_back(samples.seconds[i]);
    fast.conditions.push_back(samples.conditions[i]);
  }
  return fast.seconds.empty() ? samples : fast;
}

/// Of each sample the share of the larger peak around it; the median of them.
double share_of_peak(const BenchReport& report) {
  const Samples fast = fast_samples(report, report.prefill);
  std::vector<double> shares;
  for (std::size_t i = 0; i < fast.seconds.size(); ++i) {
    const double peak = std::max(fast.conditions[i].peak_before, fast.conditions[i].peak_after);
    if (peak > 0) shares.push_back(report.work.prefill_flops / std::max(fast.seconds[i], 1e-9) / peak);
  }
  if (shares.empty()) return 0;
  std::sort(shares.begin(), shares.end());
  return shares[shares.size() / 2];
}

struct Rates {
  double prefill_flops, prefill_share, decode_bytes, decode_share;
};

Rates rates(const BenchReport& report) {
  const double prefill = tokens_per_second(fast_samples(report, report.prefill)).median,
               decode = tokens_per_second(fast_samples(report, report.decode)).median;
  Rates result{};
  result.prefill_flops = report.prefill.tokens > 0 ? report.work.prefill_flops / report.prefill.tokens * prefill : 0;
  result.prefill_share = share_of_peak(report);
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

Multiplier multiplier_of(const std::string& kernel_set, const std::string& weight_format) {
  const bool quantised = weight_format != "f32" && weight_format != "bf16" && weight_format != "f16";
  if (kernel_set == "amx_int16" && quantised) return Multiplier::int16_tiles;
  if (kernels_need(kernel_set, "amx_bf16") && kernel_set != "amx_int16") return Multiplier::bf16_tiles;
  if (kernel_set == "avx512_bf16") return Multiplier::bf16_dot;
  const bool integers = kernel_set.ends_with("_int16") || kernels_need(kernel_set, "avx512_fp16");
  if (quantised && integers) return Multiplier::int16_dot;
  if (kernels_need(kernel_set, "avx2")) return Multiplier::avx2_fma;
  if (kernels_need(kernel_set, "avx512_fp16") && weight_format == "f16") return Multiplier::f16_fma;
  return Multiplier::widest_fma;
}

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
  if (report.fma.int16_flops > 0) print_row("int16 dot peak", format("%10.1f GFLOP/s", report.fma.int16_flops / 1e9));
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

/// How fast memory and multiplications were around all samples, and what other programs took.
void print_conditions(const BenchReport& report) {
  if (report.prefill.conditions.empty() && report.decode.conditions.empty()) return;
  double lowest = 0, highest = 0, others = -1;
  std::size_t all = 0, slow = 0;
  for (const Samples* samples : {&report.prefill, &report.decode}) {
    for (const Conditions& c : samples->conditions) {
      const double least = std::min(c.bandwidth_before, c.bandwidth_after);
      lowest = lowest == 0 ? least : std::min(lowest, least);
      highest = std::max({highest, c.bandwidth_before, c.bandwidth_after});
      others = std::max(others, c.share_of_others);
      slow += in_slow_phase(report, c) ? 1 : 0;
      ++all;
    }
  }
  std::string text = format("memory gave %.1f..%.1f GB/s", lowest / 1e9, highest / 1e9);
  if (others >= 0) text += format(", other programs took up to %.0f %% of the CPUs", others * 100);
  print_row("around samples", text);
  const std::vector<double> peaks = peaks_around(report);
  print_row("", format("%s was %.1f..%.1f GFLOP/s", name_of_peak(report), peaks.front() / 1e9, peaks.back() / 1e9));
  if (slow > 0)
    print_row("slow phases", format("multiplications were slower by a fifth or more around %zu of %zu samples%s", slow,
                                    all, slow < all ? ", which do not count" : ""));
}

void print_speeds(const BenchReport& report, const Rates& rate) {
  if (report.prefill.tokens > 0) {
    print_row(prefill_name(report), speed(fast_samples(report, report.prefill), rate.prefill_flops, "GFLOP/s",
                                          rate.prefill_share, name_of_peak(report)));
  }
  if (report.decode.tokens > 0) {
    print_row(decode_name(report), speed(fast_samples(report, report.decode), rate.decode_bytes, "GB/s",
                                         rate.decode_share, "the read bandwidth"));
  }
  print_conditions(report);
}

}  // namespace

void print_table(const BenchReport& report) {
  print_row("model", model_line(report) + ", weights " + report.weight_format);
  print_row("machine",
            format("%s, kernel set %s%s, %zu threads on CPUs %s", report.cpu_name.c_str(), report.kernel_set.c_str(),
                   report.exact ? " (exact)" : "", report.cpus.size(), join_numbers(report.cpus).c_str()));
  print_ceilings(report);
  const Rates rate = rates(report);
  print_speeds(report, rate);
  print_counted(report);
  print_wrong_ceilings(report, rate);
}

void print_comparison(const BenchReport& report) {
  print_row("model", model_line(report));
  print_row("machine", format("%s, %zu threads on CPUs %s%s", report.cpu_name.c_str(), report.cpus.size(),
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

/// The median and range of the samples that count; the seconds of all.
std::string json_samples(const BenchReport& report, const Samples& samples) {
  const Spread spread = tokens_per_second(fast_samples(report, samples));
  std::string text = format("{\"tokens\": %u, \"tokens_per_second\": {\"median\": %.3f, \"min\": %.3f, \"max\": %.3f}",
                            samples.tokens, spread.median, spread.lowest, spread.highest);
  text += ", \"seconds\": [";
  for (std::size_t i = 0; i < samples.seconds.size(); ++i) {
    text += (i > 0 ? ", " : "") + format("%.9f", samples.seconds[i]);
  }
  return text + "]";
}

/// Each repetition as an entry of "samples" in bench/results; work: bytes or FLOPs of a token, which `bound` limits.
std::string json_entries(const BenchReport& report, const Samples& samples, const std::string& what, double work,
                         const char* bound) {
  std::string text;
  for (std::size_t i = 0; i < samples.seconds.size(); ++i) {
    const Conditions& c = samples.conditions[i];
    text += (i > 0 ? ", " : "") + std::string("{\"what\": ") + json_string(what) +
            format(
                ", \"engine\": \"qinfer\", \"round\": %zu, \"tokens_per_second\": %.3f, \"work\": %.0f, "
                "\"bound\": \"%s\", \"bandwidth_before_gb_s\": %.2f, \"bandwidth_after_gb_s\": %.2f",
                i + 1, samples.tokens / std::max(samples.seconds[i], 1e-9), work, bound, c.bandwidth_before / 1e9,
                c.bandwidth_after / 1e9) +
            format(", \"peak_before_gflops\": %.1f, \"peak_after_gflops\": %.1f, \"slow_phase\": %s",
                   c.peak_before / 1e9, c.peak_after / 1e9, in_slow_phase(report, c) ? "true" : "false") +
            ", \"share_others\": " + (c.share_of_others < 0 ? "null" : format("%.4f", c.share_of_others)) + "}";
  }
  return text;
}

/// The members that a file of bench/results has and that are not there already under another name.
std::string json_kept(const BenchReport& report) {
  const std::string model = std::filesystem::path(report.model_name).filename().string();
  std::string text =
      "\"format\": 1, \"title\": \"qinfer alone\", \"label\": " + json_string(model + ", " + report.kernel_set) + ", " +
      json_provenance(report.cpu_name, report.cpus.size()) + ", \"engines\": {\"qinfer\": " +
      json_string("kernel set " + report.kernel_set + ", weights " + report.weight_format) + "}" +
      format(", \"ceilings\": {\"read-bandwidth\": [%.3f], \"f32-fma\": [%.2f]",
             report.bandwidth.bytes_per_second / 1e9, report.fma.flops / 1e9);
  const std::pair<const char*, double> others[] = {
      {"avx2-fma", report.fma.avx2_flops},        {"int16-dot", report.fma.int16_flops},
      {"f16-fma", report.fma.f16_flops},          {"bf16-dot", report.fma.dot_flops},
      {"amx-int16", report.fma.int16_tile_flops}, {"amx-bf16", report.fma.tile_flops}};
  for (const auto& [name, flops] : others)
    if (flops > 0) text += format(", \"%s\": [%.2f]", name, flops / 1e9);
  text += "}, \"samples\": [";
  if (report.prefill.tokens > 0)
    text += json_entries(report, report.prefill, prefill_name(report),
                         report.work.prefill_flops / report.prefill.tokens, key_of_peak(report));
  if (report.prefill.tokens > 0 && report.decode.tokens > 0) text += ", ";
  if (report.decode.tokens > 0)
    text +=
        json_entries(report, report.decode, decode_name(report),
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
             ", \"fma_peak\": {\"flops\": %.0f, \"isa\": \"%s\", \"avx2_flops\": %.0f, \"int16_flops\": %.0f, "
             "\"f16_flops\": %.0f, "
             "\"dot_flops\": %.0f, \"tile_flops\": %.0f}, \"sums\": \"%s\", \"peak\": \"%s\"",
             report.fma.flops, report.fma.isa, report.fma.avx2_flops, report.fma.int16_flops, report.fma.f16_flops,
             report.fma.dot_flops, report.fma.tile_flops, sums_in_f16(report) ? "f16" : "f32", key_of_peak(report));
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
                     ", \"cpu\": " + json_string(report.cpu_name) +
                     ", \"kernel_set\": " + json_string(report.kernel_set) + ", \"cpu_ids\": [" +
                     join_numbers(report.cpus) + "]" + json_machine_at_best(report);
  if (report.prefill.tokens > 0) {
    text += ", \"prefill\": " + json_samples(report, report.prefill) +
            format(", \"counted_flops\": %.0f, \"flops\": %.0f, \"share_of_fma_peak\": %.4f}", work.prefill_flops,
                   rate.prefill_flops, rate.prefill_share);
  }
  if (report.decode.tokens > 0) {
    text += format(", \"depth\": %u, \"sessions\": %u", report.depth, report.sessions);
    text += ", \"decode\": " + json_samples(report, report.decode) +
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
