// hub.cpp: see hub.h. The cache is laid out as the hub's own Python library describes it: below the folder that
// HF_HUB_CACHE or HF_HOME names, or ~/.cache/huggingface/hub, a folder models--org--name holds refs/main, with the name
// of a commit, and the files of each commit in snapshots/COMMIT.
#include "hub.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include "support.h"

namespace cli {
namespace {

namespace fs = std::filesystem;

fs::path cache_folder() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"})
    if (const std::string folder = environment(name); !folder.empty()) return folder;
  if (const std::string home = environment("HF_HOME"); !home.empty()) return fs::path(home) / "hub";
  const std::string cache = environment("XDG_CACHE_HOME");
  return (cache.empty() ? fs::path(environment("HOME")) / ".cache" : fs::path(cache)) / "huggingface" / "hub";
}

struct HubId {
  std::string organisation, name, selection;
};

/// "organisation/name" or "organisation/name:selection" of the characters that the hub allows; false for other texts.
bool parse_id(const std::string& text, HubId& id) {
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos || text.find('/', slash + 1) != std::string::npos) return false;
  const std::size_t colon = std::min(text.find(':'), text.size());
  if (colon < slash) return false;
  id = {text.substr(0, slash), text.substr(slash + 1, colon - slash - 1),
        colon < text.size() ? text.substr(colon + 1) : ""};
  const auto allowed = [](const std::string& part) {
    return !part.empty() && part.front() != '.' && std::all_of(part.begin(), part.end(), [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
    });
  };
  return allowed(id.organisation) && allowed(id.name);
}

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

/// The folder of the commit that refs/main names, or of the only one that is there; empty if there is none.
fs::path snapshot_of(const fs::path& repository) {
  std::error_code error;
  std::string commit;
  std::ifstream(repository / "refs" / "main") >> commit;
  if (!commit.empty() && fs::is_directory(repository / "snapshots" / commit, error))
    return repository / "snapshots" / commit;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(repository / "snapshots", error)) found.push_back(entry.path());
  return found.size() == 1 ? found.front() : fs::path();
}

/// GGUF files of a folder; of a split one its first part.
std::vector<fs::path> gguf_files(const fs::path& folder, const std::string& selection) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!lower_case(name).ends_with(".gguf") || lower_case(name).find(lower_case(selection)) == std::string::npos)
      continue;
    if (name.find("-of-") != std::string::npos && name.find("-00001-of-") == std::string::npos) continue;
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
    throw Failure(text + ": " + snapshot.string() + " has neither config.json nor a GGUF file" +
                  (id.selection.empty() ? "" : " whose name has " + json_string(id.selection)));
  std::string names;
  for (const fs::path& file : files) names += (names.empty() ? "" : ", ") + file.filename().string();
  throw Failure(text + " has several GGUF files: name one of them as " + id.organisation + "/" + id.name +
                ":PART_OF_ITS_NAME (" + names + ")");
}

}  // namespace

std::string find_model(const std::string& name) {
  std::error_code error;
  HubId id;
  if (fs::exists(name, error) || !parse_id(name, id)) return name;
  const fs::path cache = cache_folder();
  const fs::path snapshot = snapshot_of(cache / ("models--" + id.organisation + "--" + id.name));
  if (!snapshot.empty()) return file_in(snapshot, name, id);
  throw Failure(name + " is no file or directory, and not in the Hugging Face cache (" + cache.string() +
                "). To download it: hf download " + id.organisation + "/" + id.name +
                (id.selection.empty() ? "" : " --include \"*" + id.selection + "*\""));
}

}  // namespace cli
