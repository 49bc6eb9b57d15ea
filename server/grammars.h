// grammars.h: JSON schemas that contents must fulfil, as hooks of sessions. The vocabulary is made with the first one,
// and the last few are kept, since a program sends the same one with each request. Where the server is built without
// libqinfer_grammar a schema is refused.
#pragma once

#include <qinfer/qinfer.hpp>

#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "mutex.h"

struct qinfer_grammar;
struct qinfer_grammar_vocab;

namespace server {

class Grammars {
 public:
  using Compiled = std::shared_ptr<qinfer_grammar>;
  explicit Grammars(const qi::Model& model);
  ~Grammars();
  Grammars(const Grammars&) = delete;
  Grammars& operator=(const Grammars&) = delete;

  /// Throws qi::Error for what no grammar enforces, or Refusal where there are none here.
  Compiled compile(std::string_view schema);
  /// What the session draws from now on fulfils it.
  static void install(const Compiled& grammar, qi::Session& session);

 private:
  Compiled find(std::string_view schema, qinfer_grammar_vocab*& vocab);

  const qi::Model& model_;
  Mutex mutex_;
  qinfer_grammar_vocab* vocab_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::list<std::pair<std::string, Compiled>> last_ ABSL_GUARDED_BY(mutex_);  ///< used last first
};

}  // namespace server
