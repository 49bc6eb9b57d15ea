// See handles.h; and the function that closes a handle.
#include "handles.h"

#include "engine.h"
#include "instance.h"
#include "job.h"

namespace qinfer_node {
namespace {

/// Marks what box() makes. The address is that of this copy of the addon: another one, which a process may have loaded
/// besides, could have boxes of another layout.
napi_type_tag box_tag() {
  static const char here = 0;
  return {0x71696e6665722d62, reinterpret_cast<std::uintptr_t>(&here)};
}

/// The box of a value, or null where it is none.
Box* find_box(napi_env env, napi_value value) {
  const napi_type_tag tag = box_tag();
  bool tagged = false;
  if (type_of(env, value) == napi_external) check(env, napi_check_object_type_tag(env, value, &tag, &tagged));
  void* data = nullptr;
  if (tagged) check(env, napi_get_value_external(env, value, &data));
  return static_cast<Box*>(data);
}

/// The box of a handle of any kind.
Box& any_box_of(napi_env env, napi_value value) {
  Box* const box = find_box(env, value);
  if (box == nullptr) throw_type_error(env, "a handle is expected");
  return *box;
}

}  // namespace

napi_value box(napi_env env, Kind kind, std::shared_ptr<void> object) {
  auto boxed = std::make_unique<Box>(Box{kind, std::move(object)});
  napi_value value = nullptr;
  const auto release = [](napi_env, void* data, void*) { delete static_cast<Box*>(data); };
  check(env, napi_create_external(env, boxed.get(), release, nullptr, &value));
  boxed.release();
  const napi_type_tag tag = box_tag();
  check(env, napi_type_tag_object(env, value, &tag));
  return value;
}

Box& box_of(napi_env env, napi_value value, Kind kind) {
  Box* const box = find_box(env, value);
  if (box == nullptr || box->kind != kind) throw_type_error(env, std::string("a ") + name_of(kind) + " is expected");
  return *box;
}

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::runtime: return "Runtime";
    case Kind::model: return "Model";
    case Kind::cache: return "KvCache";
    case Kind::store: return "KvStore";
    case Kind::session: return "Session";
    case Kind::detokenizer: return "Detokenizer";
    case Kind::reply: return "Reply";
    case Kind::engine: return "Engine";
    case Kind::grammar: return "Grammar";
    case Kind::matcher: return "Matcher";
    case Kind::job: return "call";
  }
  return "handle";
}

void throw_busy(napi_env env) { throw_error(env, QINFER_E_STATE, "another call is using the session", 0); }

std::shared_ptr<Session> idle_session(napi_env env, napi_value value) {
  std::shared_ptr<Session> session = object_of<Session>(env, value);
  if (session->job != nullptr || session->in_callback != 0) throw_busy(env);
  return session;
}

std::shared_ptr<Session> readable_session(napi_env env, napi_value value) {
  std::shared_ptr<Session> session = object_of<Session>(env, value);
  if (session->job != nullptr && session->in_callback == 0) throw_busy(env);
  return session;
}

namespace {

/// close(handle): lets go of the object; nothing the second time. A call that uses the session is cancelled,
/// and the requests of an engine end.
napi_value close_handle(const Args& args) {
  Box& box = any_box_of(args.env, args[0]);
  if (box.kind == Kind::session && box.object != nullptr) {
    if (Job* job = static_cast<Session*>(box.object.get())->job; job != nullptr) job->request_close();
  }
  if (box.kind == Kind::engine && box.object != nullptr) static_cast<Engine*>(box.object.get())->close();
  // What frees the object runs callbacks of ours, which may look at the box.
  const std::shared_ptr<void> object = std::move(box.object);
  return nullptr;
}

napi_value is_closed(const Args& args) {
  napi_value closed = nullptr;
  check(args.env, napi_get_boolean(args.env, any_box_of(args.env, args[0]).object == nullptr, &closed));
  return closed;
}

}  // namespace

void export_handles(napi_env env, napi_value exports) {
  export_all(env, exports, {{"close", entry<close_handle>}, {"isClosed", entry<is_closed>}});
}

}  // namespace qinfer_node
