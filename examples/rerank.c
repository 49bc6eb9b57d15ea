/* rerank.c - how well each document answers a query, by a model that is trained to tell. What a session has evaluated
 * of one pair it keeps for the next, which begins alike.
 * ./rerank MODEL_DIRECTORY QUERY DOCUMENT DOCUMENT... */
#include <qinfer/qinfer.h>
#include <stdio.h>

int main(int argc, char** argv) {
  qinfer_model* model = NULL;
  qinfer_kv_cache* cache = NULL;
  qinfer_session* session = NULL;
  qinfer_model_info info = {.struct_size = sizeof info};
  qinfer_score_options options = {.struct_size = sizeof options, .flags = QINFER_SCORE_TRUNCATE};
  qinfer_error error;
  if (argc < 4) return fprintf(stderr, "usage: rerank MODEL_DIRECTORY QUERY DOCUMENT DOCUMENT...\n"), 2;
  int failed = qinfer_model_load(NULL, argv[1], NULL, &model, &error) || qinfer_model_get_info(model, &info, &error) ||
               qinfer_kv_cache_create(model, NULL, &cache, &error) ||
               qinfer_session_create(cache, NULL, &session, &error);
  if (!failed &&
      info.scoring == QINFER_SCORING_NONE) { /* its files do not say how it scores: any decoder can be asked */
    options.template_text = "Is it an answer to {query}? It is: {document}\n";
    options.yes = "Yes", options.no = "No";
  }

  for (int i = 3; i < argc && !failed; ++i) {
    float score = 0;
    uint64_t n_cut = 0;
    failed = qinfer_session_set_pair(session, argv[2], SIZE_MAX, argv[i], SIZE_MAX, &options, &n_cut, &error) ||
             qinfer_eval(&session, 1, NULL, &error) || qinfer_session_score(session, &options, &score, &error);
    if (!failed) printf("%.3f %s%s\n", score, argv[i], n_cut != 0 ? " (cut)" : "");
  }
  if (failed) fprintf(stderr, "%s\n", error.message);

  qinfer_session_free(session);
  qinfer_kv_cache_free(cache);
  qinfer_model_free(model);
  return failed;
}
