// hub_pull.cpp: see hub_pull.h.
#include "hub_pull.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "http.h"
#include "hub.h"
#include "hub_blob.h"
#include "support.h"

namespace cli {
namespace {

namespace fs = std::filesystem;

struct HubFile {
  std::string name;
  std::uint64_t size = 0;  // 0 where the hub does not say it
};

struct Listing {
  std::string commit;
  std::vector<HubFile> files;
};

/// The token of this person: of the environment, or of the file that `hf auth login` wrote.
std::string hub_token() {
  std::string token = environment("HF_TOKEN");
  if (token.empty()) token = environment("HUGGING_FACE_HUB_TOKEN");
  if (token.empty()) {
    const std::string path = environment("HF_TOKEN_PATH");
    std::ifstream(path.empty() ? hub_home() / "token" : fs::path(path)) >> token;
  }
  token.erase(0, token.find_first_not_of(" \t\r\n"));
  token.erase(token.find_last_not_of(" \t\r\n") + 1);
  if (std::any_of(token.begin(), token.end(), [](unsigned char c) { return c <= ' ' || c > '~'; }))
    throw Failure("the token of the hub has characters that no token has");
  return token;
}

/// Names that stay inside the folder that they are to be in.
bool is_safe(const std::string& name) {
  if (name.empty() || std::any_of(name.begin(), name.end(), [](unsigned char c) { return c < ' ' || c == '\\'; }))
    return false;
  const fs::path path(name);
  return !path.is_absolute() && std::none_of(path.begin(), path.end(), [](const fs::path& part) {
    return part.empty() || part == "." || part == "..";
  });
}

/// A part of a URL: what is not plain as %XX, "/" too unless it is kept.
std::string url_part(const std::string& text, bool keeps_slashes) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_plain = byte < 0x80 && (std::isalnum(byte) != 0 || c == '-' || c == '_' || c == '.' || c == '~');
    if (is_plain || (c == '/' && keeps_slashes))
      out += c;
    else
      out += format("%%%02X", byte);
  }
  return out;
}

Listing list_files(Http& http, const std::string& endpoint, const HubId& id, const std::string& revision) {
  constexpr std::size_t kMaxBytes = std::size_t{64} << 20;
  const std::string url =
      endpoint + "/api/models/" + id.repository() + "/revision/" + url_part(revision, false) + "?blobs=true";
  std::string body;
  const HttpAnswer answer = http.get(url, 0, [&](const HttpAnswer&, std::string_view bytes) {
    body += bytes;
    return body.size() <= kMaxBytes;
  });
  if (answer.status != 200 || !answer.failure.empty()) throw Failure(refusal(answer, id.repository()));
  const auto read = nlohmann::json::parse(body, nullptr, false);
  Listing listing;
  if (read.is_object() && read.contains("sha") && read["sha"].is_string()) listing.commit = read["sha"];
  const bool is_name = !listing.commit.empty() && listing.commit.size() <= 64 &&
                       listing.commit.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!is_name || !read.contains("siblings") || !read["siblings"].is_array())
    throw Failure(url + ": the answer is no list of a model's files");
  for (const auto& one : read["siblings"]) {
    if (!one.is_object() || !one.contains("rfilename") || !one["rfilename"].is_string()) continue;
    HubFile file{one["rfilename"], 0};
    if (one.contains("size") && one["size"].is_number_unsigned()) file.size = one["size"];
    if (!is_safe(file.name)) throw Failure(id.repository() + ": " + json_string(file.name) + " is no name of a file");
    listing.files.push_back(std::move(file));
  }
  return listing;
}

bool ends_with(const std::string& text, std::string_view end) { return text.ends_with(end); }

/// A file of a model directory that qinfer reads, but for its weights.
bool describes_model(const std::string& name) {
  static constexpr std::string_view kNames[] = {"config.json",
                                                "generation_config.json",
                                                "tokenizer.json",
                                                "tokenizer_config.json",
                                                "chat_template.jinja",
                                                "chat_template.json",
                                                "modules.json",
                                                "config_sentence_transformers.json",
                                                "sentence_bert_config.json",
                                                "model.safetensors.index.json"};
  if (std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames)) return true;
  // Modules of sentence-transformers: "1_Pooling/config.json", "2_Dense/model.safetensors".
  const std::size_t slash = name.find('/');
  return slash != std::string::npos && name.find('_') < slash && name[0] >= '0' && name[0] <= '9' &&
         (name.substr(slash) == "/config.json" || name.substr(slash) == "/model.safetensors");
}

bool is_weights(const std::string& name) {
  return name.find('/') == std::string::npos && name.starts_with("model") && ends_with(name, ".safetensors");
}

std::vector<HubFile> choose_gguf(const Listing& listing, const HubId& id) {
  std::vector<HubFile> found;
  std::vector<std::string> models;
  for (const HubFile& file : listing.files) {
    if (!ends_with(file.name, ".gguf") && !ends_with(file.name, ".GGUF")) continue;
    if (!is_selected(file.name, id.selection) && !is_selected(first_part(file.name), id.selection)) continue;
    found.push_back(file);
    if (const std::string first = first_part(file.name); std::find(models.begin(), models.end(), first) == models.end())
      models.push_back(first);
  }
  if (models.size() == 1) return found;
  std::string names;
  for (const HubFile& file : listing.files)
    if (ends_with(file.name, ".gguf") && first_part(file.name) == file.name)
      names += (names.empty() ? "" : ", ") + file.name;
  if (names.empty())
    throw Failure(id.repository() + " has neither safetensors nor GGUF files, which is what runs here");
  throw Failure(
      id.repository() +
      (models.empty() ? " has no GGUF file whose name has " + json_string(id.selection) : " has several GGUF files") +
      ": name one of them as " + id.repository() + ":PART_OF_ITS_NAME (" + names + ")");
}

