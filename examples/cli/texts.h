// texts.h: what commands over many texts share (embed, rerank): where the texts come from, a model loaded so that it
// takes them, and sessions that are evaluated together.
#pragma once

#include <qinfer/qinfer.hpp>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "options.h"

namespace cli {

/// The words of the command line, or where there are none the lines of a file, "" and "-" being standard input. Lines
/// may end with CR LF. Throws UsageError for both, and for nothing at all.
std::vector<std::string> texts_of(const std::vector<std::string>& words, const std::string& lines_path);

/// Loads a model. An encoder takes a text at once, so it gets room for the longest one that it takes.
qi::Model load_for_texts(qi::Runtime& runtime, const std::string& path);

/// Evaluates texts in groups of sessions, which are used again and again.
class TextBatches {
 public:
  /// `counts`: tokens of each text. `flags`: QINFER_SESSION_*.
  TextBatches(const qi::Model& model, std::vector<std::size_t> counts, std::uint32_t flags);

  /// Calls fill(i, session) for the texts in their order, evaluates some of them together, then done(i, session) for
  /// each.
  void run(const std::function<void(std::size_t, qi::Session&)>& fill,
           const std::function<void(std::size_t, qi::Session&)>& done);

 private:
  std::size_t end_of_group(std::size_t begin) const;

  std::vector<std::size_t> counts_;
  qi::KvCache cache_;
  std::vector<qi::Session> sessions_;
};

}  // namespace cli
