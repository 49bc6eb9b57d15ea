// What qinfer_ops and onednn_bench measure in common: names, shapes, the work that is counted, the method, and the
// lines of JSON that bench/compare reads. Neither sees the other's library.
//
// A name is ITEM/SHAPE/ROWS/WHO, for instance ffn/6144x16384/16/onednn-plain:
//   ffn      down(silu(gate(x)) * up(x)), hidden x width of one expert of Mixtral-8x22B
//   moe_ffn  such networks of several experts in one step, experts x hidden x width; ROWS for each expert
//   matmul   x times one matrix, inputs x outputs
//   linear E the same with weights that are held in the encoding E, of qinfer alone (--encodings)
//   sdpa     scaled dot-product attention, batch x keys x head size; `causal`: a query sees the keys before it
// Bytes are those of the weights (sdpa: of q, k, v and the result), each counted once per call. Weights come from
// memory: calls walk through copies of half a gigabyte together.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace qinfer::bench {

struct MatmulShape {
  std::int64_t inputs, outputs;
  std::vector<std::int64_t> rows;
};

inline constexpr std::int64_t kExpertHidden = 6144, kExpertWidth = 16384;
inline const std::vector<std::int64_t> kExpertRows = {1, 4, 16, 64};
inline constexpr std::int64_t kMoeExperts[] = {1, 8};
inline const std::vector<MatmulShape> kMatmuls = {{kExpertHidden, kExpertWidth, kExpertRows},
                                                  {1024, 3072, {64, 128, 512}},
                                                  {3072, 1024, {512}},
                                                  {4096, 14336, {512}}};
inline const MatmulShape kEncodedMatmul = {1024, 3072, {1, 64}};
inline constexpr std::int64_t kSdpaBatch = 32, kSdpaKeys = 512;
inline constexpr std::int64_t kSdpaHeadSizes[] = {64, 128};

struct ItemWork {
  double bytes = 0, flops = 0;
};

/// `matrices` of 16-bit weights, each times `rows` rows.
inline ItemWork product_work(std::int64_t matrices, std::int64_t inputs, std::int64_t outputs, std::int64_t rows) {
  const double weights = static_cast<double>(matrices * inputs * outputs);
  return {2 * weights, 2 * weights * static_cast<double>(rows)};
}

/// `keys_seen`: by all queries of a sequence together.
inline ItemWork sdpa_work(std::int64_t head_size, std::int64_t keys_seen) {
  const double elements = static_cast<double>(kSdpaBatch * kSdpaKeys * head_size);
  return {4 * 2 * elements, 4 * static_cast<double>(kSdpaBatch * head_size * keys_seen)};
}
inline constexpr std::int64_t kAllKeys = kSdpaKeys * kSdpaKeys, kCausalKeys = kSdpaKeys * (kSdpaKeys + 1) / 2;

inline std::string item_name(const char* item, std::int64_t inputs, std::int64_t outputs, std::int64_t rows) {
  return std::string(item)
      .append("/")
      .append(std::to_string(inputs))
      .append("x")
      .append(std::to_string(outputs))
      .append("/")
      .append(std::to_string(rows))
      .append("/");
}

inline std::string moe_name(std::int64_t experts, std::int64_t rows) {
  const std::string shape = std::to_string(experts) + "x" + std::to_string(kExpertHidden) + "x";
  return "moe_ffn/" + shape + std::to_string(kExpertWidth) + "/" + std::to_string(rows) + "/";
}

/// Of the experts' networks; router, gathering and weighted sums are not counted.
inline ItemWork moe_work(std::int64_t experts, std::int64_t rows) {
  return product_work(3 * experts, kExpertHidden, kExpertWidth, rows);
}

inline std::string sdpa_name(std::int64_t head_size, bool causal) {
  return std::string(causal ? "sdpa-causal/" : "sdpa/")
      .append(std::to_string(kSdpaBatch))
      .append("x")
      .append(std::to_string(kSdpaKeys))
      .append("x")
      .append(std::to_string(head_size))
      .append("/")
      .append(std::to_string(kSdpaKeys))
      .append("/");
}

struct ItemOptions {
  int runs = 5;
  std::string filter;  ///< only names that contain it
  std::uint32_t threads = 2;
  std::string cpus;
  bool ceilings_only = false, bandwidth_only = false, encodings_only = false;
};

inline ItemOptions parse_item_options(int argc, char** argv) {
  ItemOptions options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--ceilings" || name == "--bandwidth" || name == "--encodings") {
      options.ceilings_only |= name == "--ceilings";
      options.bandwidth_only |= name == "--bandwidth";
      options.encodings_only |= name == "--encodings";
      continue;
    }
    if (i + 1 == argc)
      throw std::runtime_error(
          "options: --runs N --filter TEXT --threads N --cpus 0,1 --ceilings --bandwidth --encodings");
    const char* value = argv[++i];
    if (name == "--runs") options.runs = std::max(1, std::atoi(value));
    if (name == "--filter") options.filter = value;
    if (name == "--threads") options.threads = static_cast<std::uint32_t>(std::max(1, std::atoi(value)));
    if (name == "--cpus") options.cpus = value;
  }
  return options;
}

class Items {
 public:
  explicit Items(const ItemOptions& options) : options_(options) {}

  bool wanted(const std::string& name) const { return name.find(options_.filter) != std::string::npos; }

  /// `timed(first, count)` makes calls first .. first + count - 1 and returns the seconds. After a warm-up, the median
  /// of a few runs of 30 milliseconds or more.
  /// `peak`: the ceiling of the products, where the name of who computes does not say it.
  template <typename Timed>
  void measure(const std::string& name, const ItemWork& work, Timed timed, const char* peak = nullptr) {
    constexpr double kRunSeconds = 0.03;
    timed(0, 1);
    const double once = timed(1, 1);
    const auto count = static_cast<std::int64_t>(std::clamp(kRunSeconds / std::max(once, 1e-9), 1.0, 1e5));
    std::vector<double> seconds;
    for (std::int64_t run = 0; run < options_.runs; ++run)
      seconds.push_back(timed(2 + run * count, count) / static_cast<double>(count));
    std::sort(seconds.begin(), seconds.end());
    const std::size_t middle = seconds.size() / 2;
    const double median = seconds.size() % 2 == 1 ? seconds[middle] : (seconds[middle - 1] + seconds[middle]) / 2;
    const std::string bound = peak == nullptr ? "" : std::string(", \"peak\": \"") + peak + "\"";
    std::printf("{\"name\": \"%s\", \"seconds\": %.9f, \"gb_per_s\": %.3f, \"gflops\": %.2f%s}\n", name.c_str(), median,
                work.bytes / median / 1e9, work.flops / median / 1e9, bound.c_str());
    std::fflush(stdout);
  }

 private:
  ItemOptions options_;
};

}  // namespace qinfer::bench
