// Builds the tables of a tokenizer from tokenizer.json.
#pragma once

#include <memory>
#include <string_view>

#include "base/status.h"
#include "text/tables.h"
#include "text/tokenizer.h"

namespace qinfer::text {

Result<std::unique_ptr<TokenizerTables>> load_tokenizer(std::string_view text, std::string_view name,
                                                        const TokenizerLimits& limits, CancelFlag cancel);

}  // namespace qinfer::text
