// hub_pull.h: models from the Hugging Face hub into the cache that its own tools keep (huggingface_hub: "Understand
// caching"): a file is blobs/ETAG, to which snapshots/COMMIT/NAME links, and refs/REVISION names the commit.
#pragma once

#include <string>

namespace cli {

struct PullOptions {
  std::string endpoint;           ///< empty: HF_ENDPOINT, or https://huggingface.co
  std::string revision = "main";  ///< a branch, a tag or a commit
};

/// Downloads what of "org/name" runs a model, or of "org/name:selection" the GGUF file that is meant, with a bar on a
/// terminal. What is there already is not downloaded again, and what a cut download left is gone on with. Each file has
/// the digest that the hub says before it is there under its name. Throws Failure.
void pull_model(const std::string& name, const PullOptions& options = {});

}  // namespace cli
