// Binds the operations into the kernel set of the instruction set that this is compiled for.
#include "highway/highway.h"
#include "tiled/make_set.h"

namespace qinfer::kernels::QINFER_ISA {
namespace {

#define QINFER_NAME_OF(isa) #isa
#define QINFER_NAME(isa) QINFER_NAME_OF(isa)
constexpr KernelSet kSet = make_set<F32Products>(QINFER_NAME(QINFER_ISA));

}  // namespace

const KernelSet& kernel_set() { return kSet; }

}  // namespace qinfer::kernels::QINFER_ISA
