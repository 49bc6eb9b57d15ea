/* own_sampler.c - a sampler of the host's own: the likeliest token without the letter b, read from the logits and
 * appended. What decides is any function of n_vocab floats.
 * ./own_sampler [MODEL_DIRECTORY] */
#include <qinfer/qinfer.h>
#include <stdio.h>
#include <string.h>

static int is_allowed(const qinfer_model* model, qinfer_token token) {
  size_t n = 0;
  const char* text = qinfer_token_text(model, token, &n);
  return text != NULL && memchr(text, 'b', n) == NULL && memchr(text, 'B', n) == NULL;
}

static qinfer_token choose(const qinfer_model* model, const float* logits, uint32_t n_vocab) {
  qinfer_token best = -1;
  for (qinfer_token token = 0; token < (qinfer_token)n_vocab; ++token)
    if ((best < 0 || logits[token] > logits[best]) && is_allowed(model, token)) best = token;
  return best;
}

int main(int argc, char** argv) {
  qinfer_model* model = NULL;
  qinfer_kv_cache* cache = NULL;
  qinfer_session* session = NULL;
  qinfer_detok* detok = NULL; /* makes whole characters of tokens that may be parts of one */
  qinfer_model_info info = {.struct_size = sizeof info};
  qinfer_token tokens[64];
  char text[1024]; /* max_token_bytes * 3 + 16 always suffices: so this, for tokens of up to 336 bytes */
  size_t n = 0, n_text = 0;
  qinfer_error error;
  int failed = qinfer_model_load(NULL, argc > 1 ? argv[1] : "examples/models/tiny-stories", NULL, &model, &error) ||
               qinfer_model_get_info(model, &info, &error) || qinfer_kv_cache_create(model, NULL, &cache, &error) ||
               qinfer_session_create(cache, NULL, &session, &error) || qinfer_detok_create(model, &detok, &error) ||
               qinfer_tokenize(model, "Once upon a time", SIZE_MAX, 0, tokens, 64, &n, &error) ||
               qinfer_session_append(session, tokens, n, &error);

  for (int i = 0; i < 40 && !failed; ++i) {
    failed = qinfer_eval(&session, 1, NULL, &error) != QINFER_OK;
    if (failed) break;
    const qinfer_token token = choose(model, qinfer_session_logits(session, 0), info.n_vocab);
    if (token < 0 || qinfer_token_flags(model, token) & QINFER_TOKEN_END) break;
    failed = qinfer_session_append(session, &token, 1, &error) ||
             qinfer_detok_push(detok, token, text, sizeof text, &n_text, &error);
    if (!failed) fwrite(text, 1, n_text, stdout);
  }
  if (!failed) puts("");
  if (failed) fprintf(stderr, "%s\n", error.message);

  qinfer_detok_free(detok);
  qinfer_session_free(session);
  qinfer_kv_cache_free(cache);
  qinfer_model_free(model);
  return failed;
}
