// See reply.h; and the functions of the addon for replies.
#include "reply.h"

#include "instance.h"

namespace qinfer_node {

Reply::Reply(const Args& args) : model_(object_of<qinfer_model>(args.env, args[0])), chat_(args.env, args[1], args[2]) {
  Options(args.env, args[2]).flag("reasoning", flags_, QINFER_REPLY_NO_REASONING, false);
  native_ = make(args.env);
}

std::shared_ptr<qinfer_reply> Reply::make(napi_env env) const {
  qinfer_reply_options options = sized<qinfer_reply_options>();
  options.chat = &chat_.native;
  options.flags = flags_;
  qinfer_reply* out = nullptr;
  call(env, [&](qinfer_error* err) {
    return qinfer_reply_create(model_.get(), chat_.conversation.data(), chat_.conversation.size(), &options, &out, err);
  });
  return {out, qinfer_reply_free};
}

void Reply::push(napi_env env, qinfer_token token) {
  call(env, [&](qinfer_error* err) { return qinfer_reply_push(native(), token, err); });
  tokens_.push_back(token);
}

void Reply::finish(napi_env env) {
  call(env, [&](qinfer_error* err) { return qinfer_reply_finish(native(), err); });
  finished_ = true;
}

std::shared_ptr<qinfer_reply> Reply::copy(napi_env env) const {
  if (finished_) throw_error(env, QINFER_E_STATE, "the reply is finished", 0);
  std::shared_ptr<qinfer_reply> made = make(env);
  for (const qinfer_token token : tokens_)
    call(env, [&](qinfer_error* err) { return qinfer_reply_push(made.get(), token, err); });
  return made;
}

namespace {

constexpr const char* kPartKinds[] = {"none", "content", "reasoning", "call"};

/// replyCreate(model, conversation as JSON, options of the prompt and of the reply)
napi_value reply_create(const Args& args) { return box(args.env, Kind::reply, std::make_shared<Reply>(args)); }

/// The parts that are certain now.
napi_value next_parts(napi_env env, qinfer_reply* reply) {
  napi_value parts = nullptr;
  check(env, napi_create_array(env, &parts));
  for (std::uint32_t i = 0;; ++i) {
    qinfer_reply_part part = sized<qinfer_reply_part>();
    call(env, [&](qinfer_error* err) { return qinfer_reply_next(reply, &part, err); });
    if (part.kind == QINFER_PART_NONE) return parts;
    const bool known = part.kind > 0 && part.kind < static_cast<std::int32_t>(std::size(kPartKinds));
    Record record(env);
    record.set("kind", known ? kPartKinds[part.kind] : "unknown").set("text", text(env, part.text, part.text_len));
    if (part.kind == QINFER_PART_CALL)
      record.set("name", text(env, part.name, part.name_len)).set("id", part.id).set("call", part.call);
    check(env, napi_set_element(env, parts, i, record.object()));
  }
}

/// replyPush(reply, token): parts
napi_value reply_push(const Args& args) {
  const auto reply = object_of<Reply>(args.env, args[0]);
  reply->push(args.env, token_of(args.env, args[1]));
  return next_parts(args.env, reply->native());
}

/// replyAdd(reply, token): its parts come with those of the next replyPush or replyFinish
napi_value reply_add(const Args& args) {
  const auto reply = object_of<Reply>(args.env, args[0]);
  reply->push(args.env, token_of(args.env, args[1]));
  return nullptr;
}

/// replyFinish(reply): parts
napi_value reply_finish(const Args& args) {
  const auto reply = object_of<Reply>(args.env, args[0]);
  reply->finish(args.env);
  return next_parts(args.env, reply->native());
}

/// replyMessage(reply): the message as JSON
napi_value reply_message(const Args& args) {
  const auto reply = object_of<Reply>(args.env, args[0]);
  return read_text(args.env, [&](char* data, std::size_t room, std::size_t* n, qinfer_error* err) {
    return qinfer_reply_message(reply->native(), data, room, n, err);
  });
}

napi_value reply_in_reasoning(const Args& args) {
  const auto reply = object_of<Reply>(args.env, args[0]);
  std::int32_t inside = 0;
  call(args.env, [&](qinfer_error* err) { return qinfer_reply_in_reasoning(reply->native(), &inside, err); });
  napi_value value = nullptr;
  check(args.env, napi_get_boolean(args.env, inside != 0, &value));
  return value;
}

}  // namespace

void export_reply(napi_env env, napi_value exports) {
  export_all(env, exports,
             {{"replyCreate", entry<reply_create>},
              {"replyPush", entry<reply_push>},
              {"replyAdd", entry<reply_add>},
              {"replyFinish", entry<reply_finish>},
              {"replyMessage", entry<reply_message>},
              {"replyInReasoning", entry<reply_in_reasoning>}});
}

}  // namespace qinfer_node
