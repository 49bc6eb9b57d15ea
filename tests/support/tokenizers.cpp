// See tokenizers.h.
#include "support/tokenizers.h"

namespace qinfer::test {

std::string read_text_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::unique_ptr<Tokenizer> load_tokenizer_text(std::string_view json, std::uint32_t vocab_size) {
  auto loaded = Tokenizer::from_json(json, "tokenizer.json", {vocab_size});
  if (!loaded.ok()) FAIL(std::string(loaded.take_status().message()));
  return std::move(loaded.value());
}

std::vector<TokenId> encode(const Tokenizer& tokenizer, std::string_view text, bool parse_special, bool add_special) {
  std::vector<TokenId> ids;
  const Status status = tokenizer.encode(text, {add_special, parse_special}, ids);
  if (!status.ok()) FAIL(std::string(status.message()));
  return ids;
}

std::string decode(const Tokenizer& tokenizer, const std::vector<TokenId>& ids, bool at_start) {
  std::vector<char> buffer(3 * tokenizer.max_token_bytes() + 16);
  Detokenizer detokenizer(tokenizer, at_start);
  std::string text;
  for (const TokenId id : ids) text.append(buffer.data(), detokenizer.push(id, buffer));
  return text.append(buffer.data(), detokenizer.finish(buffer));
}

Json small_tokenizer() {
  Json vocab = {{"<unk>", 0}, {"<s>", 1}, {"</s>", 2}};
  constexpr char kHex[] = "0123456789ABCDEF";
  for (int byte = 0; byte < 256; ++byte) vocab[std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + ">"] = 4 + byte;
  vocab["a"] = 260;
  vocab["b"] = 261;
  vocab["ab"] = 262;
  vocab["\u2581"] = 263;
  vocab["\u2581a"] = 264;
  const auto added = [](int id, const char* content) {
    return Json{{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
                {"rstrip", false}, {"normalized", false}, {"special", true}};
  };
  Json pattern = {{"String", "\u2581"}};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", {added(0, "<unk>"), added(1, "<s>"), added(2, "</s>")}},
          {"normalizer", {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}}},
          {"pre_tokenizer", nullptr},
          {"post_processor", nullptr},
          {"decoder",
           {{"type", "Sequence"},
            {"decoders",
             {{{"type", "Replace"}, {"pattern", pattern}, {"content", " "}},
              {{"type", "ByteFallback"}},
              {{"type", "Fuse"}},
              {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}}},
          {"model",
           {{"type", "BPE"},
            {"unk_token", "<unk>"},
            {"fuse_unk", true},
            {"byte_fallback", true},
            {"vocab", std::move(vocab)},
            {"merges", {"a b", "\u2581 a"}}}}};
}

}  // namespace qinfer::test
