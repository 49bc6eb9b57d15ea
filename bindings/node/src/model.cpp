// Functions of the addon for models that are loaded: what they are, tokens, and chat templates.
#include "handles.h"
#include "instance.h"
#include "structs.h"

namespace qinfer_node {
namespace {

std::shared_ptr<qinfer_model> model_of(const Args& args) { return object_of<qinfer_model>(args.env, args[0]); }

napi_value model_info(const Args& args) {
  const auto model = model_of(args);
  qinfer_model_info info = sized<qinfer_model_info>();
  call(args.env, [&](qinfer_error* err) { return qinfer_model_get_info(model.get(), &info, err); });
  return Record(args.env)
      .set("architecture", info.architecture)
      .set("name", info.name)
      .set("weightFormat", info.weight_format)
      .set("kernelSet", info.kernel_set)
      .set("nParams", info.n_params)
      .set("nActiveParams", info.n_active_params)
      .set("fileBytes", info.file_bytes)
      .set("nVocab", info.n_vocab)
      .set("nLayers", info.n_layers)
      .set("nEmbd", info.n_embd)
      .set("nHeads", info.n_heads)
      .set("nKvHeads", info.n_kv_heads)
      .set("headDim", info.head_dim)
      .set("contextTokens", info.context_tokens)
      .set("maxTokenBytes", info.max_token_bytes)
      .set("bosToken", info.bos_token)
      .set("nExperts", info.n_experts)
      .set("nActiveExperts", info.n_active_experts)
      .set("nExpertLayers", info.n_expert_layers)
      .set("expertFfn", info.expert_ffn)
      .set("embeddingDims", info.embedding_dims)
      .set("embeddingTokens", info.embedding_tokens)
      .set_flag("scores", info.scoring != QINFER_SCORING_NONE)
      .set_flag("encoder", (info.flags & QINFER_MODEL_ENCODER) != 0)
      .set_flag("tiedEmbeddings", (info.flags & QINFER_MODEL_TIED_EMBEDDINGS) != 0)
      .set_flag("tokenizer", (info.flags & QINFER_MODEL_TOKENIZER) != 0)
      .object();
}

napi_value model_memory(const Args& args) {
  const auto model = model_of(args);
  qinfer_memory memory = sized<qinfer_memory>();
  call(args.env, [&](qinfer_error* err) { return qinfer_model_get_memory(model.get(), &memory, err); });
  return memory_object(args.env, memory);
}

napi_value model_metadata(const Args& args) {
  const auto model = model_of(args);
  Record record(args.env);
  for (std::size_t i = 0; i < qinfer_model_meta_count(model.get()); ++i) {
    const char* key = qinfer_model_meta_key(model.get(), i);
    if (key != nullptr) record.set(key, qinfer_model_meta_value(model.get(), key));
  }
  return record.object();
}

/// tokenize(model, text, {special, parseSpecial}): an Int32Array
napi_value tokenize(const Args& args) {
  const auto model = model_of(args);
  const std::string data = text_of(args.env, args[1], "text");
  const Options options(args.env, args[2]);
  std::uint32_t flags = QINFER_TEXT_ADD_SPECIAL;
  if (options.has("special") && !options.truthy("special")) flags = 0;
  options.flag("parseSpecial", flags, QINFER_TEXT_PARSE_SPECIAL);
  const auto read = [&](qinfer_token* tokens, std::size_t room, std::size_t* n, qinfer_error* err) {
    return qinfer_tokenize(model.get(), data.data(), data.size(), flags, tokens, room, n, err);
  };
  return read_tokens(args.env, read, data.size() + 16);
}

/// token(model, token): {id, bytes, control, end}
napi_value token(const Args& args) {
  const auto model = model_of(args);
  const qinfer_token id = token_of(args.env, args[1]);
  std::size_t n = 0;
  const char* found = qinfer_token_text(model.get(), id, &n);
  if (found == nullptr) n = 0;
  const std::uint32_t flags = qinfer_token_flags(model.get(), id);
  void* data = nullptr;
  napi_value buffer = nullptr, bytes = nullptr;
  check(args.env, napi_create_arraybuffer(args.env, n, &data, &buffer));
  for (std::size_t i = 0; i < n; ++i) static_cast<char*>(data)[i] = found[i];
  check(args.env, napi_create_typedarray(args.env, napi_uint8_array, n, buffer, 0, &bytes));
  return Record(args.env)
      .set("id", id)
      .set("bytes", bytes)
      .set_flag("control", (flags & QINFER_TOKEN_CONTROL) != 0)
      .set_flag("end", (flags & QINFER_TOKEN_END) != 0)
      .object();
}

napi_value find_token(const Args& args) {
  const auto model = model_of(args);
  const std::string data = text_of(args.env, args[1], "text");
  qinfer_token found = -1;
  call(args.env,
       [&](qinfer_error* err) { return qinfer_token_find(model.get(), data.data(), data.size(), &found, err); });
  return number(args.env, found);
}

napi_value end_tokens(const Args& args) {
  const auto model = model_of(args);
  return read_tokens(args.env, [&](qinfer_token* tokens, std::size_t room, std::size_t* n, qinfer_error* err) {
    return qinfer_model_end_tokens(model.get(), tokens, room, n, err);
  });
}

/// prompts(model): {name: text}
napi_value prompts(const Args& args) {
  const auto model = model_of(args);
  Record record(args.env);
  for (std::size_t i = 0; const char* name = qinfer_model_prompt_name(model.get(), i); ++i)
    record.set(name, read_text(args.env, [&](char* data, std::size_t room, std::size_t* n, qinfer_error* err) {
                 return qinfer_model_prompt(model.get(), name, data, room, n, err);
               }));
  return record.object();
}

/// defaultPrompt(model): a name, or undefined
napi_value default_prompt(const Args& args) {
  const auto model = model_of(args);
  Record record(args.env);
  return record.set("name", qinfer_model_default_prompt(model.get())).object();
}

/// embeddingTokens(model, text, options): {tokens: Int32Array, cut}
napi_value embedding_tokens(const Args& args) {
  const auto model = model_of(args);
  const std::string data = text_of(args.env, args[1], "text");
  const Options options(args.env, args[2]);
  qinfer_embedding_text_options native = sized<qinfer_embedding_text_options>();
  const std::optional<std::string> name = options.c_text("prompt"), prompt = options.c_text("promptText");
  native.prompt_name = name ? name->c_str() : nullptr;
  native.prompt = prompt ? prompt->c_str() : nullptr;
  options.flag("truncate", native.flags, QINFER_EMBED_TRUNCATE);
  options.flag("parseSpecial", native.flags, QINFER_EMBED_PARSE_SPECIAL);
  options.read("maxTokens", native.max_tokens);
  std::uint64_t cut = 0;
  const auto read = [&](qinfer_token* tokens, std::size_t room, std::size_t* n, qinfer_error* err) {
    return qinfer_embedding_tokenize(model.get(), data.data(), data.size(), &native, tokens, room, n, &cut, err);
  };
  const napi_value tokens = read_tokens(args.env, read, data.size() + 16);
  return Record(args.env).set("tokens", tokens).set("cut", cut).object();
}

/// chatTemplate(model, name or undefined)
napi_value chat_template(const Args& args) {
  const auto model = model_of(args);
  std::optional<std::string> name;
  if (!is_nullish(args.env, args[1])) name = c_text_of(args.env, args[1], "name");
  return read_text(args.env, [&](char* data, std::size_t room, std::size_t* n, qinfer_error* err) {
    return qinfer_model_chat_template(model.get(), name ? name->c_str() : nullptr, data, room, n, err);
  });
}

/// renderChat(model, conversation as JSON, options)
napi_value render_chat(const Args& args) {
  const auto model = model_of(args);
  const ChatArguments chat(args.env, args[1], args[2]);
  const auto read = [&](char* data, std::size_t room, std::size_t* n, qinfer_error* err) {
    return qinfer_chat_render(model.get(), chat.conversation.data(), chat.conversation.size(), &chat.native, data, room,
                              n, nullptr, 0, nullptr, err);
  };
  return read_text(args.env, read, chat.conversation.size() + 1024);
}

/// tokenizeChat(model, conversation as JSON, options): an Int32Array
napi_value tokenize_chat(const Args& args) {
  const auto model = model_of(args);
  const ChatArguments chat(args.env, args[1], args[2]);
  const auto read = [&](qinfer_token* tokens, std::size_t room, std::size_t* n, qinfer_error* err) {
    return qinfer_chat_tokenize(model.get(), chat.conversation.data(), chat.conversation.size(), &chat.native, tokens,
                                room, n, err);
  };
  return read_tokens(args.env, read, chat.conversation.size() + 1024);
}

}  // namespace

void export_model(napi_env env, napi_value exports) {
  export_all(env, exports,
             {{"modelInfo", entry<model_info>},
              {"modelMemory", entry<model_memory>},
              {"modelMetadata", entry<model_metadata>},
              {"tokenize", entry<tokenize>},
              {"token", entry<token>},
              {"findToken", entry<find_token>},
              {"endTokens", entry<end_tokens>},
              {"prompts", entry<prompts>},
              {"defaultPrompt", entry<default_prompt>},
              {"embeddingTokens", entry<embedding_tokens>},
              {"chatTemplate", entry<chat_template>},
              {"renderChat", entry<render_chat>},
              {"tokenizeChat", entry<tokenize_chat>}});
}

}  // namespace qinfer_node
