// See pack_input.h.
#include "source/pack_input.h"

#include <iterator>

#include "base/hash.h"
#include "formats/checkpoint.h"
#include "source/gguf_source.h"
#include "source/hf_texts.h"
#include "source/model_folder.h"

namespace qinfer::source {

Result<PackInput> PackInput::open(const std::string& given) {
  QINFER_ASSIGN(const std::string path, find_model(given, true, nullptr));
  PackInput input;
  if (platform::is_regular_file(path)) {
    QINFER_ASSIGN(const platform::OpenFile file, platform::open_path(path));
    QINFER_ASSIGN(const bool is_gguf, formats::Gguf::is_gguf(file));
    if (!is_gguf) return error(Code::invalid_argument, "{} is not a model directory, nor a GGUF file", path);
    input.gguf_ = path;
    return input;
  }
  QINFER_ASSIGN(input.directory_, platform::Directory::open(path));
  return input;
}

Status PackInput::check_output(const std::string& out, CancelFlag cancel) const {
  if (!directory_) {
    QINFER_ASSIGN(const formats::Gguf gguf, formats::Gguf::open(gguf_, nullptr, cancel));
    for (std::size_t i = 0; i < gguf.n_files(); ++i)
      if (platform::is_same_file(gguf.file(i), out))
        return error(Code::invalid_argument, "{} is a file of the model itself", out);
    return Status();
  }
  QINFER_ASSIGN(const formats::Checkpoint checkpoint, open_checkpoint(*directory_, cancel));
  const auto own_file = [&out] { return error(Code::invalid_argument, "{} is a file of the checkpoint itself", out); };
  for (std::size_t i = 0; i < checkpoint.n_files(); ++i)
    if (platform::is_same_file(checkpoint.file(i), out)) return own_file();
  QINFER_ASSIGN(std::vector<std::string> names, text_file_names(TextFiles(*directory_)));
  names.insert(names.end(), {std::string(formats::kSingleFile), std::string(formats::kIndexFile)});
  for (const std::string& name : names) {
    if (name.find('/') != name.npos) continue;
    if (platform::is_file_in(*directory_, name, out)) return own_file();
    auto file = directory_->open_file(name);
    if (file.ok() && platform::is_same_file(file.value(), out)) return own_file();
  }
  return Status();
}

Result<std::vector<PackInput::Text>> PackInput::texts(CancelFlag cancel) const {
  std::vector<Text> texts;
  if (!directory_) {
    QINFER_ASSIGN(const formats::Gguf gguf, formats::Gguf::open(gguf_, nullptr, cancel));
    QINFER_ASSIGN(GgufTexts read, read_gguf_texts(gguf));
    texts.push_back({"config.json", std::move(read.config)});
    texts.push_back({std::string(kGgufTokenizer), std::move(read.tokenizer)});
    return texts;
  }
  const TextFiles files(*directory_);
  QINFER_ASSIGN(const std::vector<std::string> names, text_file_names(files));
  texts.reserve(names.size());  // what is added to the file is borrowed from here
  for (const std::string& name : names) {
    QINFER_ASSIGN(auto text, files.find(name, kMaxTextBytes));
    if (text) texts.push_back({name, std::move(*text)});
  }
  return texts;
}

Result<std::string> PackInput::state(CancelFlag cancel) const {
  if (!directory_) {
    QINFER_ASSIGN(const formats::Gguf gguf, formats::Gguf::open(gguf_, nullptr, cancel));
    return gguf_state(gguf, cancel);
  }
  QINFER_ASSIGN(const formats::Checkpoint checkpoint, open_checkpoint(*directory_, cancel));
  QINFER_ASSIGN(const FingerprintTexts texts, hash_fingerprint_texts(TextFiles(*directory_)));
  QINFER_ASSIGN(std::string state, make_files_fingerprint(texts, checkpoint, cancel));
  // What the fingerprint leaves out is packed, too.
  QINFER_ASSIGN(const std::vector<Text> all, this->texts(cancel));
  for (const Text& text : all) state += format_text(" {} {:016x}", text.name, hash_text(text.text));
  return state;
}

}  // namespace qinfer::source
