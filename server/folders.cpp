// folders.cpp: see folders.h.
#include "folders.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

namespace server {
namespace {

namespace fs = std::filesystem;

/// As it is inside of a JSON string.
std::string in_json(const std::string& text) {
  const std::string quoted = nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return quoted.substr(1, quoted.size() - 2);
}

}  // namespace

void Folders::add(const std::string& path) {
  if (path.empty()) return;
  std::error_code ignored;
  for (const fs::path& known : {fs::path(path), fs::absolute(path, ignored), fs::weakly_canonical(path, ignored)}) {
    std::string text = known.string();
    while (text.size() > 1 && text.back() == '/') text.pop_back();
    const std::string name = fs::path(text).filename().string();
    if (name.empty() || name == text) continue;
    paths_.emplace_back(text, name);
    paths_.emplace_back(in_json(text), in_json(name));
  }
  std::stable_sort(paths_.begin(), paths_.end(),
                   [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
}

std::string Folders::hidden(std::string text) const {
  for (const auto& [path, name] : paths_)
    for (std::size_t at = text.find(path); at != std::string::npos; at = text.find(path, at + name.size()))
      text.replace(at, path.size(), name);
  return text;
}

}  // namespace server
