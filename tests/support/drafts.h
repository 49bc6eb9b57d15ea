// Drafts of any length, whatever they cost: for tests that want many.
#pragma once

#include <qinfer/qinfer.hpp>

#include "schedule/drafts.h"
#include "support.h"

namespace qinfer::test {

/// The model believes that evaluations of all numbers of rows take equally long, until it has measured others.
inline void make_rows_free(const qi::Model& model) {
  const engine::Model& impl = *model.native()->impl;
  for (int n = 0; n < 40; ++n)
    for (std::uint32_t rows = 1; rows <= schedule::RowCosts::kMost; ++rows) impl.learn_row_costs(rows, 1, 1.0);
}

inline std::uint64_t sum(const std::uint64_t (&counts)[schedule::kMaxDraft]) {
  std::uint64_t all = 0;
  for (const std::uint64_t count : counts) all += count;
  return all;
}

}  // namespace qinfer::test
