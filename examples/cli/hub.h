// hub.h: models by the name they have on the Hugging Face hub, found in the cache that its tools keep on this machine.
// hub_pull.h fills it.
#pragma once

#include <filesystem>
#include <string>

#include "support.h"

namespace cli {

/// A hub id that the cache does not have.
struct NotInCache : Failure {
  using Failure::Failure;
};

struct HubId {
  std::string organisation, name, selection;
  std::string repository() const { return organisation + "/" + name; }
};

/// "organisation/name" or "organisation/name:selection" of the characters that the hub allows; false for other texts.
bool parse_hub_id(const std::string& text, HubId& id);
/// Whether a file is meant: its name has the selection as a part, whatever its case, or fits it where that has "*".
bool is_selected(const std::string& file, const std::string& selection);
/// "model-00002-of-00003.gguf" of a split file: the name of its first part. Others stay as they are.
std::string first_part(const std::string& file);

/// The folder of the hub's tools, with the token of `hf auth login`, and their cache.
std::filesystem::path hub_home();
std::filesystem::path hub_cache();
/// The folder of a model in the cache, whether it is there or not.
std::filesystem::path hub_folder(const HubId& id);
/// The snapshot of the commit that refs/main names, or the only one that is there; empty if there is none.
std::filesystem::path hub_snapshot(const std::filesystem::path& repository);

/// `name` itself if there is such a file or directory, or if it is no hub id. For an id ("Qwen/Qwen3-0.6B") the
/// directory, or the GGUF file, of its newest snapshot in the cache; "org/name:Q4_K_M" picks the file whose name has
/// that part. Throws NotInCache, which tells how to get the model, or Failure if a choice is needed.
std::string find_model(const std::string& name);

}  // namespace cli
