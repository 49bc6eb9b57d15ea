// Unicode's normalisation forms C, D, KC and KD, in time n log n for any text.
//
// Characters that are newer than Unicode 9 are left as they are, as in Hugging Face's tokenizers, whose tables are of
// that version. (What all others decompose to and combine with never changes.)
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace qinfer::text {

enum class NormalForm : std::uint8_t { c, d, kc, kd };

/// Whether every character is below the first that the form changes or combines: such text is in the form. Costs one
/// pass over the bytes.
bool is_trivially_normal(NormalForm form, std::string_view text);

/// Appends `text` (valid UTF-8) in the form to `out`. `code_points` is working space.
Status append_normal_form(NormalForm form, std::string_view text, std::vector<std::int32_t>& code_points,
                          std::string& out);

}  // namespace qinfer::text
