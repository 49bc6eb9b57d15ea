// The texts of a Hugging Face model (config.json, generation_config.json, tokenizer.json, chat templates), wherever
// they are: in a directory, or in a packed model that was made from one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.h"
#include "base/status.h"
#include "formats/text_table.h"
#include "platform/file.h"
#include "source/fingerprint.h"
#include "source/hf_config.h"
#include "source/hf_modules.h"
#include "source/model_source.h"
#include "source/packed.h"
#include "text/tokenizer.h"

namespace qinfer::source {

inline constexpr std::uint64_t kMaxTextBytes = 256 << 20;
inline constexpr std::uint64_t kMaxConfigBytes = 1 << 20;

/// The files that are texts, in the order in which a packed model has them; those of modules follow (hf_modules.h). The
/// first three and those of modules are part of the fingerprint of files.
inline constexpr std::string_view kTextFiles[] = {"config.json",         "generation_config.json",
                                                  "tokenizer.json",      "tokenizer_config.json",
                                                  "chat_template.jinja", "chat_template.json"};
/// In a packed model that was made from a GGUF file: the key-values of its tokenizer and of sampling, in place of the
/// other texts but config.json.
inline constexpr std::string_view kGgufTokenizer = "tokenizer.gguf";

/// Files of a directory, or parts of a packed model.
class TextFiles {
 public:
  explicit TextFiles(const platform::Directory& directory) : directory_(&directory) {}
  explicit TextFiles(const PackedFile& packed) : packed_(&packed) {}

  /// `name` may be in a folder: "1_Pooling/config.json".
  Result<std::string> read(std::string_view name, std::uint64_t max_bytes) const;
  /// Absent files are std::nullopt.
  Result<std::optional<std::string>> find(std::string_view name, std::uint64_t max_bytes) const;
  bool are_packed() const { return packed_ != nullptr; }

 private:
  const platform::Directory* directory_ = nullptr;
  const PackedFile* packed_ = nullptr;
};

/// What the texts say.
struct HfTexts {
  ParsedConfig config;
  Encoding stated_encoding = Encoding::bf16;  ///< of the weights
  std::unique_ptr<text::Tokenizer> tokenizer;
  ChatTemplates chat_templates;
  HfModules modules;
  formats::TextTable metadata;  ///< config.json and generation_config.json flattened; no finish() yet
  FingerprintTexts fingerprint;
  Notes notes;
};

Result<HfTexts> read_hf_texts(const TextFiles& files, CancelFlag cancel);
/// Fails where a file cannot be read; what it says may be damaged, which is kept for when the host asks for a template.
Result<ChatTemplates> read_chat_templates(const TextFiles& files, CancelFlag cancel);
/// What the fingerprint of files is made of, without reading more of what they say than which modules there are.
Result<FingerprintTexts> hash_fingerprint_texts(const TextFiles& files);
/// The tensors of a directory, with those of its modules' folders.
Result<formats::Checkpoint> open_checkpoint(const platform::Directory& directory, CancelFlag cancel);
/// The names of all files of text of a directory that a packed model has, if they are there.
Result<std::vector<std::string>> text_file_names(const TextFiles& files);
/// config.json alone, or what a GGUF file says in its terms. `name` begins messages.
Result<HfTexts> read_hf_config(const formats::Json& config, std::string_view name);
Result<HfTexts> read_hf_config_text(const std::string& text, std::string_view name, CancelFlag cancel);

}  // namespace qinfer::source
