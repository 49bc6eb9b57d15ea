/* qinfer.h as a C99 host sees it, included twice. */
#include <qinfer/qinfer.h>

extern uint32_t check_c99(void);
uint32_t check_c99(void) { return QINFER_VERSION + (uint32_t)sizeof(qinfer_error); }
