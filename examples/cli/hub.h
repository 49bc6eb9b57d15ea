// hub.h: models by the name they have on the Hugging Face hub, found in the cache that its tools keep on this machine.
// Nothing is downloaded.
#pragma once

#include <string>

namespace cli {

/// `name` itself if there is such a file or directory, or if it is no hub id. For an id ("Qwen/Qwen3-0.6B") the
/// directory, or the GGUF file, of its newest snapshot in the cache; "org/name:Q4_K_M" picks the file whose name has
/// that part. Throws Failure, which tells how to get the model, if the cache does not have it, or that a choice is
/// needed.
std::string find_model(const std::string& name);

}  // namespace cli
