// See cgroup.h.
#include "platform/cgroup.h"

#include <algorithm>
#include <charconv>

#include "platform/file.h"

namespace qinfer::platform {

std::string read_small_file(const std::string& path) {
  std::string text = read_system_file(path);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

long long leading_integer(std::string_view text) {
  long long value = -1;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::vector<std::string> cgroup_folders(std::string_view controller) {
  std::vector<std::string> folders;
  const std::string groups = read_small_file("/proc/self/cgroup");
  for (std::size_t begin = 0; begin < groups.size();) {
    const std::size_t end = std::min(groups.find('\n', begin), groups.size());
    const std::string line = groups.substr(begin, end - begin);
    begin = end + 1;
    const auto first = line.find(':');
    const auto second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && controllers.find(controller) == controllers.npos) continue;
    std::string root = "/sys/fs/cgroup";
    if (!controllers.empty()) root.append("/").append(controllers);
    for (std::string path = line.substr(second + 1);; path.resize(path.rfind('/'))) {
      folders.push_back(root + path);
      if (path.empty() || path.rfind('/') == path.npos) break;
    }
  }
  return folders;
}

namespace {

/// The number after a name in a file of lines "name number", in whatever unit; 0 if it is not there.
std::uint64_t field_of(std::string_view text, std::string_view name) {
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (!line.starts_with(name) || line.size() == name.size()) continue;
    const std::size_t digits = line.find_first_of("0123456789", name.size());
    if (digits == line.npos || line.find_first_not_of(" :\t", name.size()) != digits) continue;
    return static_cast<std::uint64_t>(std::max(leading_integer(line.substr(digits)), 0LL));
  }
  return 0;
}

/// The first of two files that holds a number; -1 if neither does ("max" is none).
long long number_in(const std::string& folder, const char* v2, const char* v1) {
  const long long number = leading_integer(read_small_file(folder + v2));
  return number >= 0 ? number : leading_integer(read_small_file(folder + v1));
}

}  // namespace

SystemMemory system_memory() {
  const std::string info = read_small_file("/proc/meminfo");
  SystemMemory memory{field_of(info, "MemTotal") * 1024, field_of(info, "MemAvailable") * 1024};
  for (const std::string& folder : cgroup_folders("memory")) {
    const long long limit = number_in(folder, "/memory.max", "/memory.limit_in_bytes");
    const long long used = number_in(folder, "/memory.current", "/memory.usage_in_bytes");
    if (limit < 0) continue;
    // Version 1 writes the largest number of pages for "no limit".
    const auto most = static_cast<std::uint64_t>(limit);
    memory.limit = memory.limit == 0 ? most : std::min(memory.limit, most);
    if (used < 0) continue;
    const std::uint64_t cache = field_of(read_small_file(folder + "/memory.stat"), "inactive_file");
    const std::uint64_t taken = static_cast<std::uint64_t>(used) - std::min(cache, static_cast<std::uint64_t>(used));
    const std::uint64_t left = most - std::min(taken, most);
    memory.available = memory.available == 0 ? left : std::min(memory.available, left);
  }
  return memory;
}

}  // namespace qinfer::platform
