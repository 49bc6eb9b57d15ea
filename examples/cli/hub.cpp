// hub.cpp: see hub.h. The cache is laid out as the hub's own Python library describes it: below the folder that
// HF_HUB_CACHE or HF_HOME names, or ~/.cache/huggingface/hub, a folder models--org--name holds refs/main, with the name
// of a commit, and the files of each commit in snapshots/COMMIT.
#include "hub.h"

#include <fnmatch.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

namespace cli {
namespace {

namespace fs = std::filesystem;

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

/// GGUF files of a folder and those inside it; of a split one its first part.
std::vector<fs::path> gguf_files(const fs::path& folder, const std::string& selection) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(folder, error)) {
    const std::string name = entry.path().lexically_relative(folder).string();
    if (lower_case(name).ends_with(".gguf") && is_selected(name, selection) && first_part(name) == name)
      files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string file_in(const fs::path& snapshot, const std::string& text, const HubId& id) {
  std::error_code error;
  if (id.selection.empty() && fs::exists(snapshot / "config.json", error)) return snapshot.string();
  const std::vector<fs::path> files = gguf_files(snapshot, id.selection);
  if (files.size() == 1) return files.front().string();
  if (files.empty())
    throw NotInCache(text + ": " + snapshot.string() + " has neither config.json nor a GGUF file" +
                     (id.selection.empty() ? "" : " whose name has " + json_string(id.selection)) +
                     ". To download it: qinfer pull " + text);
  std::string names;
  for (const fs::path& file : files) names += (names.empty() ? "" : ", ") + file.filename().string();
  throw Failure(text + " has several GGUF files: name one of them as " + id.repository() + ":PART_OF_ITS_NAME (" +
                names + ")");
}

}  // namespace

bool parse_hub_id(const std::string& text, HubId& id) {
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos) return false;
  const std::size_t colon = std::min(text.find(':'), text.size());
  if (colon < slash || text.find('/', slash + 1) < colon) return false;
  id = {text.substr(0, slash), text.substr(slash + 1, colon - slash - 1),
        colon < text.size() ? text.substr(colon + 1) : ""};
  const auto allowed = [](const std::string& part) {
    return !part.empty() && part.front() != '.' && std::all_of(part.begin(), part.end(), [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
    });
  };
  return allowed(id.organisation) && allowed(id.name);
}

bool is_selected(const std::string& file, const std::string& selection) {
  const std::string name = lower_case(file), wanted = lower_case(selection);
  if (wanted.find('*') != std::string::npos) return fnmatch(wanted.c_str(), name.c_str(), 0) == 0;
  return name.find(wanted) != std::string::npos;
}

std::string first_part(const std::string& file) {
  constexpr std::size_t kDigits = 5;
  const std::size_t of = file.rfind("-of-");
  if (of == std::string::npos || of < kDigits + 1 || file[of - kDigits - 1] != '-') return file;
  return file.substr(0, of - kDigits) + "00001" + file.substr(of);
}

fs::path hub_cache() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"})
    if (const std::string folder = environment(name); !folder.empty()) return folder;
  return hub_home() / "hub";
}

fs::path hub_home() {
  if (const std::string home = environment("HF_HOME"); !home.empty()) return home;
  const std::string cache = environment("XDG_CACHE_HOME");
  return (cache.empty() ? fs::path(environment("HOME")) / ".cache" : fs::path(cache)) / "huggingface";
}

fs::path hub_folder(const HubId& id) { return hub_cache() / ("models--" + id.organisation + "--" + id.name); }

fs::path hub_snapshot(const fs::path& repository) {
  std::error_code error;
  std::string commit;
  std::ifstream(repository / "refs" / "main") >> commit;
  if (!commit.empty() && fs::is_directory(repository / "snapshots" / commit, error))
    return repository / "snapshots" / commit;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(repository / "snapshots", error)) found.push_back(entry.path());
  return found.size() == 1 ? found.front() : fs::path();
}

std::string find_model(const std::string& name) {
  std::error_code error;
  HubId id;
  if (fs::exists(name, error) || !parse_hub_id(name, id)) return name;
  const fs::path snapshot = hub_snapshot(hub_folder(id));
  if (!snapshot.empty()) return file_in(snapshot, name, id);
  throw NotInCache(name + " is no file or directory, and not in the Hugging Face cache (" + hub_cache().string() +
                   "). To download it: qinfer pull " + name);
}

}  // namespace cli
