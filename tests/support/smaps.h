// What the system says of the mappings of a file in this process.
#pragma once

#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace qinfer::test {

/// The values of a field ("Rss", "VmFlags") of /proc/self/smaps, one for each mapping whose path is `path`.
inline std::vector<std::string> smaps_of(std::string_view path, std::string_view field) {
  std::ifstream maps("/proc/self/smaps");
  std::vector<std::string> values;
  bool in_file = false;
  for (std::string line; std::getline(maps, line);) {
    // "7f00-7f80 rw-p ... path" begins a mapping, "Rss:   4 kB" is one of the lines about it.
    const std::size_t colon = line.find(':');
    if (line.find('-') < colon && line.find(" kB") == line.npos) in_file = line.ends_with(path);
    if (in_file && line.starts_with(field) && colon == field.size()) values.push_back(line.substr(colon + 1));
  }
  return values;
}

}  // namespace qinfer::test
