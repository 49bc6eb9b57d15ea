// See cpu.h. Linux: affinity from the scheduler, quotas from cgroup v2 and v1, topology and caches from /sys.
#include "platform/cpu.h"

#include "platform/cgroup.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>
#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "platform/thread.h"

namespace qinfer::platform {
namespace {

std::vector<int> allowed_cpus() {
  std::vector<int> cpus;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(static_cast<std::size_t>(cpu), &set)) cpus.push_back(cpu);
  }
  if (cpus.empty()) cpus.push_back(0);
  return cpus;
}

/// Quota of one cgroup folder in CPUs, 0 = none. v2 writes "max 100000" or "150000 100000" into cpu.max.
double quota_of(const std::string& folder) {
  const std::string max = read_small_file(folder + "/cpu.max");
  if (!max.empty()) {
    const long long quota = leading_integer(max);
    const auto space = max.find(' ');
    const long long period = space == max.npos ? -1 : leading_integer(std::string_view(max).substr(space + 1));
    return quota > 0 && period > 0 ? static_cast<double>(quota) / static_cast<double>(period) : 0;
  }
  const long long quota = leading_integer(read_small_file(folder + "/cpu.cfs_quota_us"));
  const long long period = leading_integer(read_small_file(folder + "/cpu.cfs_period_us"));
  return quota > 0 && period > 0 ? static_cast<double>(quota) / static_cast<double>(period) : 0;
}

/// The smallest quota on the way from this process's cgroup to the root, 0 = none.
double cgroup_quota() {
  double smallest = 0;
  for (const std::string& folder : cgroup_folders("cpu")) {
    const double quota = quota_of(folder);
    if (quota > 0 && (smallest == 0 || quota < smallest)) smallest = quota;
  }
  return smallest;
}

std::uint32_t count_cores(const std::vector<int>& cpus) {
  std::set<std::pair<long long, long long>> cores;
  for (const int cpu : cpus) {
    const std::string folder = format_text("/sys/devices/system/cpu/cpu{}/topology/", cpu);
    const long long core = leading_integer(read_small_file(folder + "core_id"));
    // Where the system does not tell, each logical CPU counts as a core.
    cores.emplace(leading_integer(read_small_file(folder + "physical_package_id")), core < 0 ? 1'000'000 + cpu : core);
  }
  return static_cast<std::uint32_t>(cores.size());
}

std::uint64_t cache_bytes(int cpu, int level) {
  for (int index = 0; index < 8; ++index) {
    const std::string folder = format_text("/sys/devices/system/cpu/cpu{}/cache/index{}/", cpu, index);
    if (leading_integer(read_small_file(folder + "level")) != level) continue;
    if (read_small_file(folder + "type") == "Instruction") continue;
    const std::string size = read_small_file(folder + "size");
    const long long number = leading_integer(size);
    if (number <= 0) return 0;
    const std::uint64_t unit = size.back() == 'K' ? 1024 : size.back() == 'M' ? 1024 * 1024 : 1;
    return static_cast<std::uint64_t>(number) * unit;
  }
  return 0;
}

/// How many numbers a list as Linux writes it has: "0-3,8" has 5.
std::uint32_t count_listed(std::string_view list) {
  std::uint32_t count = 0;
  while (!list.empty()) {
    const std::string_view item = list.substr(0, list.find(','));
    const long long first = leading_integer(item);
    const auto dash = item.find('-');
    const long long last = dash == item.npos ? first : leading_integer(item.substr(dash + 1));
    if (first >= 0 && last >= first && last < 65536) count += static_cast<std::uint32_t>(last - first + 1);
    list.remove_prefix(std::min(item.size() + 1, list.size()));
  }
  return count;
}

std::uint32_t count_numa_nodes() {
  return std::max(count_listed(read_small_file("/sys/devices/system/node/online")), 1u);
}

/// Separated by spaces.
[[maybe_unused]] std::string names_of_present(std::span<const std::pair<const char*, bool>> table) {
  std::string text;
  for (const auto& [name, present] : table) {
    if (!present) continue;
    if (!text.empty()) text += ' ';
    text += name;
  }
  return text;
}

