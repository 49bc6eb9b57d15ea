// What the process holds: each program's own malloc and mmap count it.
#pragma once

namespace qinfer::faults {

long heap_bytes();                    ///< of all blocks that are not freed, 0 where they are not counted
long block_bytes(const void* block);  ///< of one of them
long mapped_bytes();                  ///< mapped less unmapped

}  // namespace qinfer::faults
