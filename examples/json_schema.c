/* json_schema.c - text that fulfils a JSON schema, whatever the model would have said: the grammar's hook lets no other
 * token through. Linked with libqinfer_grammar and libqinfer.
 * ./json_schema MODEL_DIRECTORY SCHEMA */
#include <qinfer/qinfer.h>
#include <qinfer/qinfer_grammar.h>
#include <stdio.h>
#include <string.h>

/* A hook for one session. The vocabulary is made once per model and the grammar once per schema, if there are more. */
static int hook_of(const qinfer_model* model, const char* schema, qinfer_logits_hook* hook, qinfer_error* error) {
  qinfer_model_info info = {.struct_size = sizeof info};
  qinfer_grammar_vocab_options tokens = {
      .struct_size = sizeof tokens, .model = model, .token_text = qinfer_token_text, .token_flags = qinfer_token_flags};
  qinfer_grammar_vocab* vocab = NULL;
  qinfer_grammar* grammar = NULL;
  qinfer_grammar_matcher* matcher = NULL;
  int failed = qinfer_model_get_info(model, &info, error);
  tokens.n_tokens = info.n_vocab;
  failed = failed || qinfer_grammar_vocab_create(&tokens, &vocab, error) ||
           qinfer_grammar_compile(vocab, QINFER_GRAMMAR_JSON_SCHEMA, schema, strlen(schema), NULL, &grammar, error) ||
           qinfer_grammar_matcher_create(grammar, &matcher, error) || qinfer_grammar_matcher_hook(matcher, hook, error);
  qinfer_grammar_matcher_free(matcher); /* the hook holds what it needs */
  qinfer_grammar_free(grammar);
  qinfer_grammar_vocab_free(vocab);
  return failed;
}

static int32_t print_text(const char* text, size_t len, qinfer_token token, void* user) {
  (void)token, (void)user;
  return fwrite(text, 1, len, stdout) != len;
}

int main(int argc, char** argv) {
  qinfer_model* model = NULL;
  qinfer_kv_cache* cache = NULL;
  qinfer_session* session = NULL;
  qinfer_logits_hook hook = {.struct_size = sizeof hook};
  qinfer_generate_options options = {.struct_size = sizeof options, .max_tokens = 200, .on_token = print_text};
  qinfer_token tokens[64];
  size_t n = 0;
  qinfer_error error;
  int failed = argc != 3 || qinfer_model_load(NULL, argv[1], NULL, &model, &error) ||
               qinfer_kv_cache_create(model, NULL, &cache, &error) ||
               qinfer_session_create(cache, NULL, &session, &error) || hook_of(model, argv[2], &hook, &error) ||
               qinfer_session_set_logits_hook(session, &hook, &error) ||
               qinfer_tokenize(model, "Lily: ", SIZE_MAX, QINFER_TEXT_ADD_SPECIAL, tokens, 64, &n, &error) ||
               qinfer_session_append(session, tokens, n, &error) || qinfer_generate(session, &options, NULL, &error);
  if (failed) fprintf(stderr, "%s\n", argc != 3 ? "usage: json_schema MODEL_DIRECTORY SCHEMA" : error.message);
  qinfer_session_free(session);
  qinfer_kv_cache_free(cache);
  qinfer_model_free(model);
  return failed;
}