#if defined(__x86_64__)
std::string x86_model_name() {
  if (tile_system().cpuid(0x80000000, 0).a < 0x80000004) return "x86-64";
  char name[49] = {};
  for (unsigned i = 0; i < 3; ++i) {
    const CpuidResult r = tile_system().cpuid(0x80000002 + i, 0);
    const unsigned words[4] = {r.a, r.b, r.c, r.d};
    std::memcpy(name + 16 * i, words, 16);
  }
  const std::string_view text = name;
  const auto begin = text.find_first_not_of(' ');
  if (begin == text.npos) return "x86-64";
  return std::string(text.substr(begin, text.find_last_not_of(' ') - begin + 1));
}

std::string x86_features(const TileSystem& tiles) {
  const auto& cpuid = tile_system().cpuid;
  const CpuidResult one = cpuid(1, 0), seven = cpuid(7, 0), seven1 = tiles.cpuid(7, 1);
  const std::uint64_t state = tile_system().enabled_state();
  const bool avx = (state & 0x6) == 0x6, avx512 = (state & 0xe6) == 0xe6, amx = has_tiles(tiles);
  const auto bit = [](unsigned word, int index) { return (word >> index & 1) != 0; };
  const std::pair<const char*, bool> table[] = {
      {"sse4.2", bit(one.c, 20)},
      {"avx", avx && bit(one.c, 28)},
      {"f16c", avx && bit(one.c, 29)},
      {"fma", avx && bit(one.c, 12)},
      {"avx2", avx && bit(seven.b, 5)},
      {"bmi1", bit(seven.b, 3)},
      {"bmi2", bit(seven.b, 8)},
      {"avx_vnni", avx && bit(seven1.a, 4)},
      {"avx512f", avx512 && bit(seven.b, 16)},
      {"avx512bw", avx512 && bit(seven.b, 30)},
      {"avx512dq", avx512 && bit(seven.b, 17)},
      {"avx512vl", avx512 && bit(seven.b, 31)},
      {"avx512_vnni", avx512 && bit(seven.c, 11)},
      {"avx512_bf16", avx512 && bit(seven1.a, 5)},
      {"avx512_fp16", avx512 && bit(tiles.cpuid(7, 0).d, 23)},
      {"amx_tile", amx},
      {"amx_bf16", amx},
      {"amx_int8", amx && bit(seven.d, 25)},
  };
  return names_of_present(table);
}
#elif defined(__aarch64__)
/// By the names of /proc/cpuinfo.
std::string arm_features() {
  const unsigned long basic = getauxval(AT_HWCAP), later = getauxval(AT_HWCAP2);
  const std::pair<const char*, bool> table[] = {
      {"asimd", (basic & HWCAP_ASIMD) != 0},     {"asimdhp", (basic & HWCAP_ASIMDHP) != 0},
      {"asimddp", (basic & HWCAP_ASIMDDP) != 0}, {"sve", (basic & HWCAP_SVE) != 0},
      {"i8mm", (later & 1ul << 13) != 0},        {"bf16", (later & 1ul << 14) != 0},
  };
  return names_of_present(table);
}
#endif

}  // namespace

UsableCores usable_cores() {
  const ScopedFloatEnvironment environment;  // quotas are fractions
  const std::vector<int> cpus = allowed_cpus();
  UsableCores cores{count_cores(cpus), static_cast<std::uint32_t>(cpus.size())};
  const double quota = cgroup_quota();
  if (quota > 0) {
    // A quota of 1.5 CPUs runs one thread at full speed; a second one would be throttled half of the time.
    const auto limit = static_cast<std::uint32_t>(std::clamp(quota, 1.0, 65536.0));
    cores = {std::min(cores.physical, limit), std::min(cores.logical, limit)};
  }
  return cores;
}

CpuInfo detect_cpu() {
  const int cpu = allowed_cpus()[0];
  return {usable_cores(), count_numa_nodes(), cache_bytes(cpu, 1), cache_bytes(cpu, 2), cache_bytes(cpu, 3)};
}

std::string cpu_name() {
#if defined(__x86_64__)
  return x86_model_name();
#elif defined(__aarch64__)
  return "aarch64";
#else
  return "unknown";
#endif
}

std::string cpu_features([[maybe_unused]] const TileSystem& tiles) {
#if defined(__x86_64__)
  return x86_features(tiles);
#elif defined(__aarch64__)
  return arm_features();
#else
  return {};
#endif
}

}  // namespace qinfer::platform
