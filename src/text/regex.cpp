// See regex.h.
#include "text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>

#include "text/fields.h"
#include "text/regex_dialect.h"
#include "text/utf8.h"

namespace qinfer::text {
namespace {

constexpr std::uint32_t kOptions = PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C;
constexpr std::size_t kMaxPatternBytes = 16384;
constexpr std::uint32_t kHeapLimitKib = 64 * 1024;
/// Steps that any match may take unaccounted. Those that need more, such as a run of a million spaces, draw on the
/// budget of the call, so that a text has a bound on all its matches together.
constexpr std::uint32_t kFreeSteps = 2000;
constexpr std::uint64_t kBudgetBase = 20'000'000;
constexpr std::uint64_t kBudgetPerByte = 64;

Status out_of_memory() { return error(Code::no_memory, "PCRE2 could not allocate memory"); }

}  // namespace

void Pcre2Free::operator()(pcre2_real_code_8* p) const { pcre2_code_free(p); }
void Pcre2Free::operator()(pcre2_real_match_data_8* p) const { pcre2_match_data_free(p); }
void Pcre2Free::operator()(pcre2_real_match_context_8* p) const { pcre2_match_context_free(p); }

Status RegexScratch::prepare(std::size_t text_size) {
  budget_ = kBudgetBase + kBudgetPerByte * text_size;
  if (match_data_ && context_) return Status();
  match_data_.reset(pcre2_match_data_create(1, nullptr));
  context_.reset(pcre2_match_context_create(nullptr));
  if (!match_data_ || !context_) return out_of_memory();
  pcre2_set_heap_limit(context_.get(), kHeapLimitKib);
  return Status();
}

Result<Regex> Regex::compile(std::string_view pattern, std::string_view where) {
  auto rewritten = to_pcre2_dialect(pattern);
  if (!rewritten.ok()) {
    return std::move(rewritten.take_status())
        .with_prefix(fmt::format("{}: the regular expression {}", where, in_quotes(pattern)));
  }
  return build(rewritten.value(), kOptions | PCRE2_MULTILINE, pattern, where);  // ^ and $ match at lines in Oniguruma
}

Result<Regex> Regex::literal(std::string_view text, std::string_view where) {
  // PCRE2_LITERAL refuses the options that only matter to real patterns.
  return build(text, PCRE2_UTF | PCRE2_LITERAL, text, where);
}

Result<Regex> Regex::build(std::string_view pattern, std::uint32_t options, std::string_view original,
                           std::string_view where) {
  struct ContextFree {
    void operator()(pcre2_compile_context* p) const { pcre2_compile_context_free(p); }
  };
  const std::unique_ptr<pcre2_compile_context, ContextFree> context(pcre2_compile_context_create(nullptr));
  if (!context) return out_of_memory();
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_max_pattern_length(context.get(), kMaxPatternBytes);
  int code = 0;
  PCRE2_SIZE offset = 0;
  Regex regex;
  regex.code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), options, &code, &offset,
                                  context.get()));
  if (!regex.code_) {
    PCRE2_UCHAR message[160] = {};
    pcre2_get_error_message(code, message, sizeof message);
    return error(Code::unsupported, "{}: the regular expression {} cannot be used: {}", where, in_quotes(original),
                 reinterpret_cast<const char*>(message));
  }
  // Without a JIT (another CPU, or a system that forbids writable code) pcre2_match interprets instead.
  static_cast<void>(pcre2_jit_compile(regex.code_.get(), PCRE2_JIT_COMPLETE));
  return regex;
}

/// The first match at or after `from`; found.begin is npos if there is none.
Status Regex::match(std::string_view text, std::size_t from, RegexScratch& scratch, Span& found) const {
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  std::uint32_t options = PCRE2_NO_UTF_CHECK;
  std::uint64_t limit = kFreeSteps;
  for (;;) {
    pcre2_set_match_limit(scratch.context_.get(),
                          static_cast<std::uint32_t>(std::min<std::uint64_t>(limit, UINT32_MAX)));
    const int rc = pcre2_match(code_.get(), subject, text.size(), from, options, scratch.match_data_.get(),
                               scratch.context_.get());
    if (rc >= 0) {
      const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(scratch.match_data_.get());
      found = {bounds[0], bounds[1], true};
      return Status();
    }
    if (rc == PCRE2_ERROR_NOMATCH) {
      found.begin = std::string_view::npos;
      return Status();
    }
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT && (options & PCRE2_NO_JIT) == 0) {
      options |= PCRE2_NO_JIT;  // the interpreter keeps its stack on the heap
    } else if (rc == PCRE2_ERROR_MATCHLIMIT && scratch.budget_ > limit) {
      scratch.budget_ -= limit;
      limit = std::min(limit * 16, scratch.budget_);
    } else if (rc == PCRE2_ERROR_NOMEMORY) {
      return out_of_memory();
    } else if (rc == PCRE2_ERROR_MATCHLIMIT || rc == PCRE2_ERROR_HEAPLIMIT || rc == PCRE2_ERROR_DEPTHLIMIT) {
      return error_at(Code::unsupported, static_cast<std::int64_t>(from),
                      "a regular expression of the tokenizer backtracks too much on this text");
    } else {
      return error(Code::internal, "PCRE2 failed with code {}", rc);
    }
  }
}

Status Regex::find_all(std::string_view text, RegexScratch& scratch, std::vector<Span>& spans) const {
  spans.clear();
  std::size_t covered = 0, from = 0;
  bool any = false;  // whether `covered` is the end of a match
  while (from <= text.size()) {
    Span found{};
    QINFER_TRY(match(text, from, scratch, found));
    if (found.begin == std::string_view::npos) break;
    if (found.begin == found.end && any && found.end == covered) {
      from = found.end + (found.end < text.size() ? char_at(text, found.end).size : 1);
      continue;
    }
    if (covered != found.begin) spans.push_back({covered, found.begin, false});
    spans.push_back(found);
    covered = from = found.end;
    any = true;
  }
  if (covered != text.size()) spans.push_back({covered, text.size(), false});
  return Status();
}

}  // namespace qinfer::text
