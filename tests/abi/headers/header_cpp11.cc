// qinfer.h as a C++11 host sees it, included twice.
#include <qinfer/qinfer.h>

static_assert(sizeof(qinfer_error) == 256, "the layout of qinfer_error is frozen");
