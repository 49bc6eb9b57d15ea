// See pack_input.h.
#include "source/pack_input.h"

#include <iterator>

#include "base/hash.h"
#include "formats/checkpoint.h"
#include "source/hf_texts.h"

namespace qinfer::source {

Result<PackInput> PackInput::open(const std::string& path) {
  if (platform::is_regular_file(path)) return error(Code::invalid_argument, "{} is not a model directory", path);
  QINFER_ASSIGN(platform::Directory directory, platform::Directory::open(path));
  return PackInput(std::move(directory));
}

Status PackInput::check_output(const std::string& out, CancelFlag cancel) const {
  QINFER_ASSIGN(const formats::Checkpoint checkpoint, formats::Checkpoint::open(directory_, cancel));
  const auto own_file = [&out] { return error(Code::invalid_argument, "{} is a file of the checkpoint itself", out); };
  for (std::size_t i = 0; i < checkpoint.n_files(); ++i)
    if (platform::is_same_file(checkpoint.file(i), out)) return own_file();
  std::vector<std::string_view> names(std::begin(kTextFiles), std::end(kTextFiles));
  names.insert(names.end(), {formats::kSingleFile, formats::kIndexFile});
  for (const std::string_view name : names) {
    if (platform::is_file_in(directory_, name, out)) return own_file();
    auto file = directory_.open_file(name);
    if (file.ok() && platform::is_same_file(file.value(), out)) return own_file();
  }
  return Status();
}

Result<std::vector<PackInput::Text>> PackInput::texts() const {
  std::vector<Text> texts;
  texts.reserve(std::size(kTextFiles));  // what is added to the file is borrowed from here
  const TextFiles files(directory_);
  for (const std::string_view name : kTextFiles) {
    QINFER_ASSIGN(auto text, files.find(name, kMaxTextBytes));
    if (text) texts.push_back({name, std::move(*text)});
  }
  return texts;
}

Result<std::string> PackInput::state(CancelFlag cancel) const {
  QINFER_ASSIGN(const formats::Checkpoint checkpoint, formats::Checkpoint::open(directory_, cancel));
  QINFER_ASSIGN(const FingerprintTexts texts, hash_fingerprint_texts(TextFiles(directory_)));
  QINFER_ASSIGN(std::string state, make_first_fingerprint(texts, checkpoint, cancel));
  // What the fingerprint leaves out is packed, too.
  QINFER_ASSIGN(const std::vector<Text> all, this->texts());
  for (const Text& text : all) state += fmt::format(" {} {:016x}", text.name, hash_text(text.text));
  return state;
}

}  // namespace qinfer::source
