// XXH3 as inline functions: what snapshots have their checksums from.
#pragma once

#define XXH_INLINE_ALL
#include <xxhash.h>
