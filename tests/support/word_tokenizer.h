// A tokenizer.json whose words are the ids of a fixture, so that texts give the very tokens that others computed with.
#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

namespace qinfer::test {

/// "w5" is token 5; a text of its own and a pair have nothing around them, or `first` and `last`.
nlohmann::json word_tokenizer(int n_vocab, int first = -1, int last = -1);
/// "w5 w6 ".
std::string words(const std::int32_t* ids, std::size_t n);

}  // namespace qinfer::test
