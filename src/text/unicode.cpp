// See unicode.h.
#include "text/unicode.h"

#include <algorithm>

namespace qinfer::text {
namespace {

constexpr std::string_view kCategoryNames[] = {"Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd",
                                               "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm",
                                               "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co"};

}  // namespace

std::optional<KindSet> find_category(std::string_view name) {
  if (name.empty()) return std::nullopt;
  KindSet kinds = 0;
  for (unsigned i = 0; i < std::size(kCategoryNames); ++i)
    if (kCategoryNames[i].starts_with(name)) kinds |= kinds_of(static_cast<Category>(i));
  return kinds != 0 ? std::optional<KindSet>(kinds) : std::nullopt;
}

std::optional<std::span<const CharRange>> find_script(std::string_view name) {
  for (std::size_t i = 0; i < kScriptCount; ++i)
    if (kScripts[i].name == name) return std::span(kScriptRanges + kScripts[i].first, kScripts[i].count);
  return std::nullopt;
}

char32_t fold_case(char32_t code) {
  const CaseFold* end = kCaseFolds + kCaseFoldCount;
  const CaseFold* at =
      std::lower_bound(kCaseFolds, end, code, [](const CaseFold& fold, char32_t c) { return fold.from < c; });
  return at != end && at->from == code ? at->to : code;
}

}  // namespace qinfer::text
