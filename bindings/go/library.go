// The library as a whole: version, build, CPU.

package qinfer

// #cgo pkg-config: qinfer
// #include "trampolines.h"
import "C"

import "unsafe"

// Version is the version of the library that is loaded, such as "0.2.0".
func Version() string {
	return C.GoString(C.qinfer_version_string())
}

// BuildInfo tells commit, compiler, flags and kernel sets of the library.
func BuildInfo() string {
	return C.GoString(C.qinfer_build_info())
}

// CPUInfo describes this machine, as far as this process may use it.
type CPUInfo struct {
	PhysicalCores, LogicalCores int // usable: affinity mask and cgroup quota
	NumaNodes                   int
	L1dBytes, L2Bytes, L3Bytes  uint64 // per core, per core, per socket; 0 = unknown
	ModelName                   string // as the CPU names itself
	Features                    string // words separated by spaces
	Target                      string // the kernel set that is chosen by default
}

// GetCPUInfo looks at the CPU.
func GetCPUInfo() (CPUInfo, error) {
	var info C.qinfer_cpu_info
	info.struct_size = C.uint32_t(unsafe.Sizeof(info))
	err := call(func(e *C.qinfer_error) C.qinfer_status { return C.qinfer_get_cpu_info(&info, e) })
	if err != nil {
		return CPUInfo{}, err
	}
	features, err := readText(512, func(text *C.char, capacity C.size_t, n *C.size_t) error {
		return call(func(e *C.qinfer_error) C.qinfer_status { return C.qinfer_cpu_features(text, capacity, n, e) })
	})
	if err != nil {
		return CPUInfo{}, err
	}
	name, err := readText(64, func(text *C.char, capacity C.size_t, n *C.size_t) error {
		return call(func(e *C.qinfer_error) C.qinfer_status { return C.qinfer_cpu_name(text, capacity, n, e) })
	})
	return CPUInfo{
		PhysicalCores: int(info.n_physical_cores), LogicalCores: int(info.n_logical_cores),
		NumaNodes: int(info.n_numa_nodes),
		L1dBytes:  uint64(info.l1d_bytes), L2Bytes: uint64(info.l2_bytes), L3Bytes: uint64(info.l3_bytes),
		ModelName: name, Features: features, Target: C.GoString(info.target),
	}, err
}
