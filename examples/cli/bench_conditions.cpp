// bench_conditions.cpp: see bench_conditions.h.
#include "bench_conditions.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <map>
#include <qinfer/qinfer.hpp>
#include <sstream>

#include "support.h"

namespace cli {
namespace {

/// Seconds that these CPUs have spent on programs so far, and that the hypervisor took from them; negative: unknown.
double busy_seconds(const std::vector<std::uint32_t>& cpus) {
  std::ifstream file("/proc/stat");
  double ticks = 0;
  std::size_t found = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    double user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0, softirq = 0, steal = 0;
    if (!(words >> name >> user >> nice >> system >> idle >> iowait >> irq >> softirq >> steal)) continue;
    const auto is_it = [&](std::uint32_t cpu) { return name == "cpu" + std::to_string(cpu); };
    if (std::none_of(cpus.begin(), cpus.end(), is_it)) continue;
    ticks += user + nice + system + steal;
    ++found;
  }
  return found == cpus.size() ? ticks / static_cast<double>(sysconf(_SC_CLK_TCK)) : -1;
}

/// CPU time of all threads of this process.
double own_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

std::string date_and_time() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  char text[32] = {};
  gmtime_r(&now, &parts);
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

/// "qinfer 0.2.0, COMMIT, compiler, ...".
std::string commit_of_build() {
  std::istringstream parts{std::string(qi::build_info())};
  std::string part;
  for (int i = 0; i < 2; ++i) std::getline(parts >> std::ws, part, ',');
  return part;
}

/// This program's, as it was called; of paths the last part, as others' folders mean nothing elsewhere.
std::string command_line() {
  std::ifstream file("/proc/self/cmdline");
  std::string text;
  for (std::string word; std::getline(file, word, '\0');) {
    while (word.size() > 1 && word.back() == '/') word.pop_back();
    const std::size_t slash = word.rfind('/');
    text += (text.empty() ? "" : " ") + (slash == word.npos || word.size() == 1 ? word : word.substr(slash + 1));
  }
  return text;
}

/// "Linux 6.1.0": what follows may name who built it.
std::string operating_system() {
  utsname names{};
  if (uname(&names) != 0) return "unknown";
  const std::string release = names.release;
  return std::string(names.sysname) + " " + release.substr(0, release.find_first_not_of("0123456789."));
}

/// The first processor's lines of /proc/cpuinfo.
std::map<std::string, std::string> first_processor() {
  std::ifstream file("/proc/cpuinfo");
  std::map<std::string, std::string> values;
  for (std::string line; std::getline(file, line) && !line.empty();) {
    const std::size_t colon = line.find(':');
    if (colon == line.npos) continue;
    const std::string name = line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1);
    values[name] = colon + 2 <= line.size() ? line.substr(colon + 2) : "";
  }
  return values;
}

std::string json_machine(const std::string& cpu_name, std::size_t cores) {
  std::map<std::string, std::string> values = first_processor();
  const auto number = [&](const char* name) {
    const std::string& text = values[name];
    return text.empty() || text.find_first_not_of("0123456789") != text.npos ? "null" : text;
  };
  const std::string vendor = values["vendor_id"];
  std::string text = "{\"cpu\": " + json_string(cpu_name) +
                     ", \"vendor\": " + (vendor.empty() ? "null" : json_string(vendor)) +
                     ", \"family\": " + number("cpu family") + ", \"model\": " + number("model") +
                     ", \"stepping\": " + number("stepping") + ", \"cores\": " + std::to_string(cores);
  std::istringstream features{qi::cpu_features()};
  std::string list;
  for (std::string word; features >> word;) list += (list.empty() ? "" : ", ") + json_string(word);
  return text + ", \"features\": [" + list + "]}";
}

}  // namespace

void ConditionsMeter::begin() {
  bandwidth_ = memory_.bytes_per_second();
  flops_ = peak_.flops_per_second();
  busy_ = busy_seconds(cpus_);
  own_ = own_seconds();
  begin_ = std::chrono::steady_clock::now();
}

Conditions ConditionsMeter::end() {
  constexpr double kShortest = 0.2;  // /proc/stat counts hundredths of a second
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin_;
  const double own = own_seconds() - own_, busy = busy_seconds(cpus_);
  Conditions conditions;
  if (elapsed.count() >= kShortest && busy_ >= 0 && busy >= 0)
    conditions.share_of_others =
        std::max(0.0, (busy - busy_ - own) / elapsed.count() / static_cast<double>(cpus_.size()));
  conditions.peak_before = flops_;
  conditions.peak_after = peak_.flops_per_second();
  conditions.bandwidth_before = bandwidth_;
  conditions.bandwidth_after = memory_.bytes_per_second();
  return conditions;
}

std::string json_provenance(const std::string& cpu_name, std::size_t threads) {
  return "\"date\": " + json_string(date_and_time()) + ", \"commit\": " + json_string(commit_of_build()) +
         ", \"build\": " + json_string(qi::build_info()) + ", \"os\": " + json_string(operating_system()) +
         ", \"command\": " + json_string(command_line()) + ", \"threads\": " + std::to_string(threads) +
         ", \"machine\": " + json_machine(cpu_name, threads);
}

}  // namespace cli
