// Functions of the addon that take tokens and give text: detokenizers.
#include "handles.h"
#include "instance.h"

namespace qinfer_node {
namespace {

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

}  // namespace

void export_text(napi_env env, napi_value exports) {
  export_all(env, exports,
             {{"detokenize", entry<detokenize>},
              {"detokCreate", entry<detok_create>},
              {"detokPush", entry<detok_push>},
              {"detokFinish", entry<detok_finish>}});
}

}  // namespace qinfer_node
