// hub_blob.h: one file of the Hugging Face hub, downloaded into the cache's folder of blobs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "http.h"

namespace cli {

/// What the hub says of a file before it is downloaded.
struct HubBlob {
  std::string url;
  std::string etag;  ///< SHA-256 of a large file, the id of git's blob (SHA-1) of a small one
  std::optional<std::uint64_t> size;
};

/// Asks for them. Throws Failure, which says what to do where the hub wants a token.
HubBlob ask_for_blob(Http& http, const std::string& url);

/// Makes blobs/ETAG of it in the folder of a model, unless it is there. Goes on where an earlier call was cut, tries
/// again where a connection is, and waits while another process downloads the same file. `on_bytes`: how far it is.
std::filesystem::path download_blob(Http& http, const HubBlob& blob, const std::filesystem::path& repository,
                                    const std::function<void(std::uint64_t done)>& on_bytes);

/// Why the hub refused.
std::string refusal(const HttpAnswer& answer, const std::string& what);

}  // namespace cli
