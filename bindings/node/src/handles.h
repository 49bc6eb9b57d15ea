// The objects of the library as JavaScript holds them: an external value with a Box, whose object is counted, and a
// type tag that no other addon's values have. A call holds a count of what it uses, so that closing a handle during a
// call frees it when the call is over.
#pragma once

#include <memory>
#include <string>

#include "values.h"

struct qinfer_grammar;          // of libqinfer_grammar, whose header may not be there
struct qinfer_grammar_matcher;  // likewise

namespace qinfer_node {

class Engine;
class Job;
class Hook;
class Reply;
struct Matcher;

enum class Kind { runtime, model, cache, store, session, detokenizer, reply, engine, grammar, matcher, job };

struct Box {
  Kind kind;
  std::shared_ptr<void> object;  ///< null once it is closed
};

/// A session with what keeps it from being used by two calls at once. All members but `handle` belong to the JavaScript
/// thread.
struct Session {
  Session() = default;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() { qinfer_session_free(handle); }

  qinfer_session* handle = nullptr;
  Job* job = nullptr;    ///< the call that uses it
  int in_callback = 0;   ///< callbacks of a call on it that are running: the call waits for them
  Hook* hook = nullptr;  ///< the library's, which releases it
  std::shared_ptr<qinfer_grammar_matcher> matcher;  ///< whose hook it has instead, for the reasons of failures
  Reference raised;                                 ///< by a callback of a call that is no job
};

template <class Object>
constexpr Kind kind_of();
template <>
constexpr Kind kind_of<qinfer_runtime>() {
  return Kind::runtime;
}
template <>
constexpr Kind kind_of<qinfer_model>() {
  return Kind::model;
}
template <>
constexpr Kind kind_of<qinfer_kv_cache>() {
  return Kind::cache;
}
template <>
constexpr Kind kind_of<qinfer_kv_store>() {
  return Kind::store;
}
template <>
constexpr Kind kind_of<Session>() {
  return Kind::session;
}
template <>
constexpr Kind kind_of<qinfer_detok>() {
  return Kind::detokenizer;
}
template <>
constexpr Kind kind_of<Reply>() {
  return Kind::reply;
}
template <>
constexpr Kind kind_of<Engine>() {
  return Kind::engine;
}
template <>
constexpr Kind kind_of<qinfer_grammar>() {
  return Kind::grammar;
}
template <>
constexpr Kind kind_of<Matcher>() {
  return Kind::matcher;
}
template <>
constexpr Kind kind_of<Job>() {
  return Kind::job;
}

/// An external value for an object; null is an error of the caller.
napi_value box(napi_env env, Kind kind, std::shared_ptr<void> object);
Box& box_of(napi_env env, napi_value value, Kind kind);
const char* name_of(Kind kind);

/// The object of a handle. QINFER_E_STATE if it is closed.
template <class Object>
std::shared_ptr<Object> object_of(napi_env env, napi_value value) {
  const Box& box = box_of(env, value, kind_of<Object>());
  if (box.object == nullptr)
    throw_error(env, QINFER_E_STATE, std::string("this ") + name_of(box.kind) + " is closed", 0);
  return std::static_pointer_cast<Object>(box.object);
}

/// A session that no call is using. QINFER_E_STATE otherwise.
std::shared_ptr<Session> idle_session(napi_env env, napi_value value);
/// A session to be read, which callbacks of a call on it may do, too.
std::shared_ptr<Session> readable_session(napi_env env, napi_value value);
[[noreturn]] void throw_busy(napi_env env);

}  // namespace qinfer_node
