// plan.h: what `qinfer plan` and its maps share.
#pragma once

#include <qinfer/qinfer.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "options.h"

namespace cli {

struct PlanArgs {
  std::string model, kv;
  RuntimeArgs runtime;
  std::uint32_t context = 0, sessions = 1, block_tokens = 32, batch = 0;
  std::uint64_t fit = 0;
  std::vector<std::uint64_t> split;  ///< memory of each machine, or how many there are
  bool json = false, map = false, prefix = false, normal_pages = false;
};

/// "12,345 B  12.06 KiB", aligned.
std::string amount(std::uint64_t bytes);
void print_model_memory(const qinfer_memory& memory);
/// How many parameters a model has and which of them a token is computed with; its experts, if it has some.
void print_parameters(const qinfer_model_details& details);

/// What layers of the model take, sessions included, and of their weights what one token reads.
struct StageBytes {
  std::uint64_t taken = 0, read = 0;
};
/// Of layers [first, first + n).
using StageBytesOf = std::function<StageBytes(std::uint32_t first, std::uint32_t n)>;
/// Where to cut a model of so many layers into stages for the machines of args.split: where their memory is given so
/// that the fullest of them is as empty as can be, and otherwise so that all read alike, which is when all are equally
/// fast. Throws Failure where that is more than one of them has.
int print_split(const PlanArgs& args, std::uint32_t n_layers, const StageBytesOf& bytes_of);

/// `text`: what qinfer_model_plan_map gives. Prints every buffer as a table.
void print_map(const std::string& text);

}  // namespace cli
