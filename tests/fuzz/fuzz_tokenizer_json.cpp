// libFuzzer target: arbitrary bytes as tokenizer.json. What loads must also encode and decode without a fault.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/detokenizer.h"
#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace qinfer::text;
  auto loaded = Tokenizer::from_json({reinterpret_cast<const char*>(data), size}, "tokenizer.json", {4096});
  if (!loaded.ok()) return 0;
  const Tokenizer& tokenizer = *loaded.value();
  constexpr std::string_view kText =
      "Hello  world's 123 \u4f60\u597d\U0001F642 e\u0301\n\n<s><|im_end|>ab aab \u2581\t!";
  std::string text(kText);
  text.append(120, 'a');
  for (TokenId id = 0; id < static_cast<TokenId>(tokenizer.size()) && id < 64; ++id)
    if (tokenizer.is_control(id)) text.append(tokenizer.token_bytes(id));
  for (const bool parse_special : {false, true}) {
    std::vector<TokenId> ids;
    static_cast<void>(tokenizer.encode(text, {true, parse_special}, ids));
    for (TokenId id = -1; id < 300; ++id) ids.push_back(id);
    const std::size_t capacity = 3 * tokenizer.max_token_bytes() + 16;
    Detokenizer detokenizer(tokenizer);
    for (const TokenId id : ids) {
      std::vector<char> out(capacity);  // fresh, so that the sanitiser sees a byte too many
      static_cast<void>(detokenizer.push(id, out));
    }
    std::vector<char> out(capacity);
    static_cast<void>(detokenizer.finish(out));
  }
  return 0;
}
