// texts.cpp: see texts.h.
#include "texts.h"

#include <algorithm>
#include <utility>

#include "support.h"

namespace cli {
namespace {

constexpr std::size_t kMostSessions = 16, kMostTokens = 4096, kTokensOfBlock = 32;

/// Room for any group: the longest text, or as many tokens as a group has, and a block that is not full for each.
qi::KvCache cache_for(const qi::Model& model, const std::vector<std::size_t>& counts) {
  auto options = qi::options<qinfer_kv_cache_options>();
  options.block_tokens = kTokensOfBlock;
  const std::size_t longest = *std::max_element(counts.begin(), counts.end());
  options.budget_blocks = std::max(longest, kMostTokens) / kTokensOfBlock + 2 * kMostSessions;
  return qi::KvCache(model, options);
}

}  // namespace

std::vector<std::string> texts_of(const std::vector<std::string>& words, const std::string& lines_path) {
  if (!words.empty() && !lines_path.empty()) throw UsageError("both texts and --lines: give one of them");
  if (!words.empty()) return words;
  const std::string all = read_file(lines_path.empty() ? "-" : lines_path);
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t end = std::min(all.find('\n', at), all.size());
    lines.push_back(all.substr(at, end - at));
    if (!lines.back().empty() && lines.back().back() == '\r') lines.back().pop_back();
    at = end + 1;
  }
  if (lines.empty()) throw UsageError("there are no texts: give some, or lines of a file");
  return lines;
}

qi::Model load_for_texts(qi::Runtime& runtime, const std::string& path) {
  auto options = qi::options<qinfer_load_options>();
  const qi::ModelDetails details = qi::inspect(path);
  constexpr std::uint32_t kUsual = 512, kMost = 8192;
  if ((details.flags & QINFER_MODEL_ENCODER) != 0)
    options.max_batch_tokens = std::clamp(details.context_tokens, kUsual, kMost);
  return load_model(runtime, path, options);
}

TextBatches::TextBatches(const qi::Model& model, std::vector<std::size_t> counts, std::uint32_t flags)
    : counts_(std::move(counts)), cache_(cache_for(model, counts_)) {
  auto options = qi::options<qinfer_session_options>();
  options.flags = flags;
  options.max_tokens = static_cast<std::uint32_t>(*std::max_element(counts_.begin(), counts_.end()));
  const std::size_t n = std::min(kMostSessions, counts_.size());
  for (std::size_t i = 0; i < n; ++i) sessions_.emplace_back(cache_, options);
}

std::size_t TextBatches::end_of_group(std::size_t begin) const {
  std::size_t tokens = counts_[begin], end = begin + 1;
  while (end < counts_.size() && end - begin < sessions_.size() && tokens + counts_[end] <= kMostTokens)
    tokens += counts_[end++];
  return end;
}

void TextBatches::run(const std::function<void(std::size_t, qi::Session&)>& fill,
                      const std::function<void(std::size_t, qi::Session&)>& done) {
  for (std::size_t begin = 0; begin < counts_.size();) {
    const std::size_t end = end_of_group(begin);
    std::vector<qi::Session*> group;
    for (std::size_t i = begin; i < end; ++i) {
      fill(i, sessions_[i - begin]);
      group.push_back(&sessions_[i - begin]);
    }
    for (std::size_t i = end - begin; i < sessions_.size(); ++i) sessions_[i].truncate(0);  // gives back its blocks
    const bool is_ready = std::all_of(group.begin(), group.end(), [](const auto* one) { return one->pending() == 0; });
    if (!is_ready) qi::eval(group);
    for (std::size_t i = begin; i < end; ++i) done(i, sessions_[i - begin]);
    begin = end;
  }
}

}  // namespace cli
