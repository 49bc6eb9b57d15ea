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
/// As DeepSeek-V3's, but that each digit and each line end is a separate word.
constexpr std::string_view kSpark[] = {
    R"(\p{N}{1,3})", R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)",
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+)",
    R"(\p{N})"};
constexpr std::string_view kMiniCpm5[] = {R"(\p{N}{1,3})", QINFER_CONTRACTIONS
                                          "|" QINFER_BEFORE_WORD
                                          R"(\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*)" QINFER_SPACES};
constexpr std::string_view kJais2[] = {
    QINFER_CONTRACTIONS
    "|" QINFER_BEFORE_WORD R"(\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+)"
    R"(|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S))"
    R"(|\s{1,2}(?!\S)|\s{1})"};
/// Words end at punctuation of some scripts.
#define QINFER_BLOOM_WORD R"( ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C})]+)"
constexpr std::string_view kBloom[] = {QINFER_BLOOM_WORD};
constexpr std::string_view kViking[] = {QINFER_BLOOM_WORD, R"(\p{N})"};
constexpr std::string_view kTinyAya[] = {R"(\d{1,3}(?=(?:\d{3})*\b))", QINFER_BEFORE_WORD QINFER_UPPER
                                         "*" QINFER_LOWER "+" QINFER_CONTRACTIONS "?|" QINFER_BEFORE_WORD QINFER_UPPER
                                         "+" QINFER_LOWER "*" QINFER_CONTRACTIONS
                                         R"(?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*)" QINFER_SPACES};
constexpr std::string_view kYoutu[] = {
    R"([\x{AC00}-\x{D7A3}\x{3131}-\x{318E}]+|[\x{FF01}\x{2026}\x{201C}\x{201D}\x{2018}\x{2019}\x{2014}\x{FF1A}\x{FF1B})"
    R"(\x{FF0C}\x{3001}-\x{303F}\x{FE30}-\x{FE4F}]+|[\x{3105}-\x{312F}]+)"
    R"(|[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)",
    QINFER_BEFORE_WORD QINFER_UPPER "*" QINFER_LOWER "+" QINFER_CONTRACTIONS "?|" QINFER_BEFORE_WORD QINFER_UPPER
                                    "+" QINFER_LOWER "*" QINFER_CONTRACTIONS
                                    R"(?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*)" QINFER_SPACES};
/// Han characters are words apart from all other letters.
#define QINFER_NOT_HAN(set) "(?:(?!\\p{Han})" set ")"
constexpr std::string_view kKimi[] = {R"(\p{Han}+|)" QINFER_BEFORE_WORD QINFER_NOT_HAN(QINFER_UPPER) "*" QINFER_NOT_HAN(
    QINFER_LOWER) "+" QINFER_CONTRACTIONS
                  "?|" QINFER_BEFORE_WORD QINFER_NOT_HAN(QINFER_UPPER) "+" QINFER_NOT_HAN(
                      QINFER_LOWER) "*" QINFER_CONTRACTIONS R"(?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)" QINFER_SPACES};
/// Digits in groups of three from the right.
constexpr std::string_view kSuperBpe[] = {R"(\p{N}+)", R"((?=(\d{3})+(?!\d)))"};
constexpr std::string_view kBailing[] = {
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"};
constexpr std::string_view kSeedCoder[] = {
    QINFER_CONTRACTIONS "|" QINFER_BEFORE_WORD R"(\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+)" QINFER_SPACES};
constexpr std::string_view kUfakZeka[] = {QINFER_BEFORE_WORD R"(\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)" QINFER_SPACES};
constexpr std::string_view kLaguna[] = {R"([^\n]+|[\n]+)",
                                        QINFER_CONTRACTIONS "|" QINFER_BEFORE_WORD
                                                            R"(\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)" QINFER_SPACES};
constexpr std::string_view kExaoneMoe[] = {
    QINFER_CONTRACTIONS
    "|" QINFER_BEFORE_WORD
    R"((?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)"};
constexpr std::string_view kFalcon[] = {R"([\p{P}$+<=>^~|`]+)", text::kGpt2Pattern, R"([0-9][0-9][0-9])"};
constexpr std::string_view kDeepSeekLlm[] = {
    R"([\r\n])",
    R"(\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF})"
    R"(\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1})"
    R"(\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5})"
    R"(\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A})"
    R"(\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B})"
    R"(\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC})"
    R"(\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107})"
    R"(\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134})"
    R"(\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4})"
    R"(\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787})"
    R"(\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A})"
    R"(\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2})"
    R"(\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+)",
    R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)",
    R"(\s+$)",
    R"([\x{4E00}-\x{9FA5}\x{0800}-\x{4E00}\x{AC00}-\x{D7FF}]+)",
    R"(\p{N}+)"};
/// Of files that do not say; no model was trained with it, but this is what llama.cpp does.
constexpr std::string_view kDefault[] = {R"([\p{P}$+<=>^~|]+)", text::kGpt2Pattern, R"(\p{N}+)", R"([0-9][0-9][0-9])"};

#undef QINFER_CONTRACTIONS
#undef QINFER_UPPER
#undef QINFER_LOWER
#undef QINFER_BEFORE_WORD
#undef QINFER_SPACES
#undef QINFER_BLOOM_WORD
#undef QINFER_NOT_HAN

constexpr bool kNfc = true, kIgnoreMerges = true, kAddBos = true, kAddSeparator = true;

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
    {"modern-bert", kGpt2, kNfc},
    {"jina-es", kGpt2},
    {"jina-de", kGpt2},
    {"jina-v2-es", kGpt2},
    {"jina-v2-de", kGpt2},
    {"jina-v1-en", kGpt2, false, false, false, kAddSeparator},
    {"jina-v2-code", kGpt2, false, false, false, kAddSeparator},
    {"roberta-bpe", kGpt2, false, false, false, kAddSeparator},
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
    {"jina-v5-nano", kLlama3, false, kIgnoreMerges, kAddBos},
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
    {"kormo", kQwen2},
    {"f2llmv2", kQwen2},
    {"grok-2", kQwen2},
    {"ufakzeka", kUfakZeka},
    {"laguna", kLaguna},
    {"seed-coder", kSeedCoder},
    {"minicpm5", kMiniCpm5, false, kIgnoreMerges},
    {"jais-2", kJais2},
    {"exaone-moe", kExaoneMoe},
    {"bailingmoe", kBailing},
    {"bailingmoe2", kBailing},
    {"llada-moe", kBailing},
    {"qwen35", kQwen35, kNfc},
    {"tekken", kTekken, false, kIgnoreMerges, kAddBos},
    {"gpt-4o", kGpt4o},
    {"llama4", kGpt4o},
    {"kanana2", kGpt4o},
    {"minimax-m2", kGpt4o},
    {"talkie", kGpt4o},
    {"granite-embed-multi-97m", kGpt4o, false, kIgnoreMerges},
    {"tiny_aya", kTinyAya},
    {"cohere2moe", kTinyAya},
    {"youtu", kYoutu, false, kIgnoreMerges},
    {"kimi-k2", kKimi},
    {"superbpe", kSuperBpe},
    {"bloom", kBloom},
    {"poro-chat", kBloom},
    {"gpt3-finnish", kBloom},
    {"viking", kViking},
    {"deepseek-v3", kDeepSeekV3},
    {"hunyuan-dense", kDeepSeekV3},
    {"joyai-llm", kDeepSeekV3},
    {"hy_v4", kDeepSeekV3},
    {"spark2_5", kSpark},
    {"deepseek-llm", kDeepSeekLlm},
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
