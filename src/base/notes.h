// Notes: what the readers of files passed over or put right, in words for people. They are no errors, so that a model
// loads that everything else loads; the log and a model's metadata have them.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "base/format.h"

namespace qinfer {

class Notes {
 public:
  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    if (lines_.size() < kMost) lines_.push_back(format_text(format, std::forward<Args>(args)...));
    ++count_;
  }
  /// The first ones, and how many more there were.
  std::vector<std::string> take() {
    if (count_ > kMost) lines_.push_back(format_text("and {} more of such oddities", count_ - kMost));
    count_ = 0;
    return std::exchange(lines_, {});
  }

 private:
  static constexpr std::size_t kMost = 20;  ///< a file may have a million of them
  std::vector<std::string> lines_;
  std::size_t count_ = 0;
};

}  // namespace qinfer
