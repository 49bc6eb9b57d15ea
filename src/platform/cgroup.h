// What the system grants this process: the folders of its cgroups (v1 and v2), and limits on memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace qinfer::platform {

/// The text of a small system file without the white space at its end; empty if there is none.
std::string read_small_file(const std::string& path);

/// The leading integer of a text, or -1.
long long leading_integer(std::string_view text);

/// The folders of this process's cgroups that govern a controller, from its own up to the root.
std::vector<std::string> cgroup_folders(std::string_view controller);

/// In bytes, 0 where the system does not tell. `limit`: the smallest of the machine's memory and the cgroups' limits;
/// `available`: what the machine can give without swapping, or a cgroup has left, page cache that can be dropped
/// counting as left.
struct SystemMemory {
  std::uint64_t limit = 0, available = 0;
};
SystemMemory system_memory();

}  // namespace qinfer::platform
