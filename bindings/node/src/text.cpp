// Functions of the addon that take tokens and give text: detokenizers, and replies that are taken apart.
#include "handles.h"
#include "instance.h"
#include "structs.h"

namespace qinfer_node {
namespace {

constexpr const char* kPartKinds[] = {"none", "content", "reasoning", "call"};

/// Most bytes of text that one push to a detokenizer gives (qinfer_detok_push).
std::size_t detokenizer_room(napi_env env, const qinfer_model* model) {
  qinfer_model_info info = sized<qinfer_model_info>();
  call(env, [&](qinfer_error* err) { return qinfer_model_get_info(model, &info, err); });
  return info.max_token_bytes * std::size_t{3} + 16;
}

std::shared_ptr<qinfer_detok> make_detokenizer(napi_env env, const qinfer_model* model) {
  qinfer_detok* out = nullptr;
  call(env, [&](qinfer_error* err) { return qinfer_detok_create(model, &out, err); });
  return {out, qinfer_detok_free};
}

/// detokenize(model, Int32Array): the text of all of them
napi_value detokenize(const Args& args) {
  const auto model = object_of<qinfer_model>(args.env, args[0]);
  const View<qinfer_token> tokens = tokens_of(args.env, args[1], "tokens");
  const auto detokenizer = make_detokenizer(args.env, model.get());
  std::string room(detokenizer_room(args.env, model.get()), '\0'), out;
  std::size_t n = 0;
  for (std::size_t i = 0; i < tokens.size; ++i) {
    call(args.env, [&](qinfer_error* err) {
      return qinfer_detok_push(detokenizer.get(), tokens.data[i], room.data(), room.size(), &n, err);
    });
    out.append(room, 0, n);
  }
  call(args.env,
       [&](qinfer_error* err) { return qinfer_detok_finish(detokenizer.get(), room.data(), room.size(), &n, err); });
  return text(args.env, out.append(room, 0, n));
}

napi_value detok_create(const Args& args) {
  const auto model = object_of<qinfer_model>(args.env, args[0]);
  return box(args.env, Kind::detokenizer, make_detokenizer(args.env, model.get()));
}

/// detokPush(detokenizer, token): the new whole characters. A capacity that is too small has no effect.
napi_value detok_push(const Args& args) {
  const auto detokenizer = object_of<qinfer_detok>(args.env, args[0]);
  const qinfer_token id = token_of(args.env, args[1]);
  return read_text(args.env, [&](char* data, std::size_t room, std::size_t* n, qinfer_error* err) {
    return qinfer_detok_push(detokenizer.get(), id, data, room, n, err);
  });
}

napi_value detok_finish(const Args& args) {
  const auto detokenizer = object_of<qinfer_detok>(args.env, args[0]);
  return read_text(args.env, [&](char* data, std::size_t room, std::size_t* n, qinfer_error* err) {
    return qinfer_detok_finish(detokenizer.get(), data, room, n, err);
  });
}

/// replyCreate(model, conversation as JSON, options of the prompt)
napi_value reply_create(const Args& args) {
  const auto model = object_of<qinfer_model>(args.env, args[0]);
  const ChatArguments chat(args.env, args[1], args[2]);
  qinfer_reply_options options = sized<qinfer_reply_options>();
  options.chat = &chat.native;
  qinfer_reply* out = nullptr;
  call(args.env, [&](qinfer_error* err) {
    return qinfer_reply_create(model.get(), chat.conversation.data(), chat.conversation.size(), &options, &out, err);
  });
  return box(args.env, Kind::reply, std::shared_ptr<qinfer_reply>(out, qinfer_reply_free));
}

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
  const auto reply = object_of<qinfer_reply>(args.env, args[0]);
  const qinfer_token id = token_of(args.env, args[1]);
  call(args.env, [&](qinfer_error* err) { return qinfer_reply_push(reply.get(), id, err); });
  return next_parts(args.env, reply.get());
}

napi_value reply_finish(const Args& args) {
  const auto reply = object_of<qinfer_reply>(args.env, args[0]);
  call(args.env, [&](qinfer_error* err) { return qinfer_reply_finish(reply.get(), err); });
  return next_parts(args.env, reply.get());
}

/// replyMessage(reply): the message as JSON
napi_value reply_message(const Args& args) {
  const auto reply = object_of<qinfer_reply>(args.env, args[0]);
  return read_text(args.env, [&](char* data, std::size_t room, std::size_t* n, qinfer_error* err) {
    return qinfer_reply_message(reply.get(), data, room, n, err);
  });
}

}  // namespace

void export_text(napi_env env, napi_value exports) {
  export_all(env, exports,
             {{"detokenize", entry<detokenize>},
              {"detokCreate", entry<detok_create>},
              {"detokPush", entry<detok_push>},
              {"detokFinish", entry<detok_finish>},
              {"replyCreate", entry<reply_create>},
              {"replyPush", entry<reply_push>},
              {"replyFinish", entry<reply_finish>},
              {"replyMessage", entry<reply_message>}});
}

}  // namespace qinfer_node
