// How long random tests run, and where their seeds begin: the same few in every run of the tests, others and more in
// ./dev soak, which says so in the environment.
#pragma once

#include <cstddef>
#include <cstdlib>

namespace qinfer::test {

/// QINFER_SOAK_STEPS, or `usual`.
inline std::size_t soak_steps(std::size_t usual) {
  const char* steps = std::getenv("QINFER_SOAK_STEPS");
  return steps != nullptr ? std::strtoull(steps, nullptr, 10) : usual;
}

inline bool has_soak_seed() { return std::getenv("QINFER_SOAK_SEED") != nullptr; }

/// QINFER_SOAK_SEED, or 1.
inline unsigned first_seed() {
  const char* seed = std::getenv("QINFER_SOAK_SEED");
  return seed != nullptr ? static_cast<unsigned>(std::strtoul(seed, nullptr, 10)) : 1;
}

}  // namespace qinfer::test
