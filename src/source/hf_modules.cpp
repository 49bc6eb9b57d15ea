// See hf_modules.h. The meaning of fields is that of sentence-transformers 6.2.
#include "source/hf_modules.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/format.h"
#include "formats/json.h"
#include "source/architecture.h"
#include "source/hf_texts.h"

namespace qinfer::source {
namespace {

using formats::FieldReader;
using formats::Json;
using model::Pooling;

constexpr std::string_view kModulesFile = "modules.json", kPromptsFile = "config_sentence_transformers.json",
                           kLengthsFile = "sentence_bert_config.json", kTokenizerFile = "tokenizer_config.json";
constexpr std::size_t kMaxModules = 16;

/// The kinds that are known, each of which may come after those before it.
constexpr std::string_view kModuleKinds[] = {"Transformer", "Pooling", "Dense", "Normalize", "LogitScore"};

std::size_t rank_of(std::string_view kind) {
  return static_cast<std::size_t>(std::find(std::begin(kModuleKinds), std::end(kModuleKinds), kind) -
                                  std::begin(kModuleKinds));
}

/// The JSON object of a file; nothing where the file is absent.
Result<std::optional<formats::JsonDocument>> find_object(const TextFiles& files, std::string_view name,
                                                         CancelFlag cancel) {
  QINFER_ASSIGN(const auto text, files.find(name, kMaxConfigBytes));
  if (!text) return std::optional<formats::JsonDocument>();
  QINFER_ASSIGN(formats::JsonDocument document, formats::parse_python_json(*text, name, cancel));
  if (!document.root().is_object()) return error_at(Code::format, 0, "{}: expected a JSON object", name);
  return std::optional<formats::JsonDocument>(std::move(document));
}

/// The configuration of a module, which must be there.
Result<formats::JsonDocument> read_object(const TextFiles& files, const std::string& name, CancelFlag cancel) {
  QINFER_ASSIGN(auto document, find_object(files, name, cancel));
  if (!document) return error(Code::not_found, "{}: it is not there, but {} names its folder", name, kModulesFile);
  return std::move(*document);
}

Result<HfModule> read_line(const Json& line) {
  const auto text = [&](std::string_view key) -> std::optional<std::string_view> {
    const Json* value = line.is_object() ? formats::find_field(line, key) : nullptr;
    return value != nullptr && value->is_string() ? std::optional(value->text()) : std::nullopt;
  };
  const auto type = text("type"), path = text("path");
  if (!type || !path)
    return error_at(Code::format, -1, "{}: expected a list of objects with the texts \"type\" and \"path\"",
                    kModulesFile);
  return HfModule{std::string(type->substr(type->rfind('.') + 1)), std::string(*path)};
}

/// Each comes where it can, and the model itself is in the directory.
Status check_module_order(const std::vector<HfModule>& modules) {
  std::size_t before = 0;
  for (std::size_t i = 0; i < modules.size(); ++i) {
    const auto& [kind, folder] = modules[i];
    const std::size_t rank = rank_of(kind);
    const bool again = i != 0 && rank == before && kind != "Dense";
    const bool alone = kind != "LogitScore" || i == 1;
    if (rank == std::size(kModuleKinds) || rank < before || again || !alone || (i == 0) != (rank == 0))
      return error(Code::unsupported,
                   "{}: module {} is \"{}\", supported are Transformer, Pooling, up to {} of Dense, and Normalize, in "
                   "this order, or Transformer and LogitScore",
                   kModulesFile, i, kind, model::kMaxDense);
    if (i == 0 && !folder.empty())
      return error(Code::unsupported, "{}: the Transformer is in \"{}\", expected it in the directory itself",
                   kModulesFile, folder);
    if (i != 0 && folder.empty() && kind != "Normalize")
      return error_at(Code::format, -1, "{}: module {}, {}, has no folder: \"path\" is empty", kModulesFile, i, kind);
    before = rank;
  }
  return Status();
}

/// The one way of pooling that a configuration names: "pooling_mode" (versions from 5.5 on), or one of the switches.
Result<std::string> pooling_mode(const FieldReader& fields) {
  constexpr std::pair<std::string_view, std::string_view> kSwitches[] = {
      {"pooling_mode_cls_token", "cls"},
      {"pooling_mode_max_tokens", "max"},
      {"pooling_mode_mean_tokens", "mean"},
      {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens"},
      {"pooling_mode_weightedmean_tokens", "weightedmean"},
      {"pooling_mode_lasttoken", "lasttoken"}};
  const Json* mode = formats::find_field(fields.object(), "pooling_mode");
  if (mode != nullptr && mode->is_array() && mode->size() == 1) mode = &*mode->begin();
  if (mode != nullptr && !mode->is_string())
    return error(Code::unsupported, "{}: \"pooling_mode\" is {}, supported is one of cls, mean and lasttoken",
                 fields.where(), formats::json_text(*mode));
  if (mode != nullptr) return std::string(mode->text());
  std::string found;
  for (const auto& [key, name] : kSwitches) {
    QINFER_ASSIGN(const auto on, fields.boolean(key));
    if (!on.value_or(false)) continue;
    if (!found.empty())
      return error(Code::unsupported, "{}: both {} and {} pooling are on, supported is one of cls, mean and lasttoken",
                   fields.where(), found, name);
    found = name;
  }
  return found.empty() ? std::string("mean") : found;
}

Status read_pooling(const FieldReader& fields, model::ModelSpec& spec) {
  QINFER_ASSIGN(const std::string mode, pooling_mode(fields));
  model::EmbeddingSpec& out = spec.embedding;
  if (mode == "mean") {
    out.pooling = Pooling::mean;
  } else if (mode == "cls") {
    out.pooling = Pooling::first;
  } else if (mode == "lasttoken") {
    out.pooling = Pooling::last;
  } else {
    return error(Code::unsupported, "{}: the pooling is \"{}\", supported are cls, mean and lasttoken", fields.where(),
                 mode);
  }
  for (const std::string_view key : {"embedding_dimension", "word_embedding_dimension"}) {
    QINFER_ASSIGN(const auto width, fields.integer(key, 1, kMaxDim));
    if (width && *width != spec.n_embd)
      return error_at(Code::format, -1, "{}: \"{}\" is {}, the model's hidden states have {}", fields.where(), key,
                      *width, spec.n_embd);
  }
  QINFER_ASSIGN(const auto include, fields.boolean("include_prompt"));
  out.without_prompt = !include.value_or(true);
  return Status();
}

Status read_dense(const FieldReader& fields, model::ModelSpec& spec) {
  model::DenseSpec dense;
  QINFER_ASSIGN(const std::int64_t inputs, fields.required_integer("in_features", 1, kMaxDim));
  QINFER_ASSIGN(const std::int64_t outputs, fields.required_integer("out_features", 1, kMaxDim));
  if (inputs != spec.embedding_dims())
    return error_at(Code::format, -1, "{}: \"in_features\" is {}, the module before it gives {}", fields.where(),
                    inputs, spec.embedding_dims());
  dense.inputs = static_cast<std::uint32_t>(inputs);
  dense.outputs = static_cast<std::uint32_t>(outputs);
  QINFER_ASSIGN(const auto bias, fields.boolean("bias"));
  dense.bias = bias.value_or(true);
  QINFER_ASSIGN(const auto residual, fields.boolean("use_residual"));
  if (residual.value_or(false))
    return error(Code::unsupported, "{}: \"use_residual\" is true, only false is supported", fields.where());
  for (const std::string_view key : {"module_input_name", "module_output_name"}) {
    QINFER_ASSIGN(const auto name, fields.string(key));
    if (name && *name != "sentence_embedding")
      return error(Code::unsupported, "{}: \"{}\" is \"{}\", only \"sentence_embedding\" is supported", fields.where(),
                   key, *name);
  }
  QINFER_ASSIGN(const auto activation, fields.string("activation_function"));
  const std::string_view full = activation ? std::string_view(*activation) : "Tanh";
  const std::string_view name = full.substr(full.rfind('.') + 1);
  if (name != "Identity" && name != "Tanh")
    return error(Code::unsupported, "{}: \"activation_function\" is \"{}\", supported are Identity and Tanh",
                 fields.where(), full);
  dense.tanh = name == "Tanh";
  spec.embedding.dense.push_back(dense);
  return Status();
}

/// The tokens whose logits make a score.
Status read_logit_score(const FieldReader& fields, model::ModelSpec& spec) {
  const std::int64_t last = spec.n_vocab - 1;
  QINFER_ASSIGN(const std::int64_t yes, fields.required_integer("true_token_id", 0, last));
  QINFER_ASSIGN(const auto no, fields.integer("false_token_id", 0, last));
  QINFER_ASSIGN(const auto input, fields.string("module_input_name"));
  if (input && *input != "causal_logits")
    return error(Code::unsupported, "{}: \"module_input_name\" is \"{}\", only \"causal_logits\" is supported",
                 fields.where(), *input);
  spec.score.kind = model::ScoreKind::tokens;
  spec.score.yes = static_cast<std::int32_t>(yes);
  spec.score.no = static_cast<std::int32_t>(no.value_or(-1));
  return Status();
}

Status take_activation(const FieldReader& fields, std::string_view key, model::ScoreSpec& score) {
  QINFER_ASSIGN(const auto activation, fields.string(key));
  if (!activation) return Status();
  const std::string_view name = std::string_view(*activation).substr(activation->rfind('.') + 1);
  if (name != "Sigmoid" && name != "Identity")
    return error(Code::unsupported, "{}: \"{}\" is \"{}\", supported are Sigmoid and Identity", fields.where(), key,
                 *activation);
  score.raw = name == "Identity";
  score.says_raw = true;
  return Status();
}

/// The most tokens of a text: what the transformer's module says, or else its tokenizer.
Status read_length(const TextFiles& files, model::ModelSpec& spec, CancelFlag cancel) {
  QINFER_ASSIGN(const auto lengths, find_object(files, kLengthsFile, cancel));
  std::optional<std::int64_t> most;
  if (lengths) {
    const FieldReader fields(lengths->root(), std::string(kLengthsFile));
    QINFER_ASSIGN(most, fields.integer("max_seq_length", 1, INT64_MAX));
    QINFER_ASSIGN(const auto lowers, fields.boolean("do_lower_case"));
    if (lowers.value_or(false))
      return error(Code::unsupported,
                   "{}: \"do_lower_case\" is true: texts are lowered by the tokenizer or not at all, set it to false",
                   kLengthsFile);
  }
  if (!most) {
    QINFER_ASSIGN(const auto text, files.find(kTokenizerFile, kMaxTextBytes));
    const auto tokenizer = formats::parse_python_json(text.value_or("null"), kTokenizerFile, cancel);
    const bool is_object = tokenizer.ok() && tokenizer.value().root().is_object();
    const Json* length = is_object ? formats::find_field(tokenizer.value().root(), "model_max_length") : nullptr;
    // A tokenizer without a limit has 1e30, which is no integer.
    if (length != nullptr && length->is_integer() && length->integer() > 0) most = length->integer();
  }
  spec.embedding.max_tokens = static_cast<std::uint32_t>(std::min<std::int64_t>(most.value_or(0), kMaxContext));
  return Status();
}

Result<Prompts> read_prompts(const FieldReader& fields) {
  Prompts out;
  const Json* list = formats::find_field(fields.object(), "prompts");
  if (list != nullptr && !list->is_object())
    return error_at(Code::format, -1, "{}: \"prompts\" must be an object of texts", kPromptsFile);
  if (list == nullptr) return out;
  for (const Json& prompt : *list) {
    if (prompt.is_null()) continue;
    if (!prompt.is_string() || prompt.key().find('\0') != std::string_view::npos)
      return error_at(Code::format, -1, "{}: the prompt \"{}\" is {}, expected a text", kPromptsFile, prompt.key(),
                      formats::type_name(prompt.type()));
    out.list.push_back({std::string(prompt.key()), std::string(prompt.text())});
  }
  std::sort(out.list.begin(), out.list.end(), [](const Prompt& a, const Prompt& b) { return a.name < b.name; });
  QINFER_ASSIGN(const auto name, fields.string("default_prompt_name"));
  if (name && out.find(*name) == nullptr)
    return error_at(Code::format, -1, "{}: \"default_prompt_name\" is \"{}\", which is none of \"prompts\"",
                    kPromptsFile, *name);
  out.default_name = name.value_or("");
  return out;
}

}  // namespace

Result<std::uint32_t> read_labels(const FieldReader& fields) {
  QINFER_ASSIGN(const auto stated, fields.integer("num_labels", 1, kMaxDim));
  if (stated) return static_cast<std::uint32_t>(*stated);
  const Json* labels = formats::find_field(fields.object(), "id2label");
  if (labels == nullptr) return 2u;
  if (!labels->is_object() || labels->size() < 1 || labels->size() > static_cast<std::size_t>(kMaxDim))
    return error_at(Code::format, -1, "{}: \"id2label\" must be an object of 1 to {} labels", fields.where(), kMaxDim);
  return static_cast<std::uint32_t>(labels->size());
}

Status read_score_activation(const FieldReader& fields, model::ModelSpec& spec) {
  const Json* own = formats::find_field(fields.object(), "sentence_transformers");
  if (own != nullptr && own->is_object()) {
    const FieldReader inside(*own, fields.where() + ": \"sentence_transformers\"");
    QINFER_TRY(take_activation(inside, "activation_fn", spec.score));
  }
  if (spec.score.says_raw) return Status();
  return take_activation(fields, "sbert_ce_default_activation_function", spec.score);
}

Result<std::vector<HfModule>> list_hf_modules(const TextFiles& files, CancelFlag cancel) {
  std::vector<HfModule> modules;
  QINFER_ASSIGN(const auto text, files.find(kModulesFile, kMaxConfigBytes));
  if (!text) return modules;
  QINFER_ASSIGN(const formats::JsonDocument document, formats::parse_python_json(*text, kModulesFile, cancel));
  const Json& list = document.root();
  if (!list.is_array() || list.size() == 0 || list.size() > kMaxModules)
    return error_at(Code::format, -1, "{}: expected a list of 1 to {} modules", kModulesFile, kMaxModules);
  for (const Json& line : list) {
    QINFER_ASSIGN(HfModule module, read_line(line));
    modules.push_back(std::move(module));
  }
  QINFER_TRY(check_module_order(modules));
  modules.erase(modules.begin());
  return modules;
}

std::vector<std::string> hf_module_texts(const std::vector<HfModule>& modules) {
  std::vector<std::string> names = {std::string(kModulesFile), std::string(kPromptsFile), std::string(kLengthsFile)};
  for (const HfModule& module : modules)
    if (module.kind != "Normalize") names.push_back(module.config());
  return names;
}

Result<HfModules> read_hf_modules(const TextFiles& files, model::ModelSpec& spec, CancelFlag cancel) {
  HfModules out;
  QINFER_ASSIGN(out.list, list_hf_modules(files, cancel));
  for (const HfModule& module : out.list) {
    if (module.kind == "Normalize") continue;  // every vector is scaled to length 1
    QINFER_ASSIGN(const formats::JsonDocument document, read_object(files, module.config(), cancel));
    const FieldReader fields(document.root(), module.config());
    if (module.kind == "LogitScore") {
      QINFER_TRY(read_logit_score(fields, spec));
      continue;
    }
    if (module.kind == "Pooling") {
      QINFER_TRY(read_pooling(fields, spec));
      continue;
    }
    if (spec.embedding.dense.size() == model::kMaxDense)
      return error(Code::unsupported, "{}: a third Dense module, \"{}\": at most {} are supported", kModulesFile,
                   module.folder, model::kMaxDense);
    QINFER_TRY(read_dense(fields, spec));
    out.dense_folders.push_back(module.folder);
  }
  if (!out.list.empty()) QINFER_TRY(read_length(files, spec, cancel));
  QINFER_ASSIGN(const auto whole, find_object(files, kPromptsFile, cancel));
  if (!whole) return out;
  const FieldReader fields(whole->root(), std::string(kPromptsFile));
  if (spec.score.kind != model::ScoreKind::none && !spec.score.says_raw)
    QINFER_TRY(take_activation(fields, "activation_fn", spec.score));
  QINFER_ASSIGN(out.prompts, read_prompts(fields));
  return out;
}

}  // namespace qinfer::source
