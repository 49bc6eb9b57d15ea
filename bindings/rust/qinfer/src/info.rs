//! What the library and the machine are.

use crate::error::Error;
use crate::handle::{read_struct, read_text, text_at};
use crate::sys;

/// The version of the library that is loaded, such as `0.2.0`.
pub fn version() -> String {
    // SAFETY: static text.
    unsafe { text_at(sys::qinfer_version_string()) }.into_owned()
}

/// The same as a number: major * 10000 + minor * 100 + patch.
pub fn version_number() -> u32 {
    // SAFETY: no arguments.
    unsafe { sys::qinfer_version() }
}

/// Commit, compiler, flags and kernel sets of the library.
pub fn build_info() -> String {
    // SAFETY: static text.
    unsafe { text_at(sys::qinfer_build_info()) }.into_owned()
}

/// The machine as the library sees it.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuInfo {
    /// Cores that this process may use: affinity mask and cgroup quota.
    pub physical_cores: u32,
    /// The same, counting each thread of a core.
    pub logical_cores: u32,
    /// NUMA nodes.
    pub numa_nodes: u32,
    /// Bytes for each core; 0 = unknown.
    pub l1d_bytes: u64,
    /// Bytes for each core; 0 = unknown.
    pub l2_bytes: u64,
    /// Bytes for each socket; 0 = unknown.
    pub l3_bytes: u64,
    /// As the CPU names itself.
    pub model_name: String,
    /// All that CPU and operating system offer, in words separated by spaces.
    pub features: String,
    /// The kernel set that is chosen by default.
    pub target: String,
}

/// Cores, caches and instruction sets of this machine.
pub fn cpu_info() -> Result<CpuInfo, Error> {
    // SAFETY: out is a struct with its size, and the text has the room that is told.
    let info = read_struct::<sys::qinfer_cpu_info>(|out, error| unsafe {
        sys::qinfer_get_cpu_info(out, error)
    })?;
    let model_name = read_text(64, |text, capacity, n, error| unsafe {
        sys::qinfer_cpu_name(text, capacity, n, error)
    })?;
    let features = read_text(1024, |text, capacity, n, error| unsafe {
        sys::qinfer_cpu_features(text, capacity, n, error)
    })?;
    Ok(CpuInfo {
        physical_cores: info.n_physical_cores,
        logical_cores: info.n_logical_cores,
        numa_nodes: info.n_numa_nodes,
        l1d_bytes: info.l1d_bytes,
        l2_bytes: info.l2_bytes,
        l3_bytes: info.l3_bytes,
        model_name,
        features,
        // SAFETY: a text of the library's own.
        target: unsafe { text_at(info.target) }.into_owned(),
    })
}

/// A kernel set of this library.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelSet {
    /// For [`RuntimeOptions::cpu_target`](crate::RuntimeOptions::cpu_target).
    pub name: String,
    /// Words of [`CpuInfo::features`] that it needs.
    pub cpu_features: String,
    /// Words for [`LoadOptions::weight_format`](crate::LoadOptions::weight_format) in which it holds matrices.
    pub weight_formats: String,
    /// Types of keys and values, in words.
    pub kv_types: String,
    /// `QINFER_KERNELS_*` of [`crate::sys`].
    pub flags: u32,
}

/// The kernel sets of this library, those first that are preferred.
pub fn kernel_sets() -> Result<Vec<KernelSet>, Error> {
    // SAFETY: no arguments.
    let n = unsafe { sys::qinfer_kernel_set_count() };
    (0..n).map(kernel_set).collect()
}

fn kernel_set(index: usize) -> Result<KernelSet, Error> {
    // SAFETY: out is a struct with its size; the texts that it then has are static.
    unsafe {
        let info = read_struct::<sys::qinfer_kernel_set_info>(|out, error| {
            sys::qinfer_kernel_set_get_info(index, out, error)
        })?;
        Ok(KernelSet {
            name: text_at(info.name).into_owned(),
            cpu_features: text_at(info.cpu_features).into_owned(),
            weight_formats: text_at(info.weight_formats).into_owned(),
            kv_types: text_at(info.kv_types).into_owned(),
            flags: info.flags,
        })
    }
}
