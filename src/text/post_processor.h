// The "post_processor" of tokenizer.json, as far as it matters here: the ids that a TemplateProcessing puts before and
// after a single text. ByteLevel only trims offsets, which this library does not have.
#pragma once

#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/fields.h"
#include "text/vocabulary.h"

namespace qinfer::text {

Status parse_post_processor(const Json* value, std::string_view where, const Vocabulary& vocabulary,
                            std::vector<TokenId>& prefix, std::vector<TokenId>& suffix);

}  // namespace qinfer::text
