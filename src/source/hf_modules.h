// The files that sentence-transformers keeps beside a model's own: modules.json, which says what is done with the final
// hidden states, the configuration of each of these modules in a folder of its own, how long a text may be, and the
// prompts that go before texts.
#pragma once

#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/status.h"
#include "formats/json.h"
#include "model/spec.h"
#include "source/model_source.h"

namespace qinfer::source {

class TextFiles;

/// A line of modules.json.
struct HfModule {
  std::string kind;    ///< the last part of its class: "Pooling"
  std::string folder;  ///< empty: the model's own
  std::string config() const { return folder + "/config.json"; }
};

/// Those after the model itself; none without modules.json. QINFER_E_UNSUPPORTED for one that is not known, or does not
/// come in the order transformer, pooling, dense layers, normalisation.
Result<std::vector<HfModule>> list_hf_modules(const TextFiles& files, CancelFlag cancel);

/// The files of text that belong to modules, as far as they are known by name; some may not be there.
std::vector<std::string> hf_module_texts(const std::vector<HfModule>& modules);

/// The labels of a classifier: num_labels or the length of id2label, 2 where both are absent.
Result<std::uint32_t> read_labels(const formats::FieldReader& fields);

/// What config.json says that is done with the one label of a classifier: the sigmoid, or nothing.
Status read_score_activation(const formats::FieldReader& fields, model::ModelSpec& spec);

/// What is read of the files besides what `spec` takes.
struct HfModules {
  std::vector<HfModule> list;
  std::vector<std::string> dense_folders;  ///< of spec.embedding.dense
  Prompts prompts;
};
/// `spec`: with the sizes that config.json states.
Result<HfModules> read_hf_modules(const TextFiles& files, model::ModelSpec& spec, CancelFlag cancel);

}  // namespace qinfer::source
