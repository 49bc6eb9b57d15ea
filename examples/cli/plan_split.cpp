// plan_split.cpp: `qinfer plan --split`: where to cut a model into stages, one for each machine.
//
// What a stage takes, or reads, grows with its layers, so for a share r of what each machine has the stages are found
// one after another: each gets as many layers as fit. The least r for which all layers find a place is found by
// bisection.
#include <algorithm>
#include <map>
#include <optional>

#include "plan.h"
#include "support.h"

namespace cli {
namespace {

struct Stage {
  std::uint32_t first = 0, n = 0;
  StageBytes bytes;
};

class Splitter {
 public:
  /// `by_memory`: machines are their memory; otherwise each has the same part of what a token reads.
  Splitter(std::vector<std::uint64_t> machines, bool by_memory, std::uint32_t n_layers, const StageBytesOf& bytes_of)
      : machines_(std::move(machines)), by_memory_(by_memory), n_layers_(n_layers), bytes_of_(bytes_of) {}

  std::vector<Stage> best() {
    constexpr int kSteps = 14;
    double enough = 1, too_little = 0;  // shares
    while (!stages_for(enough)) too_little = enough, enough *= 2;
    for (int i = 0; i < kSteps; ++i) {
      const double tried = (enough + too_little) / 2;
      (stages_for(tried) ? enough : too_little) = tried;
    }
    return *stages_for(enough);
  }

 private:
  /// Plans are made of headers, which takes some time.
  const StageBytes& bytes_of(std::uint32_t first, std::uint32_t n) {
    const auto [at, is_new] = known_.try_emplace({first, n});
    if (is_new) at->second = bytes_of_(first, n);
    return at->second;
  }

  /// The most layers from `first` on that take no more than `most`, and leave one for each stage after this one.
  std::uint32_t layers_within(std::uint32_t first, std::uint32_t left, double most) {
    std::uint32_t enough = 0, too_many = n_layers_ - first - left + 1;
    while (too_many - enough > 1) {
      const std::uint32_t tried = enough + (too_many - enough) / 2;
      const StageBytes& bytes = bytes_of(first, tried);
      (static_cast<double>(by_memory_ ? bytes.taken : bytes.read) <= most ? enough : too_many) = tried;
    }
    return enough;
  }

  std::optional<std::vector<Stage>> stages_for(double share) {
    std::vector<Stage> stages;
    std::uint32_t first = 0;
    for (std::size_t i = 0; i < machines_.size(); ++i) {
      const auto left = static_cast<std::uint32_t>(machines_.size() - i - 1);
      const std::uint32_t n = layers_within(first, left, share * static_cast<double>(machines_[i]));
      if (n == 0) return std::nullopt;
      stages.push_back({first, n, bytes_of(first, n)});
      first += n;
    }
    return first == n_layers_ ? std::optional(stages) : std::nullopt;
  }

  const std::vector<std::uint64_t> machines_;
  const bool by_memory_;
  const std::uint32_t n_layers_;
  const StageBytesOf& bytes_of_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, StageBytes> known_;
};

/// One number that no machine has so few bytes of is how many there are, all alike.
std::vector<std::uint64_t> machines_of(const std::vector<std::uint64_t>& split, std::uint64_t whole) {
  constexpr std::uint64_t kMost = 1024;
  if (split.size() != 1 || split.front() > kMost) return split;
  return std::vector<std::uint64_t>(split.front(), whole);
}

}  // namespace

int print_split(const PlanArgs& args, std::uint32_t n_layers, const StageBytesOf& bytes_of) {
  const bool sizes_given = args.split.size() > 1;
  const std::vector<std::uint64_t> machines = machines_of(args.split, bytes_of(0, n_layers).read);
  if (machines.size() < 2) throw UsageError("--split: expected how many machines, or the memory of two or more");
  if (machines.size() > n_layers)
    throw UsageError(format("--split: %zu stages of a model with %u layers", machines.size(), n_layers));
  const std::vector<Stage> stages = Splitter(machines, sizes_given, n_layers, bytes_of).best();
  std::string json;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const Stage& stage = stages[i];
    if (sizes_given && stage.bytes.taken > machines[i])
      throw Failure(format("no cut fits: at best layers %u to %u are stage %zu, and take %s B of %s B", stage.first,
                           stage.first + stage.n - 1, i + 1, with_commas(stage.bytes.taken).c_str(),
                           with_commas(machines[i]).c_str()));
    json += format("%s{\"first_layer\": %u, \"n_layers\": %u, \"bytes\": %llu, \"read_bytes\": %llu}",
                   i == 0 ? "" : ", ", stage.first, stage.n, static_cast<unsigned long long>(stage.bytes.taken),
                   static_cast<unsigned long long>(stage.bytes.read));
  }
  for (std::size_t i = 0; i < stages.size() && !args.json; ++i) {
    const std::string of = sizes_given ? " of " + human_bytes(machines[i]) : "";
    print_row(
        format("stage %zu", i + 1),
        format("layers %u to %u, %s%s; a token reads %s", stages[i].first, stages[i].first + stages[i].n - 1,
               human_bytes(stages[i].bytes.taken).c_str(), of.c_str(), human_bytes(stages[i].bytes.read).c_str()));
  }
  if (args.json) print("{\"model\": " + json_string(args.model) + ", \"stages\": [" + json + "]}\n");
  return 0;
}

}  // namespace cli
