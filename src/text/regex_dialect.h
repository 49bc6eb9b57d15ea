// Rewrites the regular expressions of tokenizer.json from the dialect of Oniguruma, in which Hugging Face's tokenizers
// reads them, to that of PCRE2.
//
// The two agree on most of what such files use and differ quietly on the rest: PCRE2's \s has U+180E, its \w lacks
// marks, its \p{Han} means script extensions, {1,3}+ is possessive in one and a repetition in the other, "[a[b]]" is a
// nested class in one only. What can be expressed is rewritten, what cannot (or was never seen in a tokenizer) is
// refused, so that a pattern that loads means the same as there.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace qinfer::text {

/// The PCRE2 pattern that matches what `pattern` (valid UTF-8) matches; Code::unsupported naming the construct.
Result<std::string> to_pcre2_dialect(std::string_view pattern);

}  // namespace qinfer::text
