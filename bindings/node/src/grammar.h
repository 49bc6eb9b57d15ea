// Grammars of libqinfer_grammar, a separate library: what a model keeps for them, and what a session has of one. The
// header of that library is needed in grammar.cpp alone, since it is not installed where the library was not built.
#pragma once

#include <mutex>

#include "handles.h"

struct qinfer_grammar_vocab;

namespace qinfer_node {

/// The tokens of a model as its grammars need them, made with the first one.
struct Vocabulary {
  std::mutex mutex;
  std::shared_ptr<qinfer_grammar_vocab> handle;  ///< under mutex; null until then
};

/// What frees a model, and keeps its vocabulary: std::get_deleter finds it.
struct FreeModel {
  std::shared_ptr<Vocabulary> vocabulary = std::make_shared<Vocabulary>();
  void operator()(qinfer_model* model) const { qinfer_model_free(model); }
};

struct Matcher {
  std::shared_ptr<qinfer_grammar_matcher> handle;
  bool taken = false;  ///< by a session
};

/// Why the grammar of a session cannot go on.
struct GrammarFailure {
  qinfer_status status = QINFER_OK;
  std::string message;
};
GrammarFailure grammar_failure(const Session& session);

/// Gives a fork a matcher at the place of the session's, if that has one.
void fork_matcher(napi_env env, const Session& session, Session& fork);

}  // namespace qinfer_node
