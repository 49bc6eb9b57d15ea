// Tokenizers in tests: loading, whole-sequence encoding and decoding, and files that differ from a good one in one
// thing.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>
#include "support/catch.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace qinfer::test {

using Json = nlohmann::json;
using text::Detokenizer;
using text::TokenId;
using text::Tokenizer;

std::string read_text_file(const std::filesystem::path& path);

std::unique_ptr<Tokenizer> load_tokenizer_text(std::string_view json, std::uint32_t vocab_size = 0);

std::vector<TokenId> encode(const Tokenizer& tokenizer, std::string_view text, bool parse_special = true,
                            bool add_special = false);

/// What the tokens give through a Detokenizer, one push at a time.
std::string decode(const Tokenizer& tokenizer, const std::vector<TokenId>& ids, bool at_start = true);

/// A small tokenizer with byte fallback: "a", "b", "ab", U+2581, the bytes from 4 on, and "<unk>", "<s>", "</s>".
Json small_tokenizer();

/// The token of one byte of small_tokenizer().
inline constexpr TokenId small_byte(int byte) { return 4 + byte; }

}  // namespace qinfer::test
