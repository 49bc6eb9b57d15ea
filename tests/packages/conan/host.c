/* A host of the Conan package: it asks for the version, and for a model that is not there. */
#include <qinfer/qinfer.h>
#include <stdio.h>

int main(void) {
  qinfer_model* model;
  qinfer_error error;
  printf("qinfer %s\n", qinfer_version_string());
  return qinfer_version() != QINFER_VERSION ||
         qinfer_model_load(NULL, "no/such/model", NULL, &model, &error) != QINFER_E_NOT_FOUND;
}
