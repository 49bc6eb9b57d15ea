// Normalisation that changes or removes single characters: BERT's (BertNormalizer), lower case, marks, white space at
// the ends, SentencePiece's list of control characters (Nmt). As in Hugging Face's library.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace qinfer::text {

struct BertLetters {
  bool clean_text = true;            ///< remove control characters, and make every white space " "
  bool handle_chinese_chars = true;  ///< put spaces around ideographs
  bool strip_accents = true;
  bool lowercase = true;
};
/// Appends `text` to `out`. `work_space` and `code_points` are working space.
Status append_bert(const BertLetters& letters, std::string_view text, std::string& work_space,
                   std::vector<std::int32_t>& code_points, std::string& out);

void append_lower_case(std::string_view text, std::string& out);
void append_without_marks(std::string_view text, std::string& out);
void append_nmt(std::string_view text, std::string& out);
/// The text without the white space at its ends.
std::string_view without_space(std::string_view text, bool left, bool right);

}  // namespace qinfer::text
