// See model_folder.h.
#include "source/model_folder.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "formats/checkpoint.h"

namespace qinfer::source {
namespace {

/// Names looked at: a folder with more is none that holds a model.
constexpr std::size_t kMostNames = 4096;
constexpr std::size_t kMostShown = 5;

/// What a folder may hold in place of a model. `begin` and `end` of a file's name.
struct Foreign {
  std::string_view begin, end, what;
};
constexpr Foreign kForeign[] = {
    {"adapter_", "", "an adapter (such as LoRA's), which changes a model: merge it into its model and save that"},
    {"", ".npz", "weights of MLX: take the model's safetensors, not quantised"},
    {"", ".bin", "weights as PyTorch pickles them, which can run code and are not read: convert them to safetensors"},
    {"", ".pt", "weights as PyTorch pickles them, which can run code and are not read: convert them to safetensors"},
    {"", ".pth", "weights as PyTorch pickles them, which can run code and are not read: convert them to safetensors"},
    {"", ".h5", "weights of TensorFlow: take the model's safetensors"},
    {"", ".msgpack", "weights of Flax: take the model's safetensors"},
    {"", ".onnx", "a graph of ONNX: take the model's safetensors"},
};

bool is_digits(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// Whether a name is NAME-00002-of-00003.gguf or a later part.
bool is_later_part(std::string_view name) {
  constexpr std::size_t kTail = std::string_view("-00001-of-00003.gguf").size();
  if (name.size() <= kTail) return false;
  const std::string_view tail = name.substr(name.size() - kTail);
  return tail[0] == '-' && tail.substr(6, 4) == "-of-" && is_digits(tail.substr(1, 5)) &&
         is_digits(tail.substr(10, 5)) && tail.substr(1, 5) != "00001";
}

/// "a.gguf, b.gguf and 3 more".
std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kMostShown); ++i) text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kMostShown) text += format_text(" and {} more", names.size() - kMostShown);
  return text;
}

/// Of a folder with no GGUF file. One with config.json alone is left to the reader of checkpoints.
Status no_model(const std::string& path, const std::vector<std::string>& names, bool has_config) {
  for (const Foreign& row : kForeign)
    for (const std::string& name : names)
      if (name.starts_with(row.begin) && name.ends_with(row.end) && name != "training_args.bin")
        return error(Code::not_found, "{}: {} is {}", path, name, row.what);
  if (has_config) return Status();
  const std::string found = names.empty() ? std::string("nothing") : listed(names);
  return error(Code::not_found, "{}: config.json is not there, nor a GGUF file, but {}", path, found);
}

}  // namespace

Result<std::string> find_model(const std::string& path, bool needs_weights,
                               const std::shared_ptr<const platform::Files>& files) {
  QINFER_ASSIGN(const bool one_file, platform::is_one_file(path, files.get()));
  if (one_file || files != nullptr) return path;
  QINFER_ASSIGN(const platform::Directory directory, platform::Directory::open(path));
  const auto has = [&](std::string_view name) {
    return directory.open_file(name).take_status().code() != Code::not_found;
  };
  const bool has_config = has("config.json");
  if (has_config && (has(formats::kSingleFile) || has(formats::kIndexFile))) return path;
  QINFER_ASSIGN(const auto names, directory.names(kMostNames));
  if (!names && has_config) return path;
  if (!names)
    return error(Code::not_found, "{}: config.json is not there, but more than {} files: give the path of the model",
                 path, kMostNames);
  std::vector<std::string> models;
  for (const std::string& name : *names)
    if (name.ends_with(".gguf") && name.find("mmproj") == name.npos && !is_later_part(name)) models.push_back(name);
  if (models.size() == 1) return format_text("{}{}{}", path, path.ends_with('/') ? "" : "/", models[0]);
  if (has_config && !needs_weights) return path;
  if (models.empty()) {
    QINFER_TRY(no_model(path, *names, has_config));
    return path;
  }
  return error(Code::not_found, "{}: {} GGUF files are there, give the path of one of them: {}", path, models.size(),
               listed(models));
}

}  // namespace qinfer::source
