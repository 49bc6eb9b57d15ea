// See hf_texts.h.
#include "source/hf_texts.h"

#include <algorithm>

#include "base/hash.h"
#include "formats/gguf_parser.h"
#include "formats/json.h"
#include "source/gguf_source.h"
#include "source/gguf_tokenizer.h"
#include "text/utf8.h"

namespace qinfer::source {
namespace {

using formats::Json;

constexpr std::uint64_t kMaxTemplateBytes = 16 << 20;
/// What describes a model is small; names that repeat in every path of a nested object could make a gigabyte of a
/// megabyte.
constexpr std::size_t kMaxMetadata = 64 << 20;

/// "torch_dtype" (version 4 of transformers) or "dtype" (version 5); bf16 where neither tells.
Encoding stated_encoding(const Json& config) {
  for (const Json* fields : {&config, &text_fields(config)}) {
    for (const char* key : {"dtype", "torch_dtype"}) {
      const std::string_view text = formats::text_of(formats::find_field(*fields, key));
      if (text == "float32") return Encoding::f32;
      if (text == "float16") return Encoding::f16;
    }
  }
  return Encoding::bf16;
}

/// An object of the file `name`, flattened: "config.rope_scaling.factor" -> "8.0"; lists as JSON, strings as text.
Status flatten(const Json& value, std::string_view name, std::string& prefix, std::size_t& left,
               formats::TextTable& out) {
  if (!value.is_object()) {
    const std::string text = value.is_string() ? std::string(value.text()) : formats::json_text(value);
    if (prefix.size() + text.size() > left)
      return error_at(Code::format, -1, "{}: its fields and their paths take more than {} bytes", name, kMaxMetadata);
    left -= prefix.size() + text.size();
    out.add(prefix, text);
    return Status();
  }
  const std::size_t size = prefix.size();
  for (const Json& member : value) {
    prefix.append(".").append(member.key());
    QINFER_TRY(flatten(member, name, prefix, left, out));
    prefix.resize(size);
  }
  return Status();
}

Status read_generation_config(const std::string& text, std::string_view name, HfTexts& out, CancelFlag cancel) {
  QINFER_ASSIGN(const formats::JsonDocument config, formats::parse_python_json(text, name, cancel));
  QINFER_TRY(apply_generation_config(config.root(), name, out.config.spec, out.notes));
  std::string prefix = "generation";
  std::size_t left = kMaxMetadata;
  return flatten(config.root(), name, prefix, left, out.metadata);
}

Status read_tokenizer(const std::string& text, std::string_view name, HfTexts& out, CancelFlag cancel) {
  const model::ModelSpec& spec = out.config.spec;
  QINFER_ASSIGN(out.tokenizer, text::Tokenizer::from_json(text, name, {spec.n_vocab, &out.notes}, cancel));
  if (spec.bos_token >= 0) out.tokenizer->mark_control(spec.bos_token);
  for (const std::int32_t token : spec.end_tokens) out.tokenizer->mark_control(token);
  out.fingerprint.tokenizer = out.tokenizer->fingerprint();
  return Status();
}

/// The tokenizer, templates, sampling and name of a packed model that was made from a GGUF file.
Status read_packed_gguf(const std::string& text, HfTexts& out, CancelFlag cancel) {
  auto bytes = std::make_unique<char[]>(text.size());
  std::copy(text.begin(), text.end(), bytes.get());
  const std::string name(kGgufTokenizer);
  QINFER_ASSIGN(auto header, formats::parse_gguf_header(bytes, text.size(), text.size(), name, cancel));
  if (!header) return error_at(Code::format, -1, "{}: it ends before its key-values do", name);
  out.chat_templates = read_gguf_chat_templates(header->metadata);
  QINFER_TRY(add_gguf_metadata(header->metadata, kSamplingKeys, out.metadata));
  QINFER_ASSIGN(const auto model_name, header->metadata.string("general.name"));
  if (model_name && text::find_invalid_utf8(*model_name) == model_name->size()) out.config.spec.name = *model_name;
  if (!has_gguf_tokenizer(header->metadata)) return Status();
  const text::TokenizerLimits limits{out.config.spec.n_vocab, &out.notes};
  QINFER_ASSIGN(GgufTokenizer read, read_gguf_tokenizer(header->metadata, limits, cancel));
  take_end_tokens(read, out.config.spec);
  out.tokenizer = std::move(read.tokenizer);
  out.fingerprint.tokenizer = out.tokenizer->fingerprint();
  return Status();
}

/// The field "chat_template" of an object: one text, or a list of objects with "name" and "template".
Status add_templates(const Json& object, std::string_view file, std::vector<ChatTemplate>& out) {
  const Json* value = object.is_object() ? formats::find_field(object, "chat_template") : nullptr;
  if (value == nullptr) return Status();
  if (value->is_string()) {
    out.push_back({std::string(kDefaultChatTemplate), std::string(value->text())});
    return Status();
  }
  const auto malformed = [&] {
    return error_at(
        Code::format, -1,
        "{}: \"chat_template\" must be a text, or a list of objects with the texts \"name\" and \"template\"", file);
  };
  if (!value->is_array()) return malformed();
  for (const Json& item : *value) {
    const Json* name = item.is_object() ? formats::find_field(item, "name") : nullptr;
    const Json* text = item.is_object() ? formats::find_field(item, "template") : nullptr;
    if (name == nullptr || text == nullptr || !name->is_string() || !text->is_string()) return malformed();
    if (name->text().find('\0') != std::string_view::npos) return malformed();
    const auto same = [&](const ChatTemplate& known) { return known.name == name->text(); };
    out.erase(std::remove_if(out.begin(), out.end(), same), out.end());  // the last of a name is meant
    out.push_back({std::string(name->text()), std::string(text->text())});
  }
  return Status();
}

}  // namespace

Result<std::string> TextFiles::read(std::string_view name, std::uint64_t max_bytes) const {
  return directory_ != nullptr ? directory_->read_text(name, max_bytes) : packed_->text(name, max_bytes);
}

Result<std::optional<std::string>> TextFiles::find(std::string_view name, std::uint64_t max_bytes) const {
  auto text = read(name, max_bytes);
  Status status = text.take_status();
  if (status.ok()) return std::optional<std::string>(std::move(text.value()));
  if (status.code() == Code::not_found) return std::optional<std::string>();
  return status;
}

Result<HfTexts> read_hf_config(const Json& config, std::string_view name) {
  HfTexts out;
  QINFER_ASSIGN(out.config, parse_hf_config(config, name, out.notes));
  out.config.spec.tied_embeddings = out.config.tied == Tied::yes;
  out.stated_encoding = stated_encoding(config);
  std::string prefix = "config";
  std::size_t left = kMaxMetadata;
  QINFER_TRY(flatten(config, "config.json", prefix, left, out.metadata));
  return out;
}

Result<HfTexts> read_hf_config_text(const std::string& text, std::string_view name, CancelFlag cancel) {
  QINFER_ASSIGN(const formats::JsonDocument config, formats::parse_python_json(text, name, cancel));
  return read_hf_config(config.root(), name);
}

namespace {

/// A JSON file as it was parsed; nothing where it is absent.
using MaybeJson = std::optional<Result<formats::JsonDocument>>;

Result<MaybeJson> find_json(const TextFiles& files, std::string_view name, CancelFlag cancel) {
  QINFER_ASSIGN(const auto text, files.find(name, kMaxTemplateBytes));
  if (!text) return MaybeJson();
  return MaybeJson(formats::parse_python_json(*text, name, cancel));
}

/// The templates of such a file, unless others are there already.
Status add_templates(MaybeJson& file, std::string_view name, std::vector<ChatTemplate>& out) {
  if (!file || !out.empty()) return Status();
  QINFER_TRY(file->take_status());
  return add_templates(file->value().root(), name, out);
}

/// A token's text, or an object with it as "content".
std::optional<std::string> token_text(const Json& object, std::string_view key) {
  const Json* value = object.is_object() ? formats::find_field(object, key) : nullptr;
  if (value != nullptr && value->is_object()) value = formats::find_field(*value, "content");
  return value != nullptr && value->is_string() ? std::optional<std::string>(value->text()) : std::nullopt;
}

void read_named_tokens(const Json& root, ChatTemplates& out) {
  out.has_texts = root.is_object() && (formats::find_field(root, "bos_token") != nullptr ||
                                       formats::find_field(root, "eos_token") != nullptr);
  out.bos_text = token_text(root, "bos_token");
  out.eos_text = token_text(root, "eos_token");
}

}  // namespace

/// As transformers does: chat_template.jinja takes the place of what tokenizer_config.json says.
Result<ChatTemplates> read_chat_templates(const TextFiles& files, CancelFlag cancel) {
  ChatTemplates out;
  QINFER_ASSIGN(MaybeJson config, find_json(files, "tokenizer_config.json", cancel));
  if (config && config->ok()) read_named_tokens(config->value().root(), out);
  QINFER_ASSIGN(const auto jinja, files.find("chat_template.jinja", kMaxTemplateBytes));
  if (jinja) {
    out.list.push_back({std::string(kDefaultChatTemplate), *jinja});
    return out;
  }
  QINFER_ASSIGN(MaybeJson own, find_json(files, "chat_template.json", cancel));
  out.status = add_templates(own, "chat_template.json", out.list);
  if (out.status.ok()) out.status = add_templates(config, "tokenizer_config.json", out.list);
  if (out.status.code() == Code::cancelled) return std::move(out.status);
  if (!out.status.ok()) out.list.clear();
  std::sort(out.list.begin(), out.list.end(),
            [](const ChatTemplate& a, const ChatTemplate& b) { return a.name < b.name; });
  return out;
}

namespace {

/// Nothing is added for a directory without modules, whose fingerprint stays.
Status hash_modules(const TextFiles& files, const std::vector<HfModule>& modules, FingerprintTexts& out) {
  for (const std::string& name : hf_module_texts(modules)) {
    QINFER_ASSIGN(const auto text, files.find(name, kMaxTextBytes));
    if (text) out.files.emplace_back(name, hash_text(*text));
  }
  return Status();
}

}  // namespace

Result<FingerprintTexts> hash_fingerprint_texts(const TextFiles& files) {
  FingerprintTexts out;
  for (const std::string_view name : {"config.json", "generation_config.json", "tokenizer.json"}) {
    QINFER_ASSIGN(const auto text, files.find(name, kMaxTextBytes));
    out.files.emplace_back(name, text ? hash_text(*text) : 0);
  }
  QINFER_ASSIGN(const std::vector<HfModule> modules, list_hf_modules(files, {}));
  QINFER_TRY(hash_modules(files, modules, out));
  return out;
}

Result<formats::Checkpoint> open_checkpoint(const platform::Directory& directory, CancelFlag cancel) {
  QINFER_ASSIGN(formats::Checkpoint checkpoint, formats::Checkpoint::open(directory, cancel));
  QINFER_ASSIGN(const std::vector<HfModule> modules, list_hf_modules(TextFiles(directory), cancel));
  for (const HfModule& module : modules) {
    if (module.kind != "Dense") continue;
    Status status = checkpoint.add_folder(directory, module.folder, cancel);
    if (status.code() == Code::not_found && directory.open_file_in(module.folder, "pytorch_model.bin").ok())
      return error(Code::unsupported,
                   "{}: {} is not there, but pytorch_model.bin: weights as PyTorch pickles them, which can run code "
                   "and are not read: convert them to safetensors",
                   module.folder, formats::kSingleFile);
    QINFER_TRY(std::move(status));
  }
  return checkpoint;
}

Result<std::vector<std::string>> text_file_names(const TextFiles& files) {
  std::vector<std::string> names(std::begin(kTextFiles), std::end(kTextFiles));
  QINFER_ASSIGN(const std::vector<HfModule> modules, list_hf_modules(files, {}));
  for (std::string& name : hf_module_texts(modules)) names.push_back(std::move(name));
  return names;
}

Result<HfTexts> read_hf_texts(const TextFiles& files, CancelFlag cancel) {
  QINFER_ASSIGN(const std::string config, files.read("config.json", kMaxConfigBytes));
  QINFER_ASSIGN(HfTexts out, read_hf_config_text(config, "config.json", cancel));
  out.fingerprint.files.emplace_back("config.json", hash_text(config));
  QINFER_ASSIGN(const auto generation, files.find("generation_config.json", kMaxConfigBytes));
  if (generation) QINFER_TRY(read_generation_config(*generation, "generation_config.json", out, cancel));
  out.fingerprint.files.emplace_back("generation_config.json", generation ? hash_text(*generation) : 0);
  QINFER_ASSIGN(out.modules, read_hf_modules(files, out.config.spec, cancel));
  QINFER_ASSIGN(const auto tokenizer, files.find("tokenizer.json", kMaxTextBytes));
  if (tokenizer) QINFER_TRY(read_tokenizer(*tokenizer, "tokenizer.json", out, cancel));
  out.fingerprint.files.emplace_back("tokenizer.json", tokenizer ? hash_text(*tokenizer) : 0);
  QINFER_TRY(hash_modules(files, out.modules.list, out.fingerprint));
  if (files.are_packed()) {
    QINFER_ASSIGN(const auto gguf, files.find(kGgufTokenizer, kMaxTextBytes));
    if (gguf) {
      QINFER_TRY(read_packed_gguf(*gguf, out, cancel));
      return out;
    }
  }
  QINFER_ASSIGN(out.chat_templates, read_chat_templates(files, cancel));
  return out;
}

}  // namespace qinfer::source
