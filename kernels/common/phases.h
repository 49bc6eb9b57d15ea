// Operation::phases of operations whose number of phases does not depend on their arguments.
#pragma once

#include <cstdint>

namespace qinfer::kernels {
namespace {  // files with different instruction sets include this header

template <std::int32_t count, typename Args>
constexpr std::int32_t fixed_phases(const Args&) {
  return count;
}

}  // namespace
}  // namespace qinfer::kernels
