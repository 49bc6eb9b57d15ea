// Unicode normalisation form C, in time n log n for any text.
//
// The properties are those of utf8proc's Unicode version. Hugging Face's tokenizers has Unicode 9 here: it differs for
// sequences with one of some hundred combining marks that were added since, none of them in wide use.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace qinfer::text {

/// Whether every character is below U+0300: such text is its own NFC. Costs one pass over the bytes.
bool is_trivially_nfc(std::string_view text);

/// Appends the NFC of `text` (valid UTF-8) to `out`. `code_points` is working space.
Status append_nfc(std::string_view text, std::vector<std::int32_t>& code_points, std::string& out);

}  // namespace qinfer::text
