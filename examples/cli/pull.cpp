// pull.cpp: `qinfer pull`, which downloads a model of the Hugging Face hub into its cache, and `qinfer list`, which
// says what the cache has.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "hub.h"
#include "hub_pull.h"
#include "options.h"
#include "support.h"

namespace cli {
namespace {

namespace fs = std::filesystem;

struct PullArgs {
  std::string model;
  PullOptions options;
};

int run_pull(const PullArgs& args) {
  pull_model(args.model, args.options);
  HubId id;
  parse_hub_id(args.model, id);
  // The model, not its files: what other commands take.
  print((args.options.revision == "main" ? find_model(args.model) : hub_folder(id).string()) + "\n");
  return 0;
}

std::uint64_t size_of(const fs::path& file) {
  std::error_code error;
  const std::uint64_t size = fs::file_size(file, error);  // of what a link leads to
  return error ? 0 : size;
}

void list_model(const std::string& name, const fs::path& folder) {
  std::error_code error;
  const fs::path snapshot = hub_snapshot(folder);
  std::uint64_t size = 0;
  bool has_weights = false;
  for (const auto& entry : fs::recursive_directory_iterator(snapshot, error)) {
    const std::string file = entry.path().lexically_relative(snapshot).string();
    if (entry.path().extension() == ".gguf")
      print_row(human_bytes(size_of(entry.path())), name + ":" + file);
    else if (entry.is_regular_file(error))
      size += size_of(entry.path());
    has_weights = has_weights || entry.path().extension() == ".safetensors";
  }
  if (has_weights) print_row(human_bytes(size), name);
  for (const auto& entry : fs::directory_iterator(folder / "blobs", error))
    if (entry.path().extension() == ".incomplete")
      print_row(human_bytes(size_of(entry.path())), name + " (a download that was cut)");
}

int run_list() {
  constexpr std::string_view kPrefix = "models--";
  std::vector<std::string> folders;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(hub_cache(), error))
    if (const std::string name = entry.path().filename().string(); name.starts_with(kPrefix)) folders.push_back(name);
  std::sort(folders.begin(), folders.end());
  for (const std::string& folder : folders) {
    std::string name = folder.substr(kPrefix.size());
    if (const std::size_t cut = name.find("--"); cut != std::string::npos) name.replace(cut, 2, "/");
    list_model(name, hub_cache() / folder);
  }
  if (folders.empty()) report("there are no models in " + hub_cache().string());
  return 0;
}

}  // namespace

void add_pull(Commands& commands) {
  auto args = std::make_shared<PullArgs>();
  Options options = commands.add("pull", "Download a model of the Hugging Face hub into its cache");
  options.set_footer("Examples:\n  qinfer pull Qwen/Qwen3-0.6B\n  qinfer pull ggml-org/SmolLM3-3B-GGUF:Q4_K_M");
  options.add("MODEL", args->model, "ORG/NAME, or ORG/NAME:FILE with a part of the name of a GGUF file")
      .required()
      .type_name("");
  options.add("--revision", args->options.revision, "A branch, a tag or a commit (default: main)").type_name("NAME");
  options
      .add("--endpoint", args->options.endpoint,
           "The hub (default: HF_ENDPOINT, or https://huggingface.co); the token of HF_TOKEN or of hf auth login goes "
           "there and nowhere else")
      .type_name("URL");
  options.run([args] { return run_pull(*args); });
}

void add_list(Commands& commands) {
  Options options =
      commands.add("list", "List the models of the Hugging Face cache, with the names that commands take");
  options.set_footer("Example:\n  qinfer list");
  options.run([] { return run_list(); });
}

}  // namespace cli
