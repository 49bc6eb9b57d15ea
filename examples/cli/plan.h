// plan.h: what `qinfer plan` and its maps share.
#pragma once

#include <qinfer/qinfer.h>

#include <cstdint>
#include <string>

#include "options.h"

namespace cli {

struct PlanArgs {
  std::string model, kv, map;
  RuntimeArgs runtime;
  std::uint32_t context = 0, sessions = 1, block_tokens = 32, batch = 0;
  std::uint64_t fit = 0;
  bool json = false, map_given = false, prefix = false, normal_pages = false;
};

/// "12,345 B  12.06 KiB", aligned.
std::string amount(std::uint64_t bytes);
void print_model_memory(const qinfer_memory& memory);

/// `text`: what qinfer_model_plan_map gives. Prints every buffer as a table.
void print_map(const std::string& text);
/// The tables of the two designs that the project started from, for comparison: 16-bit buffers of one token and of
/// `positions` of them; and f32 buffers for `positions` tokens.
void print_named16(const std::string& text, std::uint32_t positions);
void print_named32(const std::string& text, std::uint32_t positions);

}  // namespace cli
