// WordLevel: a word is the token that is spelled so, or the unknown one.
#pragma once

#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/vocabulary.h"
#include "text/work.h"

namespace qinfer::text {

class WordLevel {
 public:
  /// `unknown`: -1 where a word without a token is an error. `vocabulary` must stay at its address.
  void init(TokenId unknown, const Vocabulary& vocabulary) {
    unknown_ = unknown;
    vocabulary_ = &vocabulary;
  }
  /// Appends the id of `word`. Work::stopped() if there are no more steps for it, Code::unsupported for a word without
  /// a token where there is no unknown token either.
  Status encode(std::string_view word, Work& work, std::vector<TokenId>& out) const {
    if (!work.spend(word.size())) return work.stopped(0);
    const TokenId id = vocabulary_->find_in_model(word).value_or(unknown_);
    if (id < 0)
      return error_at(Code::unsupported, 0,
                      "the tokenizer has no token for a word, and none that stands for unknown ones");
    out.push_back(id);
    return Status();
  }
  TokenId unknown() const { return unknown_; }

 private:
  TokenId unknown_ = -1;
  const Vocabulary* vocabulary_ = nullptr;
};

}  // namespace qinfer::text
