// See clusters.h. Rules are named as in UAX 29.
#include "text/clusters.h"

#include "text/library_chars.h"
#include "text/utf8.h"

namespace qinfer::text {
namespace {

bool is_control(Cluster c) { return c == Cluster::cr || c == Cluster::lf || c == Cluster::control; }

/// GB6 to GB8: parts of a Hangul syllable.
bool joins_syllable(Cluster a, Cluster b) {
  if (a == Cluster::l) return b == Cluster::l || b == Cluster::v || b == Cluster::lv || b == Cluster::lvt;
  if (a == Cluster::lv || a == Cluster::v) return b == Cluster::v || b == Cluster::t;
  return (a == Cluster::lvt || a == Cluster::t) && b == Cluster::t;
}

/// What of a cluster's characters so far decides about the next.
class ClusterState {
 public:
  explicit ClusterState(LibraryChar first) { add(first); }

  bool joins(LibraryChar next) const {
    const Cluster a = last_, b = next.cluster();
    if (a == Cluster::cr && b == Cluster::lf) return true;                                                // GB3
    if (is_control(a) || is_control(b)) return false;                                                     // GB4, 5
    if (joins_syllable(a, b)) return true;                                                                // GB6-8
    if (b == Cluster::extend || b == Cluster::zwj || b == Cluster::spacing_mark) return true;             // GB9, 9a
    if (a == Cluster::prepend) return true;                                                               // GB9b
    if (linked_ && next.conjunct() == Conjunct::consonant) return true;                                   // GB9c
    if (picture_joiner_ && b == Cluster::pictographic) return true;                                       // GB11
    return a == Cluster::regional_indicator && b == Cluster::regional_indicator && indicators_ % 2 == 1;  // GB12
  }

  void add(LibraryChar next) {
    last_ = next.cluster();
    switch (next.conjunct()) {
      case Conjunct::none: consonant_ = linked_ = false; break;
      case Conjunct::consonant:
        consonant_ = true;
        linked_ = false;
        break;
      case Conjunct::linker: linked_ = consonant_; break;
      case Conjunct::extend: break;
    }
    picture_joiner_ = picture_ && last_ == Cluster::zwj;
    picture_ = last_ == Cluster::pictographic || (picture_ && last_ == Cluster::extend);
    indicators_ += last_ == Cluster::regional_indicator ? 1U : 0U;
  }

 private:
  Cluster last_ = Cluster::other;
  bool consonant_ = false, linked_ = false;        // a consonant, and a linker after it
  bool picture_ = false, picture_joiner_ = false;  // a picture, and a joiner after it
  unsigned indicators_ = 0;
};

}  // namespace

std::size_t cluster_end(std::string_view text, std::size_t begin) {
  const Char first = char_at(text, begin);
  std::size_t end = begin + first.size;
  if (end == text.size()) return end;
  if (first.code < 0x80 && static_cast<std::uint8_t>(text[end]) < 0x80 && first.code != '\r') return end;
  ClusterState state{LibraryChar(first.code)};
  while (end < text.size()) {
    const Char c = char_at(text, end);
    const LibraryChar next(c.code);
    if (!state.joins(next)) break;
    state.add(next);
    end += c.size;
  }
  return end;
}

}  // namespace qinfer::text
