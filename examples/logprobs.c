/* logprobs.c - log probabilities: of each token of a text under the model, the perplexity that they make, and, of
 * tokens that are drawn, their own and those of the likeliest tokens in their places.
 * ./logprobs MODEL_DIRECTORY */
#include <math.h>
#include <qinfer/qinfer.h>
#include <stdio.h>

enum { TOKENS = 64, TOP = 3 };
static const char story[] = "Once upon a time, there was a little boy named Tim. He had a big red ball.";

static void print_token(const qinfer_model* model, qinfer_token token, double logprob) {
  size_t n = 0;
  const char* text = qinfer_token_text(model, token, &n);
  printf(" \"%.*s\" %.3f", (int)n, text, logprob);
}

static int32_t show(const qinfer_token_info* info, void* user) {
  if (info->token < 0) return 0; /* text that was held back, after the last token */
  fputs("drawn:", stdout);
  print_token(user, info->token, info->logprob);
  fputs(" of", stdout);
  for (uint32_t i = 0; i < info->n_top; ++i) print_token(user, info->top_tokens[i], info->top_logprobs[i]);
  return puts("") < 0;
}

int main(int argc, char** argv) {
  qinfer_model* model = NULL;
  qinfer_kv_cache* cache = NULL;
  qinfer_session* session = NULL;
  qinfer_token tokens[TOKENS];
  size_t n = 0;
  double logprob = 0, sum = 0;
  /* a row of logits for each token: n_vocab floats of memory for each of max_logits */
  qinfer_session_options limits = {.struct_size = sizeof limits, .max_tokens = 128, .max_logits = TOKENS};
  qinfer_eval_options keep = {.struct_size = sizeof keep, .keep_logits = TOKENS};
  qinfer_sampler_options sampler = {.struct_size = sizeof sampler, .temperature = 1.0f, .seed = 1};
  qinfer_error error;
  int failed = argc != 2 || qinfer_model_load(NULL, argv[1], NULL, &model, &error) ||
               qinfer_kv_cache_create(model, NULL, &cache, &error) ||
               qinfer_session_create(cache, &limits, &session, &error) ||
               qinfer_tokenize(model, story, SIZE_MAX, 0, tokens, TOKENS, &n, &error) ||
               qinfer_session_append(session, tokens, n, &error) || qinfer_eval(&session, 1, &keep, &error);
  /* the row after token i - 1 tells how likely token i was; the newest row has the number 0 */
  for (size_t i = 1; i < n && !failed; ++i) {
    failed = qinfer_session_logprobs(session, n - i, &tokens[i], 1, &logprob, &error) != QINFER_OK;
    if (!failed) fputs("prompt:", stdout), print_token(model, tokens[i], logprob), puts(""), sum += logprob;
  }
  if (!failed) printf("perplexity %.3f\n", exp(-sum / (double)(n - 1)));
  qinfer_generate_options options = {
      .struct_size = sizeof options, .max_tokens = 3, .on_token_info = show, .user = model, .n_top = TOP};
  failed = failed || qinfer_session_set_sampler(session, &sampler, &error) ||
           qinfer_generate(session, &options, NULL, &error);
  if (failed) fprintf(stderr, "%s\n", argc != 2 ? "usage: logprobs MODEL_DIRECTORY" : error.message);
  qinfer_session_free(session), qinfer_kv_cache_free(cache), qinfer_model_free(model);
  return failed;
}
