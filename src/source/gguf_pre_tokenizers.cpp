// See gguf_pre_tokenizers.h. Patterns are those of the models' tokenizer.json, which llama.cpp writes in other words
// where its matcher needs it. Normalisation is said only where the model's own tokenizer is known to have it.
#include "source/gguf_pre_tokenizers.h"

#include <algorithm>

#include "text/pre_tokenizer.h"

namespace qinfer::source {
namespace {

#define QINFER_CONTRACTIONS R"((?i:'s|'t|'re|'ve|'m|'ll|'d))"
#define QINFER_UPPER R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])"
#define QINFER_LOWER R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])"
#define QINFER_BEFORE_WORD R"([^\r\n\p{L}\p{N}]?)"
#define QINFER_SPACES R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"

constexpr std::string_view kGpt2[] = {text::kGpt2Pattern};
/// Each digit is a separate word.
constexpr std::string_view kDigits[] = {R"(\p{N})", text::kGpt2Pattern};
constexpr std::string_view kLlama3[] = {
    QINFER_CONTRACTIONS "|" QINFER_BEFORE_WORD R"(\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)" QINFER_SPACES};
constexpr std::string_view kQwen2[] = {QINFER_CONTRACTIONS "|" QINFER_BEFORE_WORD
                                                           R"(\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)" QINFER_SPACES};
constexpr std::string_view kQwen35[] = {
    QINFER_CONTRACTIONS "|" QINFER_BEFORE_WORD R"([\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)" QINFER_SPACES};
constexpr std::string_view kTekken[] = {QINFER_BEFORE_WORD QINFER_UPPER
                                        "*" QINFER_LOWER "+|" QINFER_BEFORE_WORD QINFER_UPPER "+" QINFER_LOWER
                                        R"(*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*)" QINFER_SPACES};
constexpr std::string_view kGpt4o[] = {QINFER_BEFORE_WORD QINFER_UPPER
                                       "*" QINFER_LOWER "+" QINFER_CONTRACTIONS "?|" QINFER_BEFORE_WORD QINFER_UPPER
                                       "+" QINFER_LOWER "*" QINFER_CONTRACTIONS
                                       R"(?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*)" QINFER_SPACES};
constexpr std::string_view kDeepSeekV3[] = {
    R"(\p{N}{1,3})", R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)",
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*)" QINFER_SPACES};
constexpr std::string_view kDeepSeekCoder[] = {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)",
                                               R"([\x{4E00}-\x{9FA5}\x{0800}-\x{4E00}\x{AC00}-\x{D7FF}]+)", R"(\p{N})"};
constexpr std::string_view kFalcon[] = {R"([\p{P}$+<=>^~|`]+)", text::kGpt2Pattern, R"([0-9][0-9][0-9])"};
/// Of files that do not say; no model was trained with it, but this is what llama.cpp does.
constexpr std::string_view kDefault[] = {R"([\p{P}$+<=>^~|]+)", text::kGpt2Pattern, R"(\p{N}+)", R"([0-9][0-9][0-9])"};

#undef QINFER_CONTRACTIONS
#undef QINFER_UPPER
#undef QINFER_LOWER
#undef QINFER_BEFORE_WORD
#undef QINFER_SPACES

constexpr bool kNfc = true, kIgnoreMerges = true, kAddBos = true;

constexpr GgufPreTokenizer kPreTokenizers[] = {
    {"default", kDefault},
    {"gpt-2", kGpt2},
    {"phi-2", kGpt2},
    {"mpt", kGpt2, kNfc},
    {"olmo", kGpt2, kNfc},
    {"gigachat", kGpt2},
    {"mellum", kGpt2},
    {"a.x-4.0", kGpt2},
    {"exaone4", kGpt2},
    {"jais", kGpt2},
    {"trillion", kGpt2},
    {"granite-docling", kGpt2},
    {"smollm", kDigits},
    {"starcoder", kDigits},
    {"refact", kDigits},  // Granite 3
    {"command-r", kDigits, kNfc},
    {"codeshell", kDigits},
    {"exaone", kDigits},
    {"minerva-7b", kDigits},
    {"mellum2", kDigits},
    {"llama-bpe", kLlama3, false, kIgnoreMerges, kAddBos},
    {"llama3", kLlama3, false, kIgnoreMerges, kAddBos},
    {"llama-v3", kLlama3, false, kIgnoreMerges, kAddBos},
    {"falcon3", kLlama3, false, kIgnoreMerges, kAddBos},
    {"falcon-h1", kLlama3, false, kIgnoreMerges, kAddBos},
    {"pixtral", kLlama3, false, kIgnoreMerges, kAddBos},
    {"midm-2.0", kLlama3, false, kIgnoreMerges, kAddBos},
    {"lfm2", kLlama3, false, kIgnoreMerges, kAddBos},
    {"dbrx", kLlama3},       // OLMo 2 too
    {"smaug-bpe", kLlama3},  // SmolLM3 too
    {"chatglm-bpe", kLlama3},
    {"glm4", kLlama3, false, kIgnoreMerges},
    {"qwen2", kQwen2, kNfc},
    {"deepseek-r1-qwen", kQwen2},
    {"megrez", kQwen2},
    {"stablelm2", kQwen2},
    {"hunyuan", kQwen2},
    {"solar-open", kQwen2},
    {"qwen35", kQwen35, kNfc},
    {"tekken", kTekken, false, kIgnoreMerges, kAddBos},
    {"gpt-4o", kGpt4o},
    {"llama4", kGpt4o},
    {"kanana2", kGpt4o},
    {"minimax-m2", kGpt4o},
    {"deepseek-v3", kDeepSeekV3},
    {"hunyuan-dense", kDeepSeekV3},
    {"joyai-llm", kDeepSeekV3},
    {"deepseek-coder", kDeepSeekCoder},
    {"falcon", kFalcon},
};

}  // namespace

const GgufPreTokenizer* find_gguf_pre_tokenizer(std::string_view name) {
  for (const GgufPreTokenizer& row : kPreTokenizers)
    if (row.name == name) return &row;
  return nullptr;
}

const GgufPreTokenizer* find_gguf_pre_tokenizer(std::span<const std::string> patterns, bool nfc, bool ignore_merges) {
  for (const GgufPreTokenizer& row : kPreTokenizers)
    if (row.nfc == nfc && row.ignore_merges == ignore_merges &&
        std::equal(row.patterns.begin(), row.patterns.end(), patterns.begin(), patterns.end()))
      return &row;
  return nullptr;
}

std::string gguf_pre_tokenizer_names() {
  std::string names;
  for (const GgufPreTokenizer& row : kPreTokenizers) names.append(names.empty() ? "" : ", ").append(row.name);
  return names;
}

}  // namespace qinfer::source
