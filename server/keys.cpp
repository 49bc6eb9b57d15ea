// keys.cpp: see keys.h.
#include "keys.h"

#include <fstream>
#include <stdexcept>

namespace server {
namespace {

/// Without leaving early.
bool are_equal(std::string_view key, std::string_view given) {
  unsigned char different = key.size() == given.size() ? 0 : 1;
  for (std::size_t i = 0; i < given.size(); ++i)
    different = static_cast<unsigned char>(different | (given[i] ^ key[i % key.size()]));
  return different == 0;
}

}  // namespace

Keys::Keys(std::string path) : path_(std::move(path)) {
  if (const std::string failed = reload(); !failed.empty()) throw std::runtime_error(failed);
}

std::string Keys::reload() {
  if (path_.empty()) return "";
  std::ifstream file(path_);
  std::vector<std::string> keys;
  for (std::string line; std::getline(file, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty() && line[0] != '#') keys.push_back(line);
  }
  if (!file.eof()) return path_ + ": cannot be read";
  if (keys.empty()) return path_ + ": has no key";
  keys_ = std::move(keys);
  return "";
}

bool Keys::allow(std::string_view authorization) const {
  if (path_.empty()) return true;
  constexpr std::string_view kScheme = "Bearer ";
  if (!authorization.starts_with(kScheme)) return false;
  bool any = false;
  for (const std::string& key : keys_) any = are_equal(key, authorization.substr(kScheme.size())) || any;
  return any;
}

std::uint32_t Keys::number_of(std::string_view authorization) {
  if (path_.empty()) return 0;
  const auto known = numbers_.find(authorization);
  if (known != numbers_.end()) return known->second;
  return numbers_.emplace(authorization, static_cast<std::uint32_t>(numbers_.size() + 1)).first->second;
}

}  // namespace server