std::vector<HubFile> choose(const Listing& listing, const HubId& id) {
  const auto& files = listing.files;
  const bool has_weights =
      std::any_of(files.begin(), files.end(), [](const HubFile& file) { return is_weights(file.name); });
  if (!id.selection.empty() || !has_weights) return choose_gguf(listing, id);
  std::vector<HubFile> chosen;
  for (const HubFile& file : files)
    if (describes_model(file.name) || is_weights(file.name)) chosen.push_back(file);
  return chosen;
}

/// Before anything is downloaded: a full disk is a bad surprise after an hour.
void check_room(const fs::path& cache, std::uint64_t bytes) {
  std::error_code error;
  const fs::space_info space = fs::space(cache, error);
  if (!error && bytes > space.available)
    throw Failure("the download takes " + human_bytes(bytes) + ", and " + cache.string() + " has room for " +
                  human_bytes(space.available));
}

/// A bar with rate and time left.
class PullProgress {
 public:
  explicit PullProgress(const HubFile& file) : bar_(file.name.c_str()) {}
  void update(std::uint64_t done, std::uint64_t total) {
    using Clock = std::chrono::steady_clock;
    const auto now = Clock::now();
    if (!first_) {
      first_ = done;
      begin_ = now;
    }
    if (done < total && now - shown_ < std::chrono::milliseconds(100)) return;
    shown_ = now;
    const double seconds = std::chrono::duration<double>(now - begin_).count();
    const double rate = done > *first_ && seconds > 0 ? static_cast<double>(done - *first_) / seconds : 0;
    std::string what = human_bytes(total);
    if (rate > 0) {
      const auto left = static_cast<std::uint64_t>(static_cast<double>(total - std::min(done, total)) / rate);
      what += ", " + human_bytes(static_cast<std::uint64_t>(rate)) + "/s, " + std::to_string(left / 60) + ":" +
              format("%02d", static_cast<int>(left % 60)) + " left";
    }
    bar_.update(done, total, what);
  }

 private:
  ProgressBar bar_;
  std::optional<std::uint64_t> first_;  // what an earlier download left is not of this rate
  std::chrono::steady_clock::time_point begin_, shown_;
};

void write_text(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  if (!(file << text << std::flush)) throw Failure("cannot write " + path.string());
}

/// snapshots/COMMIT/NAME -> ../../blobs/ETAG
void link_blob(const fs::path& blob, const fs::path& snapshot, const std::string& name) {
  const fs::path link = snapshot / name;
  const fs::path target = blob.lexically_relative(link.parent_path());
  fs::create_directories(link.parent_path());
  std::error_code error;
  const auto is_there = [&] { return fs::is_symlink(link, error) && fs::read_symlink(link, error) == target; };
  if (is_there()) return;
  fs::remove(link, error);
  std::error_code failed;
  fs::create_symlink(target, link, failed);
  // Another pull of the same file may have made it meanwhile.
  if (failed && !is_there()) throw Failure("cannot write " + link.string() + ": " + failed.message());
}

}  // namespace

void pull_model(const std::string& name, const PullOptions& options) {
  HubId id;
  if (!parse_hub_id(name, id))
    throw UsageError(json_string(name) + " is no model of the hub: expected ORG/NAME[:FILE]");
  if (const std::string off = environment("HF_HUB_OFFLINE"); !off.empty() && off != "0")
    throw Failure("HF_HUB_OFFLINE is set, so nothing is downloaded");
  std::string endpoint = options.endpoint.empty() ? environment("HF_ENDPOINT") : options.endpoint;
  if (endpoint.empty()) endpoint = "https://huggingface.co";
  while (endpoint.ends_with('/')) endpoint.pop_back();
  if (!is_safe(options.revision)) throw UsageError(json_string(options.revision) + " is no revision");
  Http http(endpoint, hub_token());
  const Listing listing = list_files(http, endpoint, id, options.revision);
  const std::vector<HubFile> files = choose(listing, id);
  const fs::path repository = hub_folder(id);
  fs::create_directories(repository);
  const fs::path snapshot = repository / "snapshots" / listing.commit;
  std::uint64_t missing = 0;
  std::error_code error;
  for (const HubFile& file : files)
    if (!fs::exists(snapshot / file.name, error)) missing += file.size;
  check_room(repository, missing);
  for (const HubFile& file : files) {
    HubBlob blob = ask_for_blob(
        http, endpoint + "/" + id.repository() + "/resolve/" + listing.commit + "/" + url_part(file.name, true));
    PullProgress progress(file);
    if (!blob.size && file.size != 0) blob.size = file.size;
    const std::uint64_t size = blob.size.value_or(0);
    const fs::path path =
        download_blob(http, blob, repository, [&](std::uint64_t done) { progress.update(done, size); });
    link_blob(path, snapshot, file.name);
  }
  if (options.revision != listing.commit) write_text(repository / "refs" / options.revision, listing.commit);
}

}  // namespace cli
