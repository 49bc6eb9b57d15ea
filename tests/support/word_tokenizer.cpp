// See word_tokenizer.h.
#include "support/word_tokenizer.h"

namespace qinfer::test {

using nlohmann::json;

json word_tokenizer(int n_vocab, int first, int last) {
  json vocab = json::object();
  for (int i = 0; i < n_vocab; ++i) vocab["w" + std::to_string(i)] = i;
  const auto special = [](int id) {
    return json{{"SpecialToken", {{"id", "w" + std::to_string(id)}, {"type_id", 0}}}};
  };
  json single = {{{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}, tokens = json::object();
  json pair = {{{"Sequence", {{"id", "A"}, {"type_id", 0}}}}, {{"Sequence", {{"id", "B"}, {"type_id", 1}}}}};
  if (first >= 0) {
    single.insert(single.begin(), special(first));
    pair.insert(pair.begin(), special(first));
    single.push_back(special(last));
    pair.insert(pair.begin() + 2, special(last));
    json end = special(last);
    end["SpecialToken"]["type_id"] = 1;
    pair.push_back(end);
    for (const int id : {first, last}) {
      const std::string word = "w" + std::to_string(id);
      tokens[word] = {{"id", word}, {"ids", {id}}, {"tokens", {word}}};
    }
  }
  return {{"version", "1.0"},
          {"added_tokens", json::array()},
          {"pre_tokenizer", {{"type", "WhitespaceSplit"}}},
          {"post_processor",
           {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", tokens}}},
          {"model",
           {{"type", "WordPiece"},
            {"unk_token", "w0"},
            {"continuing_subword_prefix", "##"},
            {"max_input_chars_per_word", 100},
            {"vocab", vocab}}}};
}

std::string words(const std::int32_t* ids, std::size_t n) {
  std::string text;
  for (std::size_t i = 0; i < n; ++i) text += "w" + std::to_string(ids[i]) + " ";
  return text;
}

}  // namespace qinfer::test
