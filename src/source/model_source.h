// ModelSource: what a path holds, and all that the library asks of it: the spec of the model, its tokenizer, where its
// tensors are, metadata, chat templates and fingerprints. The engine and the C ABI know no file formats: a format that
// is added is a class here and a line in open().
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.h"
#include "base/notes.h"
#include "base/status.h"
#include "formats/text_table.h"
#include "model/spec.h"
#include "model/tensors.h"
#include "platform/file.h"
#include "source/fingerprint.h"
#include "text/tokenizer.h"

namespace qinfer::source {

struct SourceOptions {
  bool no_weights = false;  ///< the files of tensors need not be there
  std::string packed_path;  ///< a packed file made from the model directory, to be used in its place
  CancelFlag cancel = {};
  std::shared_ptr<const platform::Files> files = {};  ///< of the host; null: the operating system's
  std::uint32_t max_context = 0;                      ///< that sessions will have (ModelSpec::limit_context()); 0: any
  std::uint32_t first_layer = 0, n_layers = 0;        ///< of a stage (model::keep_layers()); both 0: the whole model
};

inline constexpr std::string_view kDefaultChatTemplate = "default";

struct ChatTemplate {
  std::string name;  ///< kDefaultChatTemplate where a model has one without a name
  std::string text;
};

/// Sorted by name. Models load without them, so a file that cannot be read is no error until a host asks for a
/// template.
struct ChatTemplates {
  std::vector<ChatTemplate> list;
  Status status;  ///< why there is none, if their file is damaged
  /// The tokens that templates know by name, in the words of tokenizer_config.json, or else by their ids; -1 and none:
  /// not said.
  bool has_texts = false;  ///< what tokenizer_config.json leaves out is undefined
  std::optional<std::string> bos_text, eos_text;
  std::int32_t bos_id = -1, eos_id = -1;
};

/// What a model's files say to put before a text, by what the text is.
struct Prompt {
  std::string name, text;  ///< "query", "task: search result | query: "
};
struct Prompts {
  std::vector<Prompt> list;  ///< sorted by name
  std::string default_name;  ///< of one of them; empty: none
  const Prompt* find(std::string_view name) const {
    for (const Prompt& prompt : list)
      if (prompt.name == name) return &prompt;
    return nullptr;
  }
};

class ModelSource : public model::TensorSource {
 public:
  /// Decides what `path` is: a directory as Hugging Face lays it out, or that holds one GGUF file; a GGUF file (of a
  /// split one the first part), a packed model, or a config.json alone (a name that ends with ".json"), of which a
  /// memory plan can be made and nothing be loaded. Messages name the file and the field at fault.
  static Result<std::unique_ptr<ModelSource>> open(const std::string& path, const SourceOptions& options);

  const model::ModelSpec& spec() const { return spec_; }
  /// Null if there is none, or after it was taken.
  const text::Tokenizer* tokenizer() const { return tokenizer_.get(); }
  std::unique_ptr<text::Tokenizer> take_tokenizer() { return std::move(tokenizer_); }
  /// "config.rope_scaling.factor" -> "8.0", the metadata of the files of tensors, and notes() as "qinfer.note.1" and so
  /// on.
  formats::TextTable take_metadata() { return std::move(metadata_); }
  ChatTemplates take_chat_templates() { return std::move(chat_templates_); }
  Prompts take_prompts() { return std::move(prompts_); }
  /// What was passed over or put right while the files were read.
  const std::vector<std::string>& notes() const { return note_lines_; }
  /// Of the files of tensors.
  std::uint64_t file_bytes() const { return file_bytes_; }

  /// False for a config.json alone, and with SourceOptions::no_weights: then find() knows no tensor.
  virtual bool has_tensors() const = 0;
  /// What tensors are stored as, where they are not there to tell.
  Encoding assumed_encoding() const { return assumed_encoding_; }
  /// The kernel set that tensors were packed for; empty where they are as in the checkpoint.
  virtual std::string_view packed_for() const { return {}; }
  /// The RoPE table of a packed model, f32 [ropes][context_tokens][head_dim / 2][2]; null where there is none.
  virtual const model::TensorInfo* rope_table() const { return nullptr; }
  virtual Result<Fingerprints> fingerprints(CancelFlag cancel) const = 0;

 private:
  /// What all sources have in common, once they have read their files.
  Status complete(const SourceOptions& options);

 protected:
  model::ModelSpec spec_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::uint64_t tokenizer_hash_ = 0;
  bool context_is_limited_ = false;  ///< by max_context, to another model than the files say
  formats::TextTable metadata_;      ///< open() calls its finish()
  Notes notes_;
  std::vector<std::string> note_lines_;
  ChatTemplates chat_templates_;
  Prompts prompts_;
  std::uint64_t file_bytes_ = 0;
  Encoding assumed_encoding_ = Encoding::bf16;
};

}  // namespace qinfer::source
