// What several operations are made of: files, the state of a session as text, and a file that a call writes.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "operations.h"

namespace qinfer::faults {

std::string read_file(const std::string& path);
/// In place of what is there, which is removed: a mapped file stays as it is.
void write_file(const std::string& path, const std::string& bytes);

std::vector<qinfer_token> some_tokens(std::size_t n, std::size_t step = 37);
void append(qinfer_session* session, const std::vector<qinfer_token>& tokens);
void eval(qinfer_session* session);
/// Tokens and, as bytes, the logits of the last one.
std::string state_of(qinfer_session* session);

/// A call that writes a file of its own folder: before it the file is not there, or holds `old` and only the owner may
/// read it.
class Writing {
 public:
  Writing(const std::string& folder, const char* name);
  const std::string& path() const { return path_; }
  std::string old, wanted;
  bool in_place = false;  ///< the old file itself is written to, and others judge what it holds

  void before() const;
  /// `temporaries`: they could be removed.
  std::string leftovers(qinfer_status status, bool temporaries) const;

 private:
  std::string folder_, path_;
};

template <typename T, typename... Arguments>
Operation make(std::string name, long weight, Arguments... arguments) {
  return {std::move(name), [=] { return std::make_unique<T>(arguments...); }, weight};
}

}  // namespace qinfer::faults
