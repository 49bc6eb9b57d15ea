//! The declarations of qinfer.h, made out of it by generate.sh. Do not edit.
#![allow(missing_docs, non_camel_case_types, rustdoc::all, clippy::all)]

pub const QINFER_VERSION_MAJOR: u32 = 0;
pub const QINFER_VERSION_MINOR: u32 = 2;
pub const QINFER_VERSION_PATCH: u32 = 0;
pub const QINFER_VERSION: u32 = 200;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct qinfer_runtime {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct qinfer_model {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct qinfer_detok {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct qinfer_kv_cache {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct qinfer_session {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct qinfer_cancel {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct qinfer_reply {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct qinfer_generation {
    _unused: [u8; 0],
}
pub type qinfer_token = i32;
pub type qinfer_status = i32;
pub const QINFER_OK: i32 = 0;
pub const QINFER_E_INTERNAL: i32 = -1;
pub const QINFER_E_INVALID_ARGUMENT: i32 = -2;
pub const QINFER_E_STATE: i32 = -3;
pub const QINFER_E_UNSUPPORTED: i32 = -4;
pub const QINFER_E_NO_MEMORY: i32 = -5;
pub const QINFER_E_IO: i32 = -6;
pub const QINFER_E_NOT_FOUND: i32 = -7;
pub const QINFER_E_FORMAT: i32 = -8;
pub const QINFER_E_BUFFER_TOO_SMALL: i32 = -9;
pub const QINFER_E_KV_FULL: i32 = -10;
pub const QINFER_E_CONTEXT_FULL: i32 = -11;
pub const QINFER_E_CANCELLED: i32 = -12;
pub const QINFER_E_NUMERIC: i32 = -13;
#[doc = " Filled when a call fails, untouched otherwise; needs no initialisation. Layout frozen. Messages do not depend on the\n  locale."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct qinfer_error {
    pub code: qinfer_status,
    pub reserved: i32,
    pub detail: i64,
    pub message: [::core::ffi::c_char; 240usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of qinfer_error"][::core::mem::size_of::<qinfer_error>() - 256usize];
    ["Alignment of qinfer_error"][::core::mem::align_of::<qinfer_error>() - 8usize];
    ["Offset of field: qinfer_error::code"][::core::mem::offset_of!(qinfer_error, code) - 0usize];
    ["Offset of field: qinfer_error::reserved"]
        [::core::mem::offset_of!(qinfer_error, reserved) - 4usize];
    ["Offset of field: qinfer_error::detail"]
        [::core::mem::offset_of!(qinfer_error, detail) - 8usize];
    ["Offset of field: qinfer_error::message"]
        [::core::mem::offset_of!(qinfer_error, message) - 16usize];
};
impl Default for qinfer_error {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[doc = " An error with a buffer of the caller for the whole message."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct qinfer_full_error {
    pub struct_size: u32,
    pub reserved: u32,
    pub error: qinfer_error,
    pub text: *mut ::core::ffi::c_char,
    pub capacity: usize,
    pub text_len: usize,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of qinfer_full_error"][::core::mem::size_of::<qinfer_full_error>() - 288usize];
    ["Alignment of qinfer_full_error"][::core::mem::align_of::<qinfer_full_error>() - 8usize];
    ["Offset of field: qinfer_full_error::struct_size"]
        [::core::mem::offset_of!(qinfer_full_error, struct_size) - 0usize];
    ["Offset of field: qinfer_full_error::reserved"]
        [::core::mem::offset_of!(qinfer_full_error, reserved) - 4usize];
    ["Offset of field: qinfer_full_error::error"]
        [::core::mem::offset_of!(qinfer_full_error, error) - 8usize];
    ["Offset of field: qinfer_full_error::text"]
        [::core::mem::offset_of!(qinfer_full_error, text) - 264usize];
    ["Offset of field: qinfer_full_error::capacity"]
        [::core::mem::offset_of!(qinfer_full_error, capacity) - 272usize];
    ["Offset of field: qinfer_full_error::text_len"]
        [::core::mem::offset_of!(qinfer_full_error, text_len) - 280usize];
};
impl Default for qinfer_full_error {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
pub const QINFER_LOG_ERROR: u32 = 1;
pub const QINFER_LOG_WARN: u32 = 2;
pub const QINFER_LOG_INFO: u32 = 3;
pub const QINFER_LOG_DEBUG: u32 = 4;
#[doc = " One complete line without newline, valid during the call."]
pub type qinfer_log_fn = ::core::option::Option<
    unsafe extern "C" fn(
        level: i32,
        line: *const ::core::ffi::c_char,
        line_len: usize,
        user: *mut ::core::ffi::c_void,
    ),
>;
#[doc = " Called about every 16 MiB and once at the end. Return nonzero to cancel."]
pub type qinfer_progress_fn = ::core::option::Option<
    unsafe extern "C" fn(done_bytes: u64, total_bytes: u64, user: *mut ::core::ffi::c_void) -> i32,
>;
#[doc = " After each token, with the new whole characters (maybe none). Text that was held back comes after the last token,\n  with token -1. Return nonzero to stop."]
pub type qinfer_token_fn = ::core::option::Option<
    unsafe extern "C" fn(
        text: *const ::core::ffi::c_char,
        text_len: usize,
        token: qinfer_token,
        user: *mut ::core::ffi::c_void,
    ) -> i32,
>;
pub const QINFER_FILE_READ: u32 = 1;
pub const QINFER_FILE_WRITE: u32 = 2;
#[doc = " Callbacks that take the place of the operating system's files, so that models and snapshots can come from an\n  archive, an encrypted store or memory. The struct is copied.\n\n  Names    The library hands a `path` argument to open as it is, \"\" too. If open finds it, it is one file (a packed\n           model, a snapshot), otherwise a directory, whose files are asked for as \"<path>/config.json\" (without the\n           slash where path is empty or ends with one). Nothing is listed. Names are borrowed during the call.\n  Results  0, or a QINFER_E_* status that the call then returns, with a message that names the file.\n           QINFER_E_NOT_FOUND from open means that there is no such file. From another callback it becomes\n           QINFER_E_IO, and so do QINFER_E_INTERNAL and values that are no status. After a failure nothing is called\n           for that file but unmap and close.\n  Threads  Called on the thread that makes the call, one at a time for each call of the library; calls on several\n           threads use the same callbacks at once. unmap and close of a mapped model are called on the thread that\n           frees the last handle that uses it. A callback may do what the rules at the top allow (Threads), which\n           includes opening other files through the same callbacks.\n  Lifetime user is borrowed until the call returns or, if a model was loaded with map, until the model and all that\n           depends on it are freed. Each file opened is closed exactly once, after its unmap, and nothing is called\n           after that.\n  Locking  The host must prevent two calls that write to one file at once, or write and read it."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct qinfer_files {
    pub struct_size: u32,
    pub reserved: u32,
    pub user: *mut ::core::ffi::c_void,
    #[doc = " mode: QINFER_FILE_*; *out_file may be anything, NULL too."]
    pub open: ::core::option::Option<
        unsafe extern "C" fn(
            name: *const ::core::ffi::c_char,
            mode: i32,
            out_file: *mut *mut ::core::ffi::c_void,
            user: *mut ::core::ffi::c_void,
        ) -> qinfer_status,
    >,
    #[doc = " Once, after opening; at most 2^63 - 1."]
    pub size: ::core::option::Option<
        unsafe extern "C" fn(
            file: *mut ::core::ffi::c_void,
            out_bytes: *mut u64,
            user: *mut ::core::ffi::c_void,
        ) -> qinfer_status,
    >,
    #[doc = " All n bytes, or fail. Never asks for bytes beyond the size, which writes may have grown."]
    pub read_at: ::core::option::Option<
        unsafe extern "C" fn(
            file: *mut ::core::ffi::c_void,
            offset: u64,
            data: *mut ::core::ffi::c_void,
            n: usize,
            user: *mut ::core::ffi::c_void,
        ) -> qinfer_status,
    >,
    #[doc = " The file is closed whatever it returns; a failure counts only where the file was written to."]
    pub close: ::core::option::Option<
        unsafe extern "C" fn(
            file: *mut ::core::ffi::c_void,
            user: *mut ::core::ffi::c_void,
        ) -> qinfer_status,
    >,
    #[doc = " Models, optional: without map weights are read into private memory, as under QINFER_LOAD_NO_MMAP. Gives the\n  whole file, read-only, at a multiple of 64 (else QINFER_E_UNSUPPORTED); any thread of the runtime reads it until\n  unmap. The library neither locks nor advises its pages: QINFER_LOAD_LOCK is QINFER_E_UNSUPPORTED."]
    pub map: ::core::option::Option<
        unsafe extern "C" fn(
            file: *mut ::core::ffi::c_void,
            n_bytes: u64,
            out_data: *mut *const ::core::ffi::c_void,
            user: *mut ::core::ffi::c_void,
        ) -> qinfer_status,
    >,
    pub unmap: ::core::option::Option<
        unsafe extern "C" fn(
            file: *mut ::core::ffi::c_void,
            data: *const ::core::ffi::c_void,
            n_bytes: u64,
            user: *mut ::core::ffi::c_void,
        ),
    >,
    #[doc = " Snapshots: writes all n bytes. Beyond the end the file grows, and bytes in between may read as anything. When\n  the process or the machine stops while a snapshot is saved, each write since the last sync may be there, in part\n  or not at all; those before the sync must be whole. The next load then finds the old state or the new one, or\n  QINFER_E_NOT_FOUND in a new file that has neither."]
    pub write_at: ::core::option::Option<
        unsafe extern "C" fn(
            file: *mut ::core::ffi::c_void,
            offset: u64,
            data: *const ::core::ffi::c_void,
            n: usize,
            user: *mut ::core::ffi::c_void,
        ) -> qinfer_status,
    >,
    pub sync: ::core::option::Option<
        unsafe extern "C" fn(
            file: *mut ::core::ffi::c_void,
            user: *mut ::core::ffi::c_void,
        ) -> qinfer_status,
    >,
    #[doc = " Optional: cuts off what is of no use any more."]
    pub truncate: ::core::option::Option<
        unsafe extern "C" fn(
            file: *mut ::core::ffi::c_void,
            n_bytes: u64,
            user: *mut ::core::ffi::c_void,
        ) -> qinfer_status,
    >,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of qinfer_files"][::core::mem::size_of::<qinfer_files>() - 88usize];
    ["Alignment of qinfer_files"][::core::mem::align_of::<qinfer_files>() - 8usize];
    ["Offset of field: qinfer_files::struct_size"]
        [::core::mem::offset_of!(qinfer_files, struct_size) - 0usize];
    ["Offset of field: qinfer_files::reserved"]
        [::core::mem::offset_of!(qinfer_files, reserved) - 4usize];
    ["Offset of field: qinfer_files::user"][::core::mem::offset_of!(qinfer_files, user) - 8usize];
    ["Offset of field: qinfer_files::open"][::core::mem::offset_of!(qinfer_files, open) - 16usize];
    ["Offset of field: qinfer_files::size"][::core::mem::offset_of!(qinfer_files, size) - 24usize];
    ["Offset of field: qinfer_files::read_at"]
        [::core::mem::offset_of!(qinfer_files, read_at) - 32usize];
    ["Offset of field: qinfer_files::close"]
        [::core::mem::offset_of!(qinfer_files, close) - 40usize];
    ["Offset of field: qinfer_files::map"][::core::mem::offset_of!(qinfer_files, map) - 48usize];
    ["Offset of field: qinfer_files::unmap"]
        [::core::mem::offset_of!(qinfer_files, unmap) - 56usize];
    ["Offset of field: qinfer_files::write_at"]
        [::core::mem::offset_of!(qinfer_files, write_at) - 64usize];
    ["Offset of field: qinfer_files::sync"][::core::mem::offset_of!(qinfer_files, sync) - 72usize];
    ["Offset of field: qinfer_files::truncate"]
        [::core::mem::offset_of!(qinfer_files, truncate) - 80usize];
};
impl Default for qinfer_files {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct qinfer_cpu_info {
    pub struct_size: u32,
    pub n_physical_cores: u32,
    pub n_logical_cores: u32,
    pub n_numa_nodes: u32,
    pub l1d_bytes: u64,
    pub l2_bytes: u64,
    pub l3_bytes: u64,
    pub target: *const ::core::ffi::c_char,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of qinfer_cpu_info"][::core::mem::size_of::<qinfer_cpu_info>() - 48usize];
    ["Alignment of qinfer_cpu_info"][::core::mem::align_of::<qinfer_cpu_info>() - 8usize];
    ["Offset of field: qinfer_cpu_info::struct_size"]
        [::core::mem::offset_of!(qinfer_cpu_info, struct_size) - 0usize];
    ["Offset of field: qinfer_cpu_info::n_physical_cores"]
        [::core::mem::offset_of!(qinfer_cpu_info, n_physical_cores) - 4usize];
    ["Offset of field: qinfer_cpu_info::n_logical_cores"]
        [::core::mem::offset_of!(qinfer_cpu_info, n_logical_cores) - 8usize];
    ["Offset of field: qinfer_cpu_info::n_numa_nodes"]
        [::core::mem::offset_of!(qinfer_cpu_info, n_numa_nodes) - 12usize];
    ["Offset of field: qinfer_cpu_info::l1d_bytes"]
        [::core::mem::offset_of!(qinfer_cpu_info, l1d_bytes) - 16usize];
    ["Offset of field: qinfer_cpu_info::l2_bytes"]
        [::core::mem::offset_of!(qinfer_cpu_info, l2_bytes) - 24usize];
    ["Offset of field: qinfer_cpu_info::l3_bytes"]
        [::core::mem::offset_of!(qinfer_cpu_info, l3_bytes) - 32usize];
    ["Offset of field: qinfer_cpu_info::target"]
        [::core::mem::offset_of!(qinfer_cpu_info, target) - 40usize];
};
impl Default for qinfer_cpu_info {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
pub const QINFER_KERNELS_USABLE: u32 = 1;
pub const QINFER_KERNELS_DEFAULT: u32 = 2;
pub const QINFER_KERNELS_EXACT: u32 = 4;
pub const QINFER_KERNELS_INVARIANT: u32 = 16;
pub const QINFER_KERNELS_HELD_EXACTLY: u32 = 32;
pub const QINFER_KERNELS_HELD_PLAIN: u32 = 64;
pub const QINFER_KERNELS_QUANTISED: u32 = 128;
#[doc = " The kernel sets of this library, the preferred ones first.\n  USABLE        This CPU and system have all that the set needs.\n  DEFAULT       Runs models of any kind where cpu_target is NULL.\n  EXACT         Can be used under QINFER_RUNTIME_EXACT.\n  HELD_EXACTLY  Preferred over the DEFAULT for models that it stores losslessly, and for encoders also where it rounds\n                plain weights, if it is usable and comes before the DEFAULT. qinfer_model_info.kernel_set says which\n                of them a model runs on.\n  HELD_PLAIN    The same for such of these models as have no quantised matrix, or none but in Q8_0, which are packed\n                for it while they are loaded, as with QINFER_LOAD_PACK. As cpu_target it uses a bf16 checkpoint where\n                the file is mapped.\n  QUANTISED     Preferred over the DEFAULT, under the same conditions, for models with quantised matrices.\n  INVARIANT     A token's logits do not depend on how many tokens are evaluated with it: so in all sets."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct qinfer_kernel_set_info {
    pub struct_size: u32,
    pub flags: u32,
    pub name: *const ::core::ffi::c_char,
    pub cpu_features: *const ::core::ffi::c_char,
    pub weight_formats: *const ::core::ffi::c_char,
    pub kv_types: *const ::core::ffi::c_char,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of qinfer_kernel_set_info"][::core::mem::size_of::<qinfer_kernel_set_info>() - 40usize];
    ["Alignment of qinfer_kernel_set_info"]
        [::core::mem::align_of::<qinfer_kernel_set_info>() - 8usize];
    ["Offset of field: qinfer_kernel_set_info::struct_size"]
        [::core::mem::offset_of!(qinfer_kernel_set_info, struct_size) - 0usize];
    ["Offset of field: qinfer_kernel_set_info::flags"]
        [::core::mem::offset_of!(qinfer_kernel_set_info, flags) - 4usize];
    ["Offset of field: qinfer_kernel_set_info::name"]
        [::core::mem::offset_of!(qinfer_kernel_set_info, name) - 8usize];
    ["Offset of field: qinfer_kernel_set_info::cpu_features"]
        [::core::mem::offset_of!(qinfer_kernel_set_info, cpu_features) - 16usize];
    ["Offset of field: qinfer_kernel_set_info::weight_formats"]
        [::core::mem::offset_of!(qinfer_kernel_set_info, weight_formats) - 24usize];
    ["Offset of field: qinfer_kernel_set_info::kv_types"]
        [::core::mem::offset_of!(qinfer_kernel_set_info, kv_types) - 32usize];
};
impl Default for qinfer_kernel_set_info {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[doc = " Host memory for weights, KV blocks and scratch; small bookkeeping uses the C++ heap."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct qinfer_allocator {
    pub struct_size: u32,
    pub reserved: u32,
    pub alloc: ::core::option::Option<
        unsafe extern "C" fn(
            size: usize,
            alignment: usize,
            user: *mut ::core::ffi::c_void,
        ) -> *mut ::core::ffi::c_void,
    >,
    pub release: ::core::option::Option<
        unsafe extern "C" fn(
            ptr: *mut ::core::ffi::c_void,
            size: usize,
            alignment: usize,
            user: *mut ::core::ffi::c_void,
        ),
    >,
    pub user: *mut ::core::ffi::c_void,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of qinfer_allocator"][::core::mem::size_of::<qinfer_allocator>() - 32usize];
    ["Alignment of qinfer_allocator"][::core::mem::align_of::<qinfer_allocator>() - 8usize];
    ["Offset of field: qinfer_allocator::struct_size"]
        [::core::mem::offset_of!(qinfer_allocator, struct_size) - 0usize];
    ["Offset of field: qinfer_allocator::reserved"]
        [::core::mem::offset_of!(qinfer_allocator, reserved) - 4usize];
    ["Offset of field: qinfer_allocator::alloc"]
        [::core::mem::offset_of!(qinfer_allocator, alloc) - 8usize];
    ["Offset of field: qinfer_allocator::release"]
        [::core::mem::offset_of!(qinfer_allocator, release) - 16usize];
    ["Offset of field: qinfer_allocator::user"]
        [::core::mem::offset_of!(qinfer_allocator, user) - 24usize];
};
impl Default for qinfer_allocator {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[doc = " A part of what is computed."]
pub type qinfer_task_fn =
    ::core::option::Option<unsafe extern "C" fn(index: u32, context: *mut ::core::ffi::c_void)>;
#[doc = " Threads of a host that has a pool already, instead of threads of the runtime. The struct is copied.\n\n  run calls task(i, context) exactly once for each i below n, on any threads, in any order, one after another if need\n  be, and returns when all have returned. A task never waits for another one and calls nothing of the host. run is\n  called a few times for each layer of a model and must return normally; calls come one at a time, from the thread\n  that makes a call of the library. The bits are those of any number of threads."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct qinfer_executor {
    pub struct_size: u32,
    pub n_tasks: u32,
    pub run: ::core::option::Option<
        unsafe extern "C" fn(
            n: u32,
            task: qinfer_task_fn,
            context: *mut ::core::ffi::c_void,
            user: *mut ::core::ffi::c_void,
        ),
    >,
    pub user: *mut ::core::ffi::c_void,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of qinfer_executor"][::core::mem::size_of::<qinfer_executor>() - 24usize];
    ["Alignment of qinfer_executor"][::core::mem::align_of::<qinfer_executor>() - 8usize];
    ["Offset of field: qinfer_executor::struct_size"]
        [::core::mem::offset_of!(qinfer_executor, struct_size) - 0usize];
    ["Offset of field: qinfer_executor::n_tasks"]
        [::core::mem::offset_of!(qinfer_executor, n_tasks) - 4usize];
    ["Offset of field: qinfer_executor::run"]
        [::core::mem::offset_of!(qinfer_executor, run) - 8usize];
    ["Offset of field: qinfer_executor::user"]
        [::core::mem::offset_of!(qinfer_executor, user) - 16usize];
};
impl Default for qinfer_executor {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
pub const QINFER_RUNTIME_EXACT: u32 = 1;
pub const QINFER_RUNTIME_NORMAL_PAGES: u32 = 2;
pub const QINFER_RUNTIME_NO_TILES: u32 = 4;
#[doc = " For one target and precision a token's logits do not depend on batch, chunking, threads or block size. The AMX targets\n  leave no tiles behind. Tiles that a host had loaded are lost in a call, as in any call by the x86-64 ABI."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct qinfer_runtime_options {
    pub struct_size: u32,
    pub n_threads: u32,
    pub spin_us: u32,
    pub log_level: i32,
    pub log: qinfer_log_fn,
    pub log_user: *mut ::core::ffi::c_void,
    pub cpu_ids: *const u32,
    pub n_cpu_ids: u32,
    pub flags: u32,
    pub cpu_target: *const ::core::ffi::c_char,
    pub allocator: *const qinfer_allocator,
    pub executor: *const qinfer_executor,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of qinfer_runtime_options"][::core::mem::size_of::<qinfer_runtime_options>() - 72usize];
    ["Alignment of qinfer_runtime_options"]
        [::core::mem::align_of::<qinfer_runtime_options>() - 8usize];
    ["Offset of field: qinfer_runtime_options::struct_size"]
        [::core::mem::offset_of!(qinfer_runtime_options, struct_size) - 0usize];
    ["Offset of field: qinfer_runtime_options::n_threads"]
        [::core::mem::offset_of!(qinfer_runtime_options, n_threads) - 4usize];
    ["Offset of field: qinfer_runtime_options::spin_us"]
        [::core::mem::offset_of!(qinfer_runtime_options, spin_us) - 8usize];
    ["Offset of field: qinfer_runtime_options::log_level"]
        [::core::mem::offset_of!(qinfer_runtime_options, log_level) - 12usize];
    ["Offset of field: qinfer_runtime_options::log"]
        [::core::mem::offset_of!(qinfer_runtime_options, log) - 16usize];
    ["Offset of field: qinfer_runtime_options::log_user"]
        [::core::mem::offset_of!(qinfer_runtime_options, log_user) - 24usize];
    ["Offset of field: qinfer_runtime_options::cpu_ids"]
        [::core::mem::offset_of!(qinfer_runtime_options, cpu_ids) - 32usize];
    ["Offset of field: qinfer_runtime_options::n_cpu_ids"]
        [::core::mem::offset_of!(qinfer_runtime_options, n_cpu_ids) - 40usize];
    ["Offset of field: qinfer_runtime_options::flags"]
        [::core::mem::offset_of!(qinfer_runtime_options, flags) - 44usize];
    ["Offset of field: qinfer_runtime_options::cpu_target"]
        [::core::mem::offset_of!(qinfer_runtime_options, cpu_target) - 48usize];
    ["Offset of field: qinfer_runtime_options::allocator"]
        [::core::mem::offset_of!(qinfer_runtime_options, allocator) - 56usize];
    ["Offset of field: qinfer_runtime_options::executor"]
        [::core::mem::offset_of!(qinfer_runtime_options, executor) - 64usize];
};
impl Default for qinfer_runtime_options {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct qinfer_runtime_info {
    pub struct_size: u32,
    pub n_threads: u32,
    pub target: *const ::core::ffi::c_char,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of qinfer_runtime_info"][::core::mem::size_of::<qinfer_runtime_info>() - 16usize];
    ["Alignment of qinfer_runtime_info"][::core::mem::align_of::<qinfer_runtime_info>() - 8usize];
    ["Offset of field: qinfer_runtime_info::struct_size"]
        [::core::mem::offset_of!(qinfer_runtime_info, struct_size) - 0usize];
    ["Offset of field: qinfer_runtime_info::n_threads"]
        [::core::mem::offset_of!(qinfer_runtime_info, n_threads) - 4usize];
    ["Offset of field: qinfer_runtime_info::target"]
        [::core::mem::offset_of!(qinfer_runtime_info, target) - 8usize];
};
impl Default for qinfer_runtime_info {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
pub const QINFER_LOAD_NO_WEIGHTS: u32 = 1;
pub const QINFER_LOAD_NO_MMAP: u32 = 2;
pub const QINFER_LOAD_LOCK: u32 = 4;
pub const QINFER_LOAD_VERIFY: u32 = 8;
pub const QINFER_LOAD_EMBED_ROWS: u32 = 16;
pub const QINFER_LOAD_BUDGET_PRIVATE: u32 = 32;
pub const QINFER_LOAD_PACK: u32 = 64;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct qinfer_load_options {
    pub struct_size: u32,
    pub flags: u32,
    pub max_batch_tokens: u32,
    pub reserved: u32,
    pub memory_budget_bytes: u64,
    pub weight_format: *const ::core::ffi::c_char,
    pub progress: qinfer_progress_fn,
    pub progress_user: *mut ::core::ffi::c_void,
    pub cancel: *const qinfer_cancel,
    pub packed_path: *const ::core::ffi::c_char,
    pub files: *const qinfer_files,
    #[doc = " Tokens that sessions will have at most; 0 = any. It matters to models whose rotary embedding has two sets of\n  factors (longrope: Phi-3.5, Phi-4-mini): up to the context before scaling the short ones are taken, and\n  context_tokens is that context; otherwise the long ones, at all lengths. Snapshots of one are not the other's.\n  qinfer_model_pack and qinfer_model_export_gguf keep both, and want 0"]
    pub max_context: u32,
    #[doc = " Tokens that sessions will have at most; 0 = any. It matters to models whose rotary embedding has two sets of\n  factors (longrope: Phi-3.5, Phi-4-mini): up to the context before scaling the short ones are taken, and\n  context_tokens is that context; otherwise the long ones, at all lengths. Snapshots of one are not the other's.\n  qinfer_model_pack and qinfer_model_export_gguf keep both, and want 0"]
    pub reserved2: u32,
    #[doc = " A stage: layers first_layer to first_layer + n_layers - 1 alone (n_layers 0 = to the last one), of a decoder that\n  more than one process or machine holds a part of. Weights of other layers are not read. A stage with layers\n  before it takes hidden states (qinfer_eval_options.hidden_in), one with layers after it gives some (hidden_out),\n  and only the last one gives logits; sessions of all stages get the same tokens. With one kernel set throughout\n  the bits are those of the whole model. Stages have no QINFER_CACHE_PREFIX, max_draft or scheduler.\n  qinfer_model_pack and qinfer_model_export_gguf want 0; a packed model can be loaded in stages"]
    pub first_layer: u32,
    #[doc = " A stage: layers first_layer to first_layer + n_layers - 1 alone (n_layers 0 = to the last one), of a decoder that\n  more than one process or machine holds a part of. Weights of other layers are not read. A stage with layers\n  before it takes hidden states (qinfer_eval_options.hidden_in), one with layers after it gives some (hidden_out),\n  and only the last one gives logits; sessions of all stages get the same tokens. With one kernel set throughout\n  the bits are those of the whole model. Stages have no QINFER_CACHE_PREFIX, max_draft or scheduler.\n  qinfer_model_pack and qinfer_model_export_gguf want 0; a packed model can be loaded in stages"]
    pub n_layers: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of qinfer_load_options"][::core::mem::size_of::<qinfer_load_options>() - 88usize];
    ["Alignment of qinfer_load_options"][::core::mem::align_of::<qinfer_load_options>() - 8usize];
    ["Offset of field: qinfer_load_options::struct_size"]
        [::core::mem::offset_of!(qinfer_load_options, struct_size) - 0usize];
    ["Offset of field: qinfer_load_options::flags"]
        [::core::mem::offset_of!(qinfer_load_options, flags) - 4usize];
    ["Offset of field: qinfer_load_options::max_batch_tokens"]
        [::core::mem::offset_of!(qinfer_load_options, max_batch_tokens) - 8usize];
    ["Offset of field: qinfer_load_options::reserved"]
        [::core::mem::offset_of!(qinfer_load_options, reserved) - 12usize];
    ["Offset of field: qinfer_load_options::memory_budget_bytes"]
        [::core::mem::offset_of!(qinfer_load_options, memory_budget_bytes) - 16usize];
    ["Offset of field: qinfer_load_options::weight_format"]
        [::core::mem::offset_of!(qinfer_load_options, weight_format) - 24usize];
    ["Offset of field: qinfer_load_options::progress"]
        [::core::mem::offset_of!(qinfer_load_options, progress) - 32usize];
    ["Offset of field: qinfer_load_options::progress_user"]
        [::core::mem::offset_of!(qinfer_load_options, progress_user) - 40usize];
    ["Offset of field: qinfer_load_options::cancel"]
        [::core::mem::offset_of!(qinfer_load_options, cancel) - 48usize];
    ["Offset of field: qinfer_load_options::packed_path"]
        [::core::mem::offset_of!(qinfer_load_options, packed_path) - 56usize];
    ["Offset of field: qinfer_load_options::files"]
        [::core::mem::offset_of!(qinfer_load_options, files) - 64usize];
    ["Offset of field: qinfer_load_options::max_context"]
        [::core::mem::offset_of!(qinfer_load_options, max_context) - 72usize];
    ["Offset of field: qinfer_load_options::reserved2"]
        [::core::mem::offset_of!(qinfer_load_options, reserved2) - 76usize];
    ["Offset of field: qinfer_load_options::first_layer"]
        [::core::mem::offset_of!(qinfer_load_options, first_layer) - 80usize];
    ["Offset of field: qinfer_load_options::n_layers"]
        [::core::mem::offset_of!(qinfer_load_options, n_layers) - 84usize];
};
impl Default for qinfer_load_options {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
pub const QINFER_KV_DEFAULT: u32 = 0;
pub const QINFER_KV_F32: u32 = 1;
pub const QINFER_KV_F16: u32 = 2;
pub const QINFER_KV_BF16: u32 = 3;
pub const QINFER_CACHE_PREFIX: u32 = 1;
pub const QINFER_CACHE_COMMIT: u32 = 2;
pub const QINFER_CACHE_CONTIGUOUS: u32 = 4;
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct qinfer_kv_cache_options {
    pub struct_size: u32,
    pub flags: u32,
    pub kv_type: i32,
    pub block_tokens: u32,
    pub budget_bytes: u64,
    pub budget_blocks: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of qinfer_kv_cache_options"]
        [::core::mem::size_of::<qinfer_kv_cache_options>() - 32usize];
    ["Alignment of qinfer_kv_cache_options"]
        [::core::mem::align_of::<qinfer_kv_cache_options>() - 8usize];
    ["Offset of field: qinfer_kv_cache_options::struct_size"]
        [::core::mem::offset_of!(qinfer_kv_cache_options, struct_size) - 0usize];
    ["Offset of field: qinfer_kv_cache_options::flags"]
        [::core::mem::offset_of!(qinfer_kv_cache_options, flags) - 4usize];
    ["Offset of field: qinfer_kv_cache_options::kv_type"]
        [::core::mem::offset_of!(qinfer_kv_cache_options, kv_type) - 8usize];
    ["Offset of field: qinfer_kv_cache_options::block_tokens"]
        [::core::mem::offset_of!(qinfer_kv_cache_options, block_tokens) - 12usize];
    ["Offset of field: qinfer_kv_cache_options::budget_bytes"]
        [::core::mem::offset_of!(qinfer_kv_cache_options, budget_bytes) - 16usize];
    ["Offset of field: qinfer_kv_cache_options::budget_blocks"]
        [::core::mem::offset_of!(qinfer_kv_cache_options, budget_blocks) - 24usize];
};
pub const QINFER_SESSION_EMBEDDINGS: u32 = 1;
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct qinfer_session_options {
    pub struct_size: u32,
    pub flags: u32,
    pub max_tokens: u32,
    pub max_logits: u32,
    #[doc = " Tokens that generations guess ahead, at most 16; 0 = none. What followed the last tokens where they occurred\n  before in the session is evaluated along with the last one, as often and as far as it has paid so far (an\n  evaluation of a few rows takes hardly longer than that of one): text that repeats earlier text, like edits of\n  it, is several times faster. Tokens, text, log probabilities and all that calls tell of the session are the same\n  as without. Takes memory for so many rows of logits, and between two steps guesses may hold a block more of the\n  cache."]
    pub max_draft: u32,
    #[doc = " With QINFER_CACHE_PREFIX only sessions of the same number find what others have evaluated: where users must not\n  learn from qinfer_metrics, or from the time that it takes, what others have sent, each has one."]
    pub prefix_space: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of qinfer_session_options"][::core::mem::size_of::<qinfer_session_options>() - 24usize];
    ["Alignment of qinfer_session_options"]
        [::core::mem::align_of::<qinfer_session_options>() - 4usize];
    ["Offset of field: qinfer_session_options::struct_size"]
        [::core::mem::offset_of!(qinfer_session_options, struct_size) - 0usize];
    ["Offset of field: qinfer_session_options::flags"]
        [::core::mem::offset_of!(qinfer_session_options, flags) - 4usize];
    ["Offset of field: qinfer_session_options::max_tokens"]
        [::core::mem::offset_of!(qinfer_session_options, max_tokens) - 8usize];
    ["Offset of field: qinfer_session_options::max_logits"]
        [::core::mem::offset_of!(qinfer_session_options, max_logits) - 12usize];
    ["Offset of field: qinfer_session_options::max_draft"]
        [::core::mem::offset_of!(qinfer_session_options, max_draft) - 16usize];
    ["Offset of field: qinfer_session_options::prefix_space"]
        [::core::mem::offset_of!(qinfer_session_options, prefix_space) - 20usize];
};
#[doc = " Bytes, as planned or as in use: for equal options the two agree exactly."]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct qinfer_memory {
    pub struct_size: u32,
    pub reserved: u32,
    pub weights_mapped: u64,
    pub weights_private: u64,
    pub tables: u64,
    pub scratch: u64,
    pub kv_per_block: u64,
    pub kv_cache_bytes: u64,
    pub per_session: u64,
    pub load_peak: u64,
    pub total: u64,
    pub kv_lists: u64,
    pub kv_per_token: u64,
    pub kv_per_session: u64,
    pub system_limit: u64,
    pub system_available: u64,
    pub active_weight_bytes: u64,
    pub expert_weight_bytes: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of qinfer_memory"][::core::mem::size_of::<qinfer_memory>() - 136usize];
    ["Alignment of qinfer_memory"][::core::mem::align_of::<qinfer_memory>() - 8usize];
    ["Offset of field: qinfer_memory::struct_size"]
        [::core::mem::offset_of!(qinfer_memory, struct_size) - 0usize];
    ["Offset of field: qinfer_memory::reserved"]
        [::core::mem::offset_of!(qinfer_memory, reserved) - 4usize];
    ["Offset of field: qinfer_memory::weights_mapped"]
        [::core::mem::offset_of!(qinfer_memory, weights_mapped) - 8usize];
    ["Offset of field: qinfer_memory::weights_private"]
        [::core::mem::offset_of!(qinfer_memory, weights_private) - 16usize];
    ["Offset of field: qinfer_memory::tables"]
        [::core::mem::offset_of!(qinfer_memory, tables) - 24usize];
    ["Offset of field: qinfer_memory::scratch"]
        [::core::mem::offset_of!(qinfer_memory, scratch) - 32usize];
    ["Offset of field: qinfer_memory::kv_per_block"]
        [::core::mem::offset_of!(qinfer_memory, kv_per_block) - 40usize];
    ["Offset of field: qinfer_memory::kv_cache_bytes"]
        [::core::mem::offset_of!(qinfer_memory, kv_cache_bytes) - 48usize];
    ["Offset of field: qinfer_memory::per_session"]
        [::core::mem::offset_of!(qinfer_memory, per_session) - 56usize];
    ["Offset of field: qinfer_memory::load_peak"]
        [::core::mem::offset_of!(qinfer_memory, load_peak) - 64usize];
    ["Offset of field: qinfer_memory::total"]
        [::core::mem::offset_of!(qinfer_memory, total) - 72usize];
    ["Offset of field: qinfer_memory::kv_lists"]
        [::core::mem::offset_of!(qinfer_memory, kv_lists) - 80usize];
    ["Offset of field: qinfer_memory::kv_per_token"]
        [::core::mem::offset_of!(qinfer_memory, kv_per_token) - 88usize];
    ["Offset of field: qinfer_memory::kv_per_session"]
        [::core::mem::offset_of!(qinfer_memory, kv_per_session) - 96usize];
    ["Offset of field: qinfer_memory::system_limit"]
        [::core::mem::offset_of!(qinfer_memory, system_limit) - 104usize];
    ["Offset of field: qinfer_memory::system_available"]
        [::core::mem::offset_of!(qinfer_memory, system_available) - 112usize];
    ["Offset of field: qinfer_memory::active_weight_bytes"]
        [::core::mem::offset_of!(qinfer_memory, active_weight_bytes) - 120usize];
    ["Offset of field: qinfer_memory::expert_weight_bytes"]
        [::core::mem::offset_of!(qinfer_memory, expert_weight_bytes) - 128usize];
};
#[doc = " What the headers of a model say."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct qinfer_model_details {
    pub struct_size: u32,
    pub flags: u32,
    pub architecture: *const ::core::ffi::c_char,
    pub name: *const ::core::ffi::c_char,
    pub weight_types: *const ::core::ffi::c_char,
    pub n_params: u64,
    pub n_active_params: u64,
    pub file_bytes: u64,
    pub n_vocab: u32,
    pub n_layers: u32,
    pub n_window_layers: u32,
    pub window_tokens: u32,
    pub n_embd: u32,
    pub n_ffn: u32,
    pub n_heads: u32,
    pub n_kv_heads: u32,
    pub head_dim: u32,
    pub context_tokens: u32,
    pub max_token_bytes: u32,
    pub bos_token: qinfer_token,
    pub n_experts: u32,
    pub n_active_experts: u32,
    pub n_expert_layers: u32,
    pub expert_ffn: u32,
    pub shared_ffn: u32,
    pub reserved: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of qinfer_model_details"][::core::mem::size_of::<qinfer_model_details>() - 128usize];
    ["Alignment of qinfer_model_details"][::core::mem::align_of::<qinfer_model_details>() - 8usize];
    ["Offset of field: qinfer_model_details::struct_size"]
        [::core::mem::offset_of!(qinfer_model_details, struct_size) - 0usize];
    ["Offset of field: qinfer_model_details::flags"]
        [::core::mem::offset_of!(qinfer_model_details, flags) - 4usize];
    ["Offset of field: qinfer_model_details::architecture"]
        [::core::mem::offset_of!(qinfer_model_details, architecture) - 8usize];
    ["Offset of field: qinfer_model_details::name"]
        [::core::mem::offset_of!(qinfer_model_details, name) - 16usize];
    ["Offset of field: qinfer_model_details::weight_types"]
        [::core::mem::offset_of!(qinfer_model_details, weight_types) - 24usize];
    ["Offset of field: qinfer_model_details::n_params"]
        [::core::mem::offset_of!(qinfer_model_details, n_params) - 32usize];
    ["Offset of field: qinfer_model_details::n_active_params"]
        [::core::mem::offset_of!(qinfer_model_details, n_active_params) - 40usize];
    ["Offset of field: qinfer_model_details::file_bytes"]
        [::core::mem::offset_of!(qinfer_model_details, file_bytes) - 48usize];
    ["Offset of field: qinfer_model_details::n_vocab"]
        [::core::mem::offset_of!(qinfer_model_details, n_vocab) - 56usize];
    ["Offset of field: qinfer_model_details::n_layers"]
        [::core::mem::offset_of!(qinfer_model_details, n_layers) - 60usize];
    ["Offset of field: qinfer_model_details::n_window_layers"]
        [::core::mem::offset_of!(qinfer_model_details, n_window_layers) - 64usize];
    ["Offset of field: qinfer_model_details::window_tokens"]
        [::core::mem::offset_of!(qinfer_model_details, window_tokens) - 68usize];
    ["Offset of field: qinfer_model_details::n_embd"]
        [::core::mem::offset_of!(qinfer_model_details, n_embd) - 72usize];
    ["Offset of field: qinfer_model_details::n_ffn"]
        [::core::mem::offset_of!(qinfer_model_details, n_ffn) - 76usize];
    ["Offset of field: qinfer_model_details::n_heads"]
        [::core::mem::offset_of!(qinfer_model_details, n_heads) - 80usize];
    ["Offset of field: qinfer_model_details::n_kv_heads"]
        [::core::mem::offset_of!(qinfer_model_details, n_kv_heads) - 84usize];
    ["Offset of field: qinfer_model_details::head_dim"]
        [::core::mem::offset_of!(qinfer_model_details, head_dim) - 88usize];
    ["Offset of field: qinfer_model_details::context_tokens"]
        [::core::mem::offset_of!(qinfer_model_details, context_tokens) - 92usize];
    ["Offset of field: qinfer_model_details::max_token_bytes"]
        [::core::mem::offset_of!(qinfer_model_details, max_token_bytes) - 96usize];
    ["Offset of field: qinfer_model_details::bos_token"]
        [::core::mem::offset_of!(qinfer_model_details, bos_token) - 100usize];
    ["Offset of field: qinfer_model_details::n_experts"]
        [::core::mem::offset_of!(qinfer_model_details, n_experts) - 104usize];
    ["Offset of field: qinfer_model_details::n_active_experts"]
        [::core::mem::offset_of!(qinfer_model_details, n_active_experts) - 108usize];
    ["Offset of field: qinfer_model_details::n_expert_layers"]
        [::core::mem::offset_of!(qinfer_model_details, n_expert_layers) - 112usize];
    ["Offset of field: qinfer_model_details::expert_ffn"]
        [::core::mem::offset_of!(qinfer_model_details, expert_ffn) - 116usize];
    ["Offset of field: qinfer_model_details::shared_ffn"]
        [::core::mem::offset_of!(qinfer_model_details, shared_ffn) - 120usize];
    ["Offset of field: qinfer_model_details::reserved"]
        [::core::mem::offset_of!(qinfer_model_details, reserved) - 124usize];
};
impl Default for qinfer_model_details {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
pub const QINFER_MODEL_ENCODER: u32 = 1;
pub const QINFER_MODEL_TIED_EMBEDDINGS: u32 = 2;
pub const QINFER_MODEL_TOKENIZER: u32 = 4;
pub const QINFER_MODEL_PACKED: u32 = 8;
pub const QINFER_MODEL_NO_LM_HEAD: u32 = 16;
pub const QINFER_MODEL_TAKES_HIDDEN: u32 = 32;
pub const QINFER_MODEL_GIVES_HIDDEN: u32 = 64;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct qinfer_model_info {
    pub struct_size: u32,
    pub flags: u32,
    pub architecture: *const ::core::ffi::c_char,
    pub name: *const ::core::ffi::c_char,
    pub weight_format: *const ::core::ffi::c_char,
    pub n_params: u64,
    pub file_bytes: u64,
    pub n_vocab: u32,
    pub n_layers: u32,
    pub n_embd: u32,
    pub n_heads: u32,
    pub n_kv_heads: u32,
    pub head_dim: u32,
    pub context_tokens: u32,
    pub max_token_bytes: u32,
    pub bos_token: qinfer_token,
    pub reserved: u32,
    pub n_active_params: u64,
    pub n_experts: u32,
    pub n_active_experts: u32,
    pub n_expert_layers: u32,
    pub expert_ffn: u32,
    pub kernel_set: *const ::core::ffi::c_char,
    pub embedding_dims: u32,
    pub embedding_tokens: u32,
    pub pooling: i32,
    pub scoring: i32,
    pub first_layer: u32,
    pub n_model_layers: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of qinfer_model_info"][::core::mem::size_of::<qinfer_model_info>() - 144usize];
    ["Alignment of qinfer_model_info"][::core::mem::align_of::<qinfer_model_info>() - 8usize];
    ["Offset of field: qinfer_model_info::struct_size"]
        [::core::mem::offset_of!(qinfer_model_info, struct_size) - 0usize];
    ["Offset of field: qinfer_model_info::flags"]
        [::core::mem::offset_of!(qinfer_model_info, flags) - 4usize];
    ["Offset of field: qinfer_model_info::architecture"]
        [::core::mem::offset_of!(qinfer_model_info, architecture) - 8usize];
    ["Offset of field: qinfer_model_info::name"]
        [::core::mem::offset_of!(qinfer_model_info, name) - 16usize];
    ["Offset of field: qinfer_model_info::weight_format"]
        [::core::mem::offset_of!(qinfer_model_info, weight_format) - 24usize];
    ["Offset of field: qinfer_model_info::n_params"]
        [::core::mem::offset_of!(qinfer_model_info, n_params) - 32usize];
    ["Offset of field: qinfer_model_info::file_bytes"]
        [::core::mem::offset_of!(qinfer_model_info, file_bytes) - 40usize];
    ["Offset of field: qinfer_model_info::n_vocab"]
        [::core::mem::offset_of!(qinfer_model_info, n_vocab) - 48usize];
    ["Offset of field: qinfer_model_info::n_layers"]
        [::core::mem::offset_of!(qinfer_model_info, n_layers) - 52usize];
    ["Offset of field: qinfer_model_info::n_embd"]
        [::core::mem::offset_of!(qinfer_model_info, n_embd) - 56usize];
    ["Offset of field: qinfer_model_info::n_heads"]
        [::core::mem::offset_of!(qinfer_model_info, n_heads) - 60usize];
    ["Offset of field: qinfer_model_info::n_kv_heads"]
        [::core::mem::offset_of!(qinfer_model_info, n_kv_heads) - 64usize];
    ["Offset of field: qinfer_model_info::head_dim"]
        [::core::mem::offset_of!(qinfer_model_info, head_dim) - 68usize];
    ["Offset of field: qinfer_model_info::context_tokens"]
        [::core::mem::offset_of!(qinfer_model_info, context_tokens) - 72usize];
    ["Offset of field: qinfer_model_info::max_token_bytes"]
        [::core::mem::offset_of!(qinfer_model_info, max_token_bytes) - 76usize];
    ["Offset of field: qinfer_model_info::bos_token"]
        [::core::mem::offset_of!(qinfer_model_info, bos_token) - 80usize];
    ["Offset of field: qinfer_model_info::reserved"]
        [::core::mem::offset_of!(qinfer_model_info, reserved) - 84usize];
    ["Offset of field: qinfer_model_info::n_active_params"]
        [::core::mem::offset_of!(qinfer_model_info, n_active_params) - 88usize];
    ["Offset of field: qinfer_model_info::n_experts"]
        [::core::mem::offset_of!(qinfer_model_info, n_experts) - 96usize];
    ["Offset of field: qinfer_model_info::n_active_experts"]
        [::core::mem::offset_of!(qinfer_model_info, n_active_experts) - 100usize];
    ["Offset of field: qinfer_model_info::n_expert_layers"]
        [::core::mem::offset_of!(qinfer_model_info, n_expert_layers) - 104usize];
    ["Offset of field: qinfer_model_info::expert_ffn"]
        [::core::mem::offset_of!(qinfer_model_info, expert_ffn) - 108usize];
    ["Offset of field: qinfer_model_info::kernel_set"]
        [::core::mem::offset_of!(qinfer_model_info, kernel_set) - 112usize];
    ["Offset of field: qinfer_model_info::embedding_dims"]
        [::core::mem::offset_of!(qinfer_model_info, embedding_dims) - 120usize];
    ["Offset of field: qinfer_model_info::embedding_tokens"]
        [::core::mem::offset_of!(qinfer_model_info, embedding_tokens) - 124usize];
    ["Offset of field: qinfer_model_info::pooling"]
        [::core::mem::offset_of!(qinfer_model_info, pooling) - 128usize];
    ["Offset of field: qinfer_model_info::scoring"]
        [::core::mem::offset_of!(qinfer_model_info, scoring) - 132usize];
    ["Offset of field: qinfer_model_info::first_layer"]
        [::core::mem::offset_of!(qinfer_model_info, first_layer) - 136usize];
    ["Offset of field: qinfer_model_info::n_model_layers"]
        [::core::mem::offset_of!(qinfer_model_info, n_model_layers) - 140usize];
};
impl Default for qinfer_model_info {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[doc = " How the weights are stored in the model's files, for each encoding that occurs, by bytes in descending order:\n  8 * file_bytes / n_params bits a weight. A matrix that serves as embedding and LM head counts once."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct qinfer_encoding_info {
    pub struct_size: u32,
    pub n_tensors: u32,
    pub name: *const ::core::ffi::c_char,
    pub n_params: u64,
    pub file_bytes: u64,
    pub memory_bytes: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of qinfer_encoding_info"][::core::mem::size_of::<qinfer_encoding_info>() - 40usize];
    ["Alignment of qinfer_encoding_info"][::core::mem::align_of::<qinfer_encoding_info>() - 8usize];
    ["Offset of field: qinfer_encoding_info::struct_size"]
        [::core::mem::offset_of!(qinfer_encoding_info, struct_size) - 0usize];
    ["Offset of field: qinfer_encoding_info::n_tensors"]
        [::core::mem::offset_of!(qinfer_encoding_info, n_tensors) - 4usize];
    ["Offset of field: qinfer_encoding_info::name"]
        [::core::mem::offset_of!(qinfer_encoding_info, name) - 8usize];
    ["Offset of field: qinfer_encoding_info::n_params"]
        [::core::mem::offset_of!(qinfer_encoding_info, n_params) - 16usize];
    ["Offset of field: qinfer_encoding_info::file_bytes"]
        [::core::mem::offset_of!(qinfer_encoding_info, file_bytes) - 24usize];
    ["Offset of field: qinfer_encoding_info::memory_bytes"]
        [::core::mem::offset_of!(qinfer_encoding_info, memory_bytes) - 32usize];
};
impl Default for qinfer_encoding_info {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
pub const QINFER_TEXT_ADD_SPECIAL: u32 = 1;
pub const QINFER_TEXT_PARSE_SPECIAL: u32 = 2;
pub const QINFER_TEXT_PLAIN_CONTENT: u32 = 4;
pub const QINFER_TOKEN_CONTROL: u32 = 1;
pub const QINFER_TOKEN_END: u32 = 2;
pub const QINFER_TOKEN_BYTE: u32 = 4;
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct qinfer_text_part {
    pub begin: u64,
    pub end: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of qinfer_text_part"][::core::mem::size_of::<qinfer_text_part>() - 16usize];
    ["Alignment of qinfer_text_part"][::core::mem::align_of::<qinfer_text_part>() - 8usize];
    ["Offset of field: qinfer_text_part::begin"]
        [::core::mem::offset_of!(qinfer_text_part, begin) - 0usize];
    ["Offset of field: qinfer_text_part::end"]
        [::core::mem::offset_of!(qinfer_text_part, end) - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct qinfer_tokenize_options {
    pub struct_size: u32,
    pub flags: u32,
    pub max_work: u64,
    pub cancel: *const qinfer_cancel,
    pub content: *const qinfer_text_part,
    pub n_content: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of qinfer_tokenize_options"]
        [::core::mem::size_of::<qinfer_tokenize_options>() - 40usize];
    ["Alignment of qinfer_tokenize_options"]
        [::core::mem::align_of::<qinfer_tokenize_options>() - 8usize];
    ["Offset of field: qinfer_tokenize_options::struct_size"]
        [::core::mem::offset_of!(qinfer_tokenize_options, struct_size) - 0usize];
    ["Offset of field: qinfer_tokenize_options::flags"]
        [::core::mem::offset_of!(qinfer_tokenize_options, flags) - 4usize];
    ["Offset of field: qinfer_tokenize_options::max_work"]
        [::core::mem::offset_of!(qinfer_tokenize_options, max_work) - 8usize];
    ["Offset of field: qinfer_tokenize_options::cancel"]
        [::core::mem::offset_of!(qinfer_tokenize_options, cancel) - 16usize];
    ["Offset of field: qinfer_tokenize_options::content"]
        [::core::mem::offset_of!(qinfer_tokenize_options, content) - 24usize];
    ["Offset of field: qinfer_tokenize_options::n_content"]
        [::core::mem::offset_of!(qinfer_tokenize_options, n_content) - 32usize];
};
impl Default for qinfer_tokenize_options {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
pub const QINFER_CHAT_GENERATION_PROMPT: u32 = 1;
pub const QINFER_CHAT_PLAIN_CONTENT: u32 = 2;
#[doc = " Messages as programs for OpenAI's service send them: arguments of calls as text or object, contents as text,\n  parts or null, calls null or empty. The template gets the form that it takes, which small conversations rendered\n  with it tell, once for each of the model's templates."]
pub const QINFER_CHAT_OPENAI_FORMS: u32 = 4;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct qinfer_chat_options {
    pub struct_size: u32,
    pub flags: u32,
    pub template_name: *const ::core::ffi::c_char,
    pub template_text: *const ::core::ffi::c_char,
    pub now: *const ::core::ffi::c_char,
    pub cancel: *const qinfer_cancel,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of qinfer_chat_options"][::core::mem::size_of::<qinfer_chat_options>() - 40usize];
    ["Alignment of qinfer_chat_options"][::core::mem::align_of::<qinfer_chat_options>() - 8usize];
    ["Offset of field: qinfer_chat_options::struct_size"]
        [::core::mem::offset_of!(qinfer_chat_options, struct_size) - 0usize];
    ["Offset of field: qinfer_chat_options::flags"]
        [::core::mem::offset_of!(qinfer_chat_options, flags) - 4usize];
    ["Offset of field: qinfer_chat_options::template_name"]
        [::core::mem::offset_of!(qinfer_chat_options, template_name) - 8usize];
    ["Offset of field: qinfer_chat_options::template_text"]
        [::core::mem::offset_of!(qinfer_chat_options, template_text) - 16usize];
    ["Offset of field: qinfer_chat_options::now"]
        [::core::mem::offset_of!(qinfer_chat_options, now) - 24usize];
    ["Offset of field: qinfer_chat_options::cancel"]
        [::core::mem::offset_of!(qinfer_chat_options, cancel) - 32usize];
};
impl Default for qinfer_chat_options {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
pub const QINFER_REPLY_AUTO: u32 = 0;
pub const QINFER_REPLY_PLAIN: u32 = 1;
pub const QINFER_REPLY_HERMES: u32 = 2;
pub const QINFER_REPLY_LLAMA3: u32 = 3;
pub const QINFER_REPLY_MISTRAL: u32 = 4;
pub const QINFER_REPLY_DEEPSEEK: u32 = 5;
pub const QINFER_REPLY_FUNCTIONARY: u32 = 6;
pub const QINFER_REPLY_FIREFUNCTION: u32 = 7;
#[doc = " How the families of models write calls of tools; reasoning is between <think> and </think> (Mistral: [THINK] and\n  [/THINK]) where the reply begins with that marker, or the prompt ends with it."]
pub const QINFER_PART_NONE: u32 = 0;
pub const QINFER_PART_CONTENT: u32 = 1;
pub const QINFER_PART_REASONING: u32 = 2;
pub const QINFER_PART_CALL: u32 = 3;
#[doc = " Nothing is taken for reasoning, even where the prompt ends with its marker: with a grammar the answer begins at\n  once."]
pub const QINFER_REPLY_NO_REASONING: u32 = 1;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct qinfer_reply_options {
    pub struct_size: u32,
    pub flags: u32,
    pub format: i32,
    pub reserved: u32,
    pub chat: *const qinfer_chat_options,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of qinfer_reply_options"][::core::mem::size_of::<qinfer_reply_options>() - 24usize];
    ["Alignment of qinfer_reply_options"][::core::mem::align_of::<qinfer_reply_options>() - 8usize];
    ["Offset of field: qinfer_reply_options::struct_size"]
        [::core::mem::offset_of!(qinfer_reply_options, struct_size) - 0usize];
    ["Offset of field: qinfer_reply_options::flags"]
        [::core::mem::offset_of!(qinfer_reply_options, flags) - 4usize];
    ["Offset of field: qinfer_reply_options::format"]
        [::core::mem::offset_of!(qinfer_reply_options, format) - 8usize];
    ["Offset of field: qinfer_reply_options::reserved"]
        [::core::mem::offset_of!(qinfer_reply_options, reserved) - 12usize];
    ["Offset of field: qinfer_reply_options::chat"]
        [::core::mem::offset_of!(qinfer_reply_options, chat) - 16usize];
};
impl Default for qinfer_reply_options {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct qinfer_reply_part {
    pub struct_size: u32,
    pub kind: i32,
    pub text: *const ::core::ffi::c_char,
    pub text_len: usize,
    pub name: *const ::core::ffi::c_char,
    pub id: *const ::core::ffi::c_char,
    pub call: u32,
    pub reserved: u32,
    pub name_len: usize,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of qinfer_reply_part"][::core::mem::size_of::<qinfer_reply_part>() - 56usize];
    ["Alignment of qinfer_reply_part"][::core::mem::align_of::<qinfer_reply_part>() - 8usize];
    ["Offset of field: qinfer_reply_part::struct_size"]
        [::core::mem::offset_of!(qinfer_reply_part, struct_size) - 0usize];
    ["Offset of field: qinfer_reply_part::kind"]
        [::core::mem::offset_of!(qinfer_reply_part, kind) - 4usize];
    ["Offset of field: qinfer_reply_part::text"]
        [::core::mem::offset_of!(qinfer_reply_part, text) - 8usize];
    ["Offset of field: qinfer_reply_part::text_len"]
        [::core::mem::offset_of!(qinfer_reply_part, text_len) - 16usize];
    ["Offset of field: qinfer_reply_part::name"]
        [::core::mem::offset_of!(qinfer_reply_part, name) - 24usize];
    ["Offset of field: qinfer_reply_part::id"]
        [::core::mem::offset_of!(qinfer_reply_part, id) - 32usize];
    ["Offset of field: qinfer_reply_part::call"]
        [::core::mem::offset_of!(qinfer_reply_part, call) - 40usize];
    ["Offset of field: qinfer_reply_part::reserved"]
        [::core::mem::offset_of!(qinfer_reply_part, reserved) - 44usize];
    ["Offset of field: qinfer_reply_part::name_len"]
        [::core::mem::offset_of!(qinfer_reply_part, name_len) - 48usize];
};
impl Default for qinfer_reply_part {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct qinfer_kv_cache_stats {
    pub struct_size: u32,
    pub block_tokens: u32,
    pub blocks_total: u64,
    pub blocks_used: u64,
    pub blocks_shared: u64,
    pub blocks_cached: u64,
    pub bytes_reserved: u64,
    pub bytes_committed: u64,
    pub bytes_resident: u64,
    pub reserved: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of qinfer_kv_cache_stats"][::core::mem::size_of::<qinfer_kv_cache_stats>() - 72usize];
    ["Alignment of qinfer_kv_cache_stats"]
        [::core::mem::align_of::<qinfer_kv_cache_stats>() - 8usize];
    ["Offset of field: qinfer_kv_cache_stats::struct_size"]
        [::core::mem::offset_of!(qinfer_kv_cache_stats, struct_size) - 0usize];
    ["Offset of field: qinfer_kv_cache_stats::block_tokens"]
        [::core::mem::offset_of!(qinfer_kv_cache_stats, block_tokens) - 4usize];
    ["Offset of field: qinfer_kv_cache_stats::blocks_total"]
        [::core::mem::offset_of!(qinfer_kv_cache_stats, blocks_total) - 8usize];
    ["Offset of field: qinfer_kv_cache_stats::blocks_used"]
        [::core::mem::offset_of!(qinfer_kv_cache_stats, blocks_used) - 16usize];
    ["Offset of field: qinfer_kv_cache_stats::blocks_shared"]
        [::core::mem::offset_of!(qinfer_kv_cache_stats, blocks_shared) - 24usize];
    ["Offset of field: qinfer_kv_cache_stats::blocks_cached"]
        [::core::mem::offset_of!(qinfer_kv_cache_stats, blocks_cached) - 32usize];
    ["Offset of field: qinfer_kv_cache_stats::bytes_reserved"]
        [::core::mem::offset_of!(qinfer_kv_cache_stats, bytes_reserved) - 40usize];
    ["Offset of field: qinfer_kv_cache_stats::bytes_committed"]
        [::core::mem::offset_of!(qinfer_kv_cache_stats, bytes_committed) - 48usize];
    ["Offset of field: qinfer_kv_cache_stats::bytes_resident"]
        [::core::mem::offset_of!(qinfer_kv_cache_stats, bytes_resident) - 56usize];
    ["Offset of field: qinfer_kv_cache_stats::reserved"]
        [::core::mem::offset_of!(qinfer_kv_cache_stats, reserved) - 64usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct qinfer_kv_store {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct qinfer_kv_store_options {
    pub struct_size: u32,
    pub flags: u32,
    pub path: *const ::core::ffi::c_char,
    pub max_bytes: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of qinfer_kv_store_options"]
        [::core::mem::size_of::<qinfer_kv_store_options>() - 24usize];
    ["Alignment of qinfer_kv_store_options"]
        [::core::mem::align_of::<qinfer_kv_store_options>() - 8usize];
    ["Offset of field: qinfer_kv_store_options::struct_size"]
        [::core::mem::offset_of!(qinfer_kv_store_options, struct_size) - 0usize];
    ["Offset of field: qinfer_kv_store_options::flags"]
        [::core::mem::offset_of!(qinfer_kv_store_options, flags) - 4usize];
    ["Offset of field: qinfer_kv_store_options::path"]
        [::core::mem::offset_of!(qinfer_kv_store_options, path) - 8usize];
    ["Offset of field: qinfer_kv_store_options::max_bytes"]
        [::core::mem::offset_of!(qinfer_kv_store_options, max_bytes) - 16usize];
};
impl Default for qinfer_kv_store_options {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct qinfer_kv_store_stats {
    pub struct_size: u32,
    pub reserved: u32,
    pub n_files: u64,
    pub bytes: u64,
    pub written: u64,
    pub read: u64,
    pub removed: u64,
    pub damaged: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of qinfer_kv_store_stats"][::core::mem::size_of::<qinfer_kv_store_stats>() - 56usize];
    ["Alignment of qinfer_kv_store_stats"]
        [::core::mem::align_of::<qinfer_kv_store_stats>() - 8usize];
    ["Offset of field: qinfer_kv_store_stats::struct_size"]
        [::core::mem::offset_of!(qinfer_kv_store_stats, struct_size) - 0usize];
    ["Offset of field: qinfer_kv_store_stats::reserved"]
        [::core::mem::offset_of!(qinfer_kv_store_stats, reserved) - 4usize];
    ["Offset of field: qinfer_kv_store_stats::n_files"]
        [::core::mem::offset_of!(qinfer_kv_store_stats, n_files) - 8usize];
    ["Offset of field: qinfer_kv_store_stats::bytes"]
        [::core::mem::offset_of!(qinfer_kv_store_stats, bytes) - 16usize];
    ["Offset of field: qinfer_kv_store_stats::written"]
        [::core::mem::offset_of!(qinfer_kv_store_stats, written) - 24usize];
    ["Offset of field: qinfer_kv_store_stats::read"]
        [::core::mem::offset_of!(qinfer_kv_store_stats, read) - 32usize];
    ["Offset of field: qinfer_kv_store_stats::removed"]
        [::core::mem::offset_of!(qinfer_kv_store_stats, removed) - 40usize];
    ["Offset of field: qinfer_kv_store_stats::damaged"]
        [::core::mem::offset_of!(qinfer_kv_store_stats, damaged) - 48usize];
};
#[doc = " How a token is drawn. After the hook and the biases come these steps, in the order that `steps` lists by their\n  letters; those that it leaves out are left out. p(t) is the softmax over the tokens that the steps before have left\n  (candidates), H = -sum of p ln p its entropy, and l[t] the logit at that point.\n    e  penalties: of each token in the window first l = l > 0 ? l / repeat_penalty : l * repeat_penalty, then\n       l -= count * frequency_penalty + presence_penalty\n    d  DRY: a token that would go on with a repetition of r tokens, r >= dry_allowed_length, loses dry_multiplier *\n       dry_base^(r - dry_allowed_length). The token at each earlier place of the window would go on with as many\n       tokens as those before it and the last ones of the window have in common, but with no more than come after the\n       last sequence breaker (qinfer_session_set_dry_breakers); its largest r counts. Tokens that contain a breaker\n       lose nothing (p-e-w, text-generation-webui pull request 5637)\n    t  temperature: l /= T. With dynatemp_range T = low + (high - low) * (H / ln n)^dynatemp_exponent, n the number of\n       candidates, low = max(0, temperature - range), high = temperature + range (llama.cpp; kalomaze)\n    s  top-n-sigma: keep l >= largest - top_n_sigma * standard deviation of l (Tang et al., arXiv:2411.07641)\n    k  top-k: keep the top_k largest l, and those equal to the last of them\n    y  typical: by ascending |-ln p - H| keep tokens until they have typical_p together (Meister et al.,\n       arXiv:2202.00666)\n    p  top-p: by descending p keep tokens until they have top_p together\n    m  min-p: keep p >= min_p * largest p\n    x  XTC: with a chance of xtc_probability remove all tokens with p >= xtc_threshold but the least likely of them\n       (p-e-w, text-generation-webui pull request 6335)\n  Then mirostat 2, in place of s k y p m x, keeps -log2 p <= mu, at least the likeliest; once the token is drawn, with\n  p of what was kept, mu -= mirostat_eta * (-log2 p - mirostat_tau). mu begins as 2 * mirostat_tau (Basu et al.,\n  arXiv:2007.14966). Then one token is drawn by p. temperature 0 takes the largest l after e and d.\n  A draw depends on the seed, the position and, with mirostat, on mu; truncating brings mu back, and forks and\n  snapshots have it. llama.cpp's order is \"edskypmxt\"."]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct qinfer_sampler_options {
    pub struct_size: u32,
    pub temperature: f32,
    pub top_k: u32,
    pub top_p: f32,
    pub min_p: f32,
    pub repeat_penalty: f32,
    pub frequency_penalty: f32,
    pub presence_penalty: f32,
    pub penalty_tokens: u32,
    pub reserved: u32,
    pub seed: u64,
    pub typical_p: f32,
    pub top_n_sigma: f32,
    pub dynatemp_range: f32,
    pub dynatemp_exponent: f32,
    pub xtc_probability: f32,
    pub xtc_threshold: f32,
    pub dry_multiplier: f32,
    pub dry_base: f32,
    pub dry_allowed_length: u32,
    pub dry_penalty_tokens: u32,
    pub mirostat: u32,
    pub mirostat_tau: f32,
    pub mirostat_eta: f32,
    pub steps: [::core::ffi::c_char; 20usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of qinfer_sampler_options"][::core::mem::size_of::<qinfer_sampler_options>() - 120usize];
    ["Alignment of qinfer_sampler_options"]
        [::core::mem::align_of::<qinfer_sampler_options>() - 8usize];
    ["Offset of field: qinfer_sampler_options::struct_size"]
        [::core::mem::offset_of!(qinfer_sampler_options, struct_size) - 0usize];
    ["Offset of field: qinfer_sampler_options::temperature"]
        [::core::mem::offset_of!(qinfer_sampler_options, temperature) - 4usize];
    ["Offset of field: qinfer_sampler_options::top_k"]
        [::core::mem::offset_of!(qinfer_sampler_options, top_k) - 8usize];
    ["Offset of field: qinfer_sampler_options::top_p"]
        [::core::mem::offset_of!(qinfer_sampler_options, top_p) - 12usize];
    ["Offset of field: qinfer_sampler_options::min_p"]
        [::core::mem::offset_of!(qinfer_sampler_options, min_p) - 16usize];
    ["Offset of field: qinfer_sampler_options::repeat_penalty"]
        [::core::mem::offset_of!(qinfer_sampler_options, repeat_penalty) - 20usize];
    ["Offset of field: qinfer_sampler_options::frequency_penalty"]
        [::core::mem::offset_of!(qinfer_sampler_options, frequency_penalty) - 24usize];
    ["Offset of field: qinfer_sampler_options::presence_penalty"]
        [::core::mem::offset_of!(qinfer_sampler_options, presence_penalty) - 28usize];
    ["Offset of field: qinfer_sampler_options::penalty_tokens"]
        [::core::mem::offset_of!(qinfer_sampler_options, penalty_tokens) - 32usize];
    ["Offset of field: qinfer_sampler_options::reserved"]
        [::core::mem::offset_of!(qinfer_sampler_options, reserved) - 36usize];
    ["Offset of field: qinfer_sampler_options::seed"]
        [::core::mem::offset_of!(qinfer_sampler_options, seed) - 40usize];
    ["Offset of field: qinfer_sampler_options::typical_p"]
        [::core::mem::offset_of!(qinfer_sampler_options, typical_p) - 48usize];
    ["Offset of field: qinfer_sampler_options::top_n_sigma"]
        [::core::mem::offset_of!(qinfer_sampler_options, top_n_sigma) - 52usize];
    ["Offset of field: qinfer_sampler_options::dynatemp_range"]
        [::core::mem::offset_of!(qinfer_sampler_options, dynatemp_range) - 56usize];
    ["Offset of field: qinfer_sampler_options::dynatemp_exponent"]
        [::core::mem::offset_of!(qinfer_sampler_options, dynatemp_exponent) - 60usize];
    ["Offset of field: qinfer_sampler_options::xtc_probability"]
        [::core::mem::offset_of!(qinfer_sampler_options, xtc_probability) - 64usize];
    ["Offset of field: qinfer_sampler_options::xtc_threshold"]
        [::core::mem::offset_of!(qinfer_sampler_options, xtc_threshold) - 68usize];
    ["Offset of field: qinfer_sampler_options::dry_multiplier"]
        [::core::mem::offset_of!(qinfer_sampler_options, dry_multiplier) - 72usize];
    ["Offset of field: qinfer_sampler_options::dry_base"]
        [::core::mem::offset_of!(qinfer_sampler_options, dry_base) - 76usize];
    ["Offset of field: qinfer_sampler_options::dry_allowed_length"]
        [::core::mem::offset_of!(qinfer_sampler_options, dry_allowed_length) - 80usize];
    ["Offset of field: qinfer_sampler_options::dry_penalty_tokens"]
        [::core::mem::offset_of!(qinfer_sampler_options, dry_penalty_tokens) - 84usize];
    ["Offset of field: qinfer_sampler_options::mirostat"]
        [::core::mem::offset_of!(qinfer_sampler_options, mirostat) - 88usize];
    ["Offset of field: qinfer_sampler_options::mirostat_tau"]
        [::core::mem::offset_of!(qinfer_sampler_options, mirostat_tau) - 92usize];
    ["Offset of field: qinfer_sampler_options::mirostat_eta"]
        [::core::mem::offset_of!(qinfer_sampler_options, mirostat_eta) - 96usize];
    ["Offset of field: qinfer_sampler_options::steps"]
        [::core::mem::offset_of!(qinfer_sampler_options, steps) - 100usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct qinfer_session_save_options {
    pub struct_size: u32,
    pub flags: u32,
    pub files: *const qinfer_files,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of qinfer_session_save_options"]
        [::core::mem::size_of::<qinfer_session_save_options>() - 16usize];
    ["Alignment of qinfer_session_save_options"]
        [::core::mem::align_of::<qinfer_session_save_options>() - 8usize];
    ["Offset of field: qinfer_session_save_options::struct_size"]
        [::core::mem::offset_of!(qinfer_session_save_options, struct_size) - 0usize];
    ["Offset of field: qinfer_session_save_options::flags"]
        [::core::mem::offset_of!(qinfer_session_save_options, flags) - 4usize];
    ["Offset of field: qinfer_session_save_options::files"]
        [::core::mem::offset_of!(qinfer_session_save_options, files) - 8usize];
};
impl Default for qinfer_session_save_options {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
pub const QINFER_SNAPSHOT_ANY_BITS: u32 = 1;
pub const QINFER_SNAPSHOT_NO_RECOVERY: u32 = 2;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct qinfer_session_load_options {
    pub struct_size: u32,
    pub flags: u32,
    pub files: *const qinfer_files,
    pub max_draft: u32,
    pub reserved: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of qinfer_session_load_options"]
        [::core::mem::size_of::<qinfer_session_load_options>() - 24usize];
    ["Alignment of qinfer_session_load_options"]
        [::core::mem::align_of::<qinfer_session_load_options>() - 8usize];
    ["Offset of field: qinfer_session_load_options::struct_size"]
        [::core::mem::offset_of!(qinfer_session_load_options, struct_size) - 0usize];
    ["Offset of field: qinfer_session_load_options::flags"]
        [::core::mem::offset_of!(qinfer_session_load_options, flags) - 4usize];
    ["Offset of field: qinfer_session_load_options::files"]
        [::core::mem::offset_of!(qinfer_session_load_options, files) - 8usize];
    ["Offset of field: qinfer_session_load_options::max_draft"]
        [::core::mem::offset_of!(qinfer_session_load_options, max_draft) - 16usize];
    ["Offset of field: qinfer_session_load_options::reserved"]
        [::core::mem::offset_of!(qinfer_session_load_options, reserved) - 20usize];
};
impl Default for qinfer_session_load_options {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
pub const QINFER_SNAPSHOT_RECOVERED: u32 = 1;
pub const QINFER_SNAPSHOT_OTHER_BITS: u32 = 2;
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct qinfer_session_load_result {
    pub struct_size: u32,
    pub flags: u32,
    pub tokens: u64,
    pub evaluated_tokens: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of qinfer_session_load_result"]
        [::core::mem::size_of::<qinfer_session_load_result>() - 24usize];
    ["Alignment of qinfer_session_load_result"]
        [::core::mem::align_of::<qinfer_session_load_result>() - 8usize];
    ["Offset of field: qinfer_session_load_result::struct_size"]
        [::core::mem::offset_of!(qinfer_session_load_result, struct_size) - 0usize];
    ["Offset of field: qinfer_session_load_result::flags"]
        [::core::mem::offset_of!(qinfer_session_load_result, flags) - 4usize];
    ["Offset of field: qinfer_session_load_result::tokens"]
        [::core::mem::offset_of!(qinfer_session_load_result, tokens) - 8usize];
    ["Offset of field: qinfer_session_load_result::evaluated_tokens"]
        [::core::mem::offset_of!(qinfer_session_load_result, evaluated_tokens) - 16usize];
};
pub const QINFER_EVAL_NO_LOGITS: u32 = 1;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct qinfer_eval_options {
    pub struct_size: u32,
    pub max_tokens: u32,
    pub keep_logits: u32,
    pub flags: u32,
    pub cancel: *const qinfer_cancel,
    pub session_cancels: *const *const qinfer_cancel,
    #[doc = " Of a stage (qinfer_load_options.first_layer): one array for each session, f32 [tokens][n_embd], a row for each\n  token that it evaluates in this call, in their order. hidden_in: what the stage before gives, where this one does\n  not begin with the first layer. hidden_out: room for what this one gives, where it does not end with the last.\n  Otherwise NULL. After a failure rows of tokens that stayed pending say nothing."]
    pub hidden_in: *const *const f32,
    pub hidden_out: *const *mut f32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of qinfer_eval_options"][::core::mem::size_of::<qinfer_eval_options>() - 48usize];
    ["Alignment of qinfer_eval_options"][::core::mem::align_of::<qinfer_eval_options>() - 8usize];
    ["Offset of field: qinfer_eval_options::struct_size"]
        [::core::mem::offset_of!(qinfer_eval_options, struct_size) - 0usize];
    ["Offset of field: qinfer_eval_options::max_tokens"]
        [::core::mem::offset_of!(qinfer_eval_options, max_tokens) - 4usize];
    ["Offset of field: qinfer_eval_options::keep_logits"]
        [::core::mem::offset_of!(qinfer_eval_options, keep_logits) - 8usize];
    ["Offset of field: qinfer_eval_options::flags"]
        [::core::mem::offset_of!(qinfer_eval_options, flags) - 12usize];
    ["Offset of field: qinfer_eval_options::cancel"]
        [::core::mem::offset_of!(qinfer_eval_options, cancel) - 16usize];
    ["Offset of field: qinfer_eval_options::session_cancels"]
        [::core::mem::offset_of!(qinfer_eval_options, session_cancels) - 24usize];
    ["Offset of field: qinfer_eval_options::hidden_in"]
        [::core::mem::offset_of!(qinfer_eval_options, hidden_in) - 32usize];
    ["Offset of field: qinfer_eval_options::hidden_out"]
        [::core::mem::offset_of!(qinfer_eval_options, hidden_out) - 40usize];
};
impl Default for qinfer_eval_options {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[doc = " Code of the host between the logits and the sampler, for grammars and watermarks, in qinfer_session_sample and\n  qinfer_generate alike. apply and accept return 0 to go on; nonzero ends the call with QINFER_E_CANCELLED, and the\n  token is not added. Callbacks may run under the default floating-point environment instead of the host's."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct qinfer_logits_hook {
    pub struct_size: u32,
    pub reserved: u32,
    #[doc = " Before bias, penalties and filters, for every token: changes a private copy of the n_vocab logits, not the row\n  that qinfer_session_logits gives. A token set to -infinity is not drawn. Any other value that is not finite, or\n  all tokens at -infinity, is QINFER_E_NUMERIC, and no token is added."]
    pub apply: ::core::option::Option<
        unsafe extern "C" fn(
            session: *const qinfer_session,
            logits: *mut f32,
            n_vocab: u32,
            user: *mut ::core::ffi::c_void,
        ) -> i32,
    >,
    #[doc = " Once for each token that sampling appends, when it is the last of the session. Tokens that the host appends are\n  not shown: a prompt is no part of a grammar. NULL = not called."]
    pub accept: ::core::option::Option<
        unsafe extern "C" fn(token: qinfer_token, user: *mut ::core::ffi::c_void) -> i32,
    >,
    #[doc = " qinfer_session_truncate is about to take back the last n_tokens of the accepted tokens. Nonzero: it changes\n  nothing and ends with QINFER_E_CANCELLED. NULL = not called. Not counted are tokens that accept refused and\n  tokens that were there when the hook was set."]
    pub rewind: ::core::option::Option<
        unsafe extern "C" fn(n_tokens: usize, user: *mut ::core::ffi::c_void) -> i32,
    >,
    #[doc = " The last step of a fork: makes the user of the fork's hook. Nonzero: QINFER_E_CANCELLED, and no fork. Several\n  threads may call it at once, if they fork the session at once. NULL = forks have no hook."]
    pub clone: ::core::option::Option<
        unsafe extern "C" fn(
            user: *mut ::core::ffi::c_void,
            out_user: *mut *mut ::core::ffi::c_void,
        ) -> i32,
    >,
    #[doc = " The hook was replaced or cleared, or its session freed: nothing is called with this user any more. NULL = not\n  called."]
    pub release: ::core::option::Option<unsafe extern "C" fn(user: *mut ::core::ffi::c_void)>,
    pub user: *mut ::core::ffi::c_void,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of qinfer_logits_hook"][::core::mem::size_of::<qinfer_logits_hook>() - 56usize];
    ["Alignment of qinfer_logits_hook"][::core::mem::align_of::<qinfer_logits_hook>() - 8usize];
    ["Offset of field: qinfer_logits_hook::struct_size"]
        [::core::mem::offset_of!(qinfer_logits_hook, struct_size) - 0usize];
    ["Offset of field: qinfer_logits_hook::reserved"]
        [::core::mem::offset_of!(qinfer_logits_hook, reserved) - 4usize];
    ["Offset of field: qinfer_logits_hook::apply"]
        [::core::mem::offset_of!(qinfer_logits_hook, apply) - 8usize];
    ["Offset of field: qinfer_logits_hook::accept"]
        [::core::mem::offset_of!(qinfer_logits_hook, accept) - 16usize];
    ["Offset of field: qinfer_logits_hook::rewind"]
        [::core::mem::offset_of!(qinfer_logits_hook, rewind) - 24usize];
    ["Offset of field: qinfer_logits_hook::clone"]
        [::core::mem::offset_of!(qinfer_logits_hook, clone) - 32usize];
    ["Offset of field: qinfer_logits_hook::release"]
        [::core::mem::offset_of!(qinfer_logits_hook, release) - 40usize];
    ["Offset of field: qinfer_logits_hook::user"]
        [::core::mem::offset_of!(qinfer_logits_hook, user) - 48usize];
};
impl Default for qinfer_logits_hook {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
pub const QINFER_POOL_DEFAULT: u32 = 0;
pub const QINFER_POOL_LAST: u32 = 1;
pub const QINFER_POOL_MEAN: u32 = 2;
pub const QINFER_POOL_FIRST: u32 = 3;
pub const QINFER_EMBEDDING_UNSCALED: u32 = 1;
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct qinfer_embedding_options {
    pub struct_size: u32,
    pub flags: u32,
    pub pooling: i32,
    pub dims: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of qinfer_embedding_options"]
        [::core::mem::size_of::<qinfer_embedding_options>() - 16usize];
    ["Alignment of qinfer_embedding_options"]
        [::core::mem::align_of::<qinfer_embedding_options>() - 4usize];
    ["Offset of field: qinfer_embedding_options::struct_size"]
        [::core::mem::offset_of!(qinfer_embedding_options, struct_size) - 0usize];
    ["Offset of field: qinfer_embedding_options::flags"]
        [::core::mem::offset_of!(qinfer_embedding_options, flags) - 4usize];
    ["Offset of field: qinfer_embedding_options::pooling"]
        [::core::mem::offset_of!(qinfer_embedding_options, pooling) - 8usize];
    ["Offset of field: qinfer_embedding_options::dims"]
        [::core::mem::offset_of!(qinfer_embedding_options, dims) - 12usize];
};
pub const QINFER_EMBED_TRUNCATE: u32 = 1;
pub const QINFER_EMBED_PARSE_SPECIAL: u32 = 2;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct qinfer_embedding_text_options {
    pub struct_size: u32,
    pub flags: u32,
    pub prompt_name: *const ::core::ffi::c_char,
    pub prompt: *const ::core::ffi::c_char,
    pub max_tokens: u32,
    pub reserved: u32,
    pub cancel: *const qinfer_cancel,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of qinfer_embedding_text_options"]
        [::core::mem::size_of::<qinfer_embedding_text_options>() - 40usize];
    ["Alignment of qinfer_embedding_text_options"]
        [::core::mem::align_of::<qinfer_embedding_text_options>() - 8usize];
    ["Offset of field: qinfer_embedding_text_options::struct_size"]
        [::core::mem::offset_of!(qinfer_embedding_text_options, struct_size) - 0usize];
    ["Offset of field: qinfer_embedding_text_options::flags"]
        [::core::mem::offset_of!(qinfer_embedding_text_options, flags) - 4usize];
    ["Offset of field: qinfer_embedding_text_options::prompt_name"]
        [::core::mem::offset_of!(qinfer_embedding_text_options, prompt_name) - 8usize];
    ["Offset of field: qinfer_embedding_text_options::prompt"]
        [::core::mem::offset_of!(qinfer_embedding_text_options, prompt) - 16usize];
    ["Offset of field: qinfer_embedding_text_options::max_tokens"]
        [::core::mem::offset_of!(qinfer_embedding_text_options, max_tokens) - 24usize];
    ["Offset of field: qinfer_embedding_text_options::reserved"]
        [::core::mem::offset_of!(qinfer_embedding_text_options, reserved) - 28usize];
    ["Offset of field: qinfer_embedding_text_options::cancel"]
        [::core::mem::offset_of!(qinfer_embedding_text_options, cancel) - 32usize];
};
impl Default for qinfer_embedding_text_options {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
pub const QINFER_SCORING_NONE: u32 = 0;
pub const QINFER_SCORING_TOKENS: u32 = 1;
pub const QINFER_SCORING_CLASSIFIER: u32 = 2;
pub const QINFER_SCORE_TRUNCATE: u32 = 1;
pub const QINFER_SCORE_RAW: u32 = 2;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct qinfer_score_options {
    pub struct_size: u32,
    pub flags: u32,
    pub template_name: *const ::core::ffi::c_char,
    pub template_text: *const ::core::ffi::c_char,
    pub instruction: *const ::core::ffi::c_char,
    pub yes: *const ::core::ffi::c_char,
    pub no: *const ::core::ffi::c_char,
    pub max_tokens: u32,
    pub reserved: u32,
    pub cancel: *const qinfer_cancel,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of qinfer_score_options"][::core::mem::size_of::<qinfer_score_options>() - 64usize];
    ["Alignment of qinfer_score_options"][::core::mem::align_of::<qinfer_score_options>() - 8usize];
    ["Offset of field: qinfer_score_options::struct_size"]
        [::core::mem::offset_of!(qinfer_score_options, struct_size) - 0usize];
    ["Offset of field: qinfer_score_options::flags"]
        [::core::mem::offset_of!(qinfer_score_options, flags) - 4usize];
    ["Offset of field: qinfer_score_options::template_name"]
        [::core::mem::offset_of!(qinfer_score_options, template_name) - 8usize];
    ["Offset of field: qinfer_score_options::template_text"]
        [::core::mem::offset_of!(qinfer_score_options, template_text) - 16usize];
    ["Offset of field: qinfer_score_options::instruction"]
        [::core::mem::offset_of!(qinfer_score_options, instruction) - 24usize];
    ["Offset of field: qinfer_score_options::yes"]
        [::core::mem::offset_of!(qinfer_score_options, yes) - 32usize];
    ["Offset of field: qinfer_score_options::no"]
        [::core::mem::offset_of!(qinfer_score_options, no) - 40usize];
    ["Offset of field: qinfer_score_options::max_tokens"]
        [::core::mem::offset_of!(qinfer_score_options, max_tokens) - 48usize];
    ["Offset of field: qinfer_score_options::reserved"]
        [::core::mem::offset_of!(qinfer_score_options, reserved) - 52usize];
    ["Offset of field: qinfer_score_options::cancel"]
        [::core::mem::offset_of!(qinfer_score_options, cancel) - 56usize];
};
impl Default for qinfer_score_options {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[doc = " Of a callback it is made by the library: members beyond struct_size are not there."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct qinfer_token_info {
    pub struct_size: u32,
    pub token: qinfer_token,
    pub text: *const ::core::ffi::c_char,
    pub text_len: usize,
    pub logprob: f64,
    pub n_top: u32,
    pub finish: i32,
    pub top_tokens: *const qinfer_token,
    pub top_logprobs: *const f64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of qinfer_token_info"][::core::mem::size_of::<qinfer_token_info>() - 56usize];
    ["Alignment of qinfer_token_info"][::core::mem::align_of::<qinfer_token_info>() - 8usize];
    ["Offset of field: qinfer_token_info::struct_size"]
        [::core::mem::offset_of!(qinfer_token_info, struct_size) - 0usize];
    ["Offset of field: qinfer_token_info::token"]
        [::core::mem::offset_of!(qinfer_token_info, token) - 4usize];
    ["Offset of field: qinfer_token_info::text"]
        [::core::mem::offset_of!(qinfer_token_info, text) - 8usize];
    ["Offset of field: qinfer_token_info::text_len"]
        [::core::mem::offset_of!(qinfer_token_info, text_len) - 16usize];
    ["Offset of field: qinfer_token_info::logprob"]
        [::core::mem::offset_of!(qinfer_token_info, logprob) - 24usize];
    ["Offset of field: qinfer_token_info::n_top"]
        [::core::mem::offset_of!(qinfer_token_info, n_top) - 32usize];
    ["Offset of field: qinfer_token_info::finish"]
        [::core::mem::offset_of!(qinfer_token_info, finish) - 36usize];
    ["Offset of field: qinfer_token_info::top_tokens"]
        [::core::mem::offset_of!(qinfer_token_info, top_tokens) - 40usize];
    ["Offset of field: qinfer_token_info::top_logprobs"]
        [::core::mem::offset_of!(qinfer_token_info, top_logprobs) - 48usize];
};
impl Default for qinfer_token_info {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[doc = " Once for each token that was sampled, the end token included. Return nonzero to stop."]
pub type qinfer_token_info_fn = ::core::option::Option<
    unsafe extern "C" fn(info: *const qinfer_token_info, user: *mut ::core::ffi::c_void) -> i32,
>;
pub const QINFER_GENERATE_LOGPROBS: u32 = 1;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct qinfer_generate_options {
    pub struct_size: u32,
    pub max_tokens: u32,
    #[doc = " n_stop texts of 1 to 4096 bytes; output ends before the first that appears. One that is a control token, which\n  has no text in the output, ends it at that token (with QINFER_FINISH_STOP, even if it is an end token)."]
    pub stop: *const *const ::core::ffi::c_char,
    pub stop_lens: *const usize,
    pub n_stop: u32,
    pub flags: u32,
    pub on_token: qinfer_token_fn,
    pub user: *mut ::core::ffi::c_void,
    pub cancel: *const qinfer_cancel,
    pub on_token_info: qinfer_token_info_fn,
    pub n_top: u32,
    pub max_reasoning_tokens: u32,
    #[doc = " NULL, or the reply that these tokens are: it gets the text of each of them before the callbacks do (do not push\n  them), up to a stop text, and the callbacks may take its parts. While it is in its reasoning the session's\n  logits hook rests: reasoning is free, no stop text but a control token is looked for in it, and a grammar begins\n  where the content begins."]
    pub reply: *mut qinfer_reply,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of qinfer_generate_options"]
        [::core::mem::size_of::<qinfer_generate_options>() - 80usize];
    ["Alignment of qinfer_generate_options"]
        [::core::mem::align_of::<qinfer_generate_options>() - 8usize];
    ["Offset of field: qinfer_generate_options::struct_size"]
        [::core::mem::offset_of!(qinfer_generate_options, struct_size) - 0usize];
    ["Offset of field: qinfer_generate_options::max_tokens"]
        [::core::mem::offset_of!(qinfer_generate_options, max_tokens) - 4usize];
    ["Offset of field: qinfer_generate_options::stop"]
        [::core::mem::offset_of!(qinfer_generate_options, stop) - 8usize];
    ["Offset of field: qinfer_generate_options::stop_lens"]
        [::core::mem::offset_of!(qinfer_generate_options, stop_lens) - 16usize];
    ["Offset of field: qinfer_generate_options::n_stop"]
        [::core::mem::offset_of!(qinfer_generate_options, n_stop) - 24usize];
    ["Offset of field: qinfer_generate_options::flags"]
        [::core::mem::offset_of!(qinfer_generate_options, flags) - 28usize];
    ["Offset of field: qinfer_generate_options::on_token"]
        [::core::mem::offset_of!(qinfer_generate_options, on_token) - 32usize];
    ["Offset of field: qinfer_generate_options::user"]
        [::core::mem::offset_of!(qinfer_generate_options, user) - 40usize];
    ["Offset of field: qinfer_generate_options::cancel"]
        [::core::mem::offset_of!(qinfer_generate_options, cancel) - 48usize];
    ["Offset of field: qinfer_generate_options::on_token_info"]
        [::core::mem::offset_of!(qinfer_generate_options, on_token_info) - 56usize];
    ["Offset of field: qinfer_generate_options::n_top"]
        [::core::mem::offset_of!(qinfer_generate_options, n_top) - 64usize];
    ["Offset of field: qinfer_generate_options::max_reasoning_tokens"]
        [::core::mem::offset_of!(qinfer_generate_options, max_reasoning_tokens) - 68usize];
    ["Offset of field: qinfer_generate_options::reply"]
        [::core::mem::offset_of!(qinfer_generate_options, reply) - 72usize];
};
impl Default for qinfer_generate_options {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
pub const QINFER_FINISH_END: u32 = 1;
pub const QINFER_FINISH_STOP: u32 = 2;
pub const QINFER_FINISH_LENGTH: u32 = 3;
pub const QINFER_FINISH_CALLBACK: u32 = 4;
pub const QINFER_RESULT_IN_REASONING: u32 = 1;
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct qinfer_generate_result {
    pub struct_size: u32,
    pub finish: i32,
    pub prompt_tokens: u32,
    pub cached_tokens: u32,
    pub new_tokens: u32,
    pub reserved: u32,
    pub prefill_ns: u64,
    pub decode_ns: u64,
    pub flags: u32,
    pub reasoning_tokens: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of qinfer_generate_result"][::core::mem::size_of::<qinfer_generate_result>() - 48usize];
    ["Alignment of qinfer_generate_result"]
        [::core::mem::align_of::<qinfer_generate_result>() - 8usize];
    ["Offset of field: qinfer_generate_result::struct_size"]
        [::core::mem::offset_of!(qinfer_generate_result, struct_size) - 0usize];
    ["Offset of field: qinfer_generate_result::finish"]
        [::core::mem::offset_of!(qinfer_generate_result, finish) - 4usize];
    ["Offset of field: qinfer_generate_result::prompt_tokens"]
        [::core::mem::offset_of!(qinfer_generate_result, prompt_tokens) - 8usize];
    ["Offset of field: qinfer_generate_result::cached_tokens"]
        [::core::mem::offset_of!(qinfer_generate_result, cached_tokens) - 12usize];
    ["Offset of field: qinfer_generate_result::new_tokens"]
        [::core::mem::offset_of!(qinfer_generate_result, new_tokens) - 16usize];
    ["Offset of field: qinfer_generate_result::reserved"]
        [::core::mem::offset_of!(qinfer_generate_result, reserved) - 20usize];
    ["Offset of field: qinfer_generate_result::prefill_ns"]
        [::core::mem::offset_of!(qinfer_generate_result, prefill_ns) - 24usize];
    ["Offset of field: qinfer_generate_result::decode_ns"]
        [::core::mem::offset_of!(qinfer_generate_result, decode_ns) - 32usize];
    ["Offset of field: qinfer_generate_result::flags"]
        [::core::mem::offset_of!(qinfer_generate_result, flags) - 40usize];
    ["Offset of field: qinfer_generate_result::reasoning_tokens"]
        [::core::mem::offset_of!(qinfer_generate_result, reasoning_tokens) - 44usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct qinfer_scheduler {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct qinfer_request {
    _unused: [u8; 0],
}
#[doc = " Nanoseconds since any moment; never goes back. Called by qinfer_scheduler_step."]
pub type qinfer_clock_fn =
    ::core::option::Option<unsafe extern "C" fn(user: *mut ::core::ffi::c_void) -> u64>;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct qinfer_scheduler_options {
    pub struct_size: u32,
    pub flags: u32,
    pub max_running: u32,
    pub max_waiting: u32,
    pub step_ns: u64,
    pub clock: qinfer_clock_fn,
    pub clock_user: *mut ::core::ffi::c_void,
    pub park_path: *const ::core::ffi::c_char,
    pub park_files: *const qinfer_files,
    pub park_bytes: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of qinfer_scheduler_options"]
        [::core::mem::size_of::<qinfer_scheduler_options>() - 64usize];
    ["Alignment of qinfer_scheduler_options"]
        [::core::mem::align_of::<qinfer_scheduler_options>() - 8usize];
    ["Offset of field: qinfer_scheduler_options::struct_size"]
        [::core::mem::offset_of!(qinfer_scheduler_options, struct_size) - 0usize];
    ["Offset of field: qinfer_scheduler_options::flags"]
        [::core::mem::offset_of!(qinfer_scheduler_options, flags) - 4usize];
    ["Offset of field: qinfer_scheduler_options::max_running"]
        [::core::mem::offset_of!(qinfer_scheduler_options, max_running) - 8usize];
    ["Offset of field: qinfer_scheduler_options::max_waiting"]
        [::core::mem::offset_of!(qinfer_scheduler_options, max_waiting) - 12usize];
    ["Offset of field: qinfer_scheduler_options::step_ns"]
        [::core::mem::offset_of!(qinfer_scheduler_options, step_ns) - 16usize];
    ["Offset of field: qinfer_scheduler_options::clock"]
        [::core::mem::offset_of!(qinfer_scheduler_options, clock) - 24usize];
    ["Offset of field: qinfer_scheduler_options::clock_user"]
        [::core::mem::offset_of!(qinfer_scheduler_options, clock_user) - 32usize];
    ["Offset of field: qinfer_scheduler_options::park_path"]
        [::core::mem::offset_of!(qinfer_scheduler_options, park_path) - 40usize];
    ["Offset of field: qinfer_scheduler_options::park_files"]
        [::core::mem::offset_of!(qinfer_scheduler_options, park_files) - 48usize];
    ["Offset of field: qinfer_scheduler_options::park_bytes"]
        [::core::mem::offset_of!(qinfer_scheduler_options, park_bytes) - 56usize];
};
impl Default for qinfer_scheduler_options {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct qinfer_request_options {
    pub struct_size: u32,
    pub priority: i32,
    pub key: u64,
    pub deadline_ns: u64,
    pub user: *mut ::core::ffi::c_void,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of qinfer_request_options"][::core::mem::size_of::<qinfer_request_options>() - 32usize];
    ["Alignment of qinfer_request_options"]
        [::core::mem::align_of::<qinfer_request_options>() - 8usize];
    ["Offset of field: qinfer_request_options::struct_size"]
        [::core::mem::offset_of!(qinfer_request_options, struct_size) - 0usize];
    ["Offset of field: qinfer_request_options::priority"]
        [::core::mem::offset_of!(qinfer_request_options, priority) - 4usize];
    ["Offset of field: qinfer_request_options::key"]
        [::core::mem::offset_of!(qinfer_request_options, key) - 8usize];
    ["Offset of field: qinfer_request_options::deadline_ns"]
        [::core::mem::offset_of!(qinfer_request_options, deadline_ns) - 16usize];
    ["Offset of field: qinfer_request_options::user"]
        [::core::mem::offset_of!(qinfer_request_options, user) - 24usize];
};
impl Default for qinfer_request_options {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
pub const QINFER_EVENT_NONE: u32 = 0;
pub const QINFER_EVENT_PROMPT: u32 = 1;
pub const QINFER_EVENT_TOKEN: u32 = 2;
pub const QINFER_EVENT_END: u32 = 3;
pub const QINFER_EVENT_RESERVED: u32 = 4;
#[doc = " PROMPT  Some of the prompt was evaluated: n_evaluated of n_tokens.\n  TOKEN   token: what qinfer_generation_next gives; its text and arrays are valid until the next step, or until the\n          generation is freed and its END was taken.\n  END     The last event of a request: status, and if that is not QINFER_OK message. The text that was held back is\n          given by qinfer_generation_finish then.\n  RESERVED  Of qinfer_scheduler_reserve: the blocks are promised."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct qinfer_event {
    pub struct_size: u32,
    pub kind: i32,
    pub request: *mut qinfer_request,
    pub user: *mut ::core::ffi::c_void,
    pub n_evaluated: u32,
    pub n_tokens: u32,
    pub status: qinfer_status,
    pub reserved: u32,
    pub message: *const ::core::ffi::c_char,
    pub token: qinfer_token_info,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of qinfer_event"][::core::mem::size_of::<qinfer_event>() - 104usize];
    ["Alignment of qinfer_event"][::core::mem::align_of::<qinfer_event>() - 8usize];
    ["Offset of field: qinfer_event::struct_size"]
        [::core::mem::offset_of!(qinfer_event, struct_size) - 0usize];
    ["Offset of field: qinfer_event::kind"][::core::mem::offset_of!(qinfer_event, kind) - 4usize];
    ["Offset of field: qinfer_event::request"]
        [::core::mem::offset_of!(qinfer_event, request) - 8usize];
    ["Offset of field: qinfer_event::user"][::core::mem::offset_of!(qinfer_event, user) - 16usize];
    ["Offset of field: qinfer_event::n_evaluated"]
        [::core::mem::offset_of!(qinfer_event, n_evaluated) - 24usize];
    ["Offset of field: qinfer_event::n_tokens"]
        [::core::mem::offset_of!(qinfer_event, n_tokens) - 28usize];
    ["Offset of field: qinfer_event::status"]
        [::core::mem::offset_of!(qinfer_event, status) - 32usize];
    ["Offset of field: qinfer_event::reserved"]
        [::core::mem::offset_of!(qinfer_event, reserved) - 36usize];
    ["Offset of field: qinfer_event::message"]
        [::core::mem::offset_of!(qinfer_event, message) - 40usize];
    ["Offset of field: qinfer_event::token"]
        [::core::mem::offset_of!(qinfer_event, token) - 48usize];
};
impl Default for qinfer_event {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct qinfer_scheduler_stats {
    pub struct_size: u32,
    pub parked: u32,
    pub waiting: u32,
    pub running: u32,
    pub promised_bytes: u64,
    pub submitted: u64,
    pub ended: u64,
    pub steps: u64,
    pub decode_rows: u64,
    pub prompt_rows: u64,
    pub last_step_ns: u64,
    pub parked_bytes: u64,
    pub times_parked: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of qinfer_scheduler_stats"][::core::mem::size_of::<qinfer_scheduler_stats>() - 88usize];
    ["Alignment of qinfer_scheduler_stats"]
        [::core::mem::align_of::<qinfer_scheduler_stats>() - 8usize];
    ["Offset of field: qinfer_scheduler_stats::struct_size"]
        [::core::mem::offset_of!(qinfer_scheduler_stats, struct_size) - 0usize];
    ["Offset of field: qinfer_scheduler_stats::parked"]
        [::core::mem::offset_of!(qinfer_scheduler_stats, parked) - 4usize];
    ["Offset of field: qinfer_scheduler_stats::waiting"]
        [::core::mem::offset_of!(qinfer_scheduler_stats, waiting) - 8usize];
    ["Offset of field: qinfer_scheduler_stats::running"]
        [::core::mem::offset_of!(qinfer_scheduler_stats, running) - 12usize];
    ["Offset of field: qinfer_scheduler_stats::promised_bytes"]
        [::core::mem::offset_of!(qinfer_scheduler_stats, promised_bytes) - 16usize];
    ["Offset of field: qinfer_scheduler_stats::submitted"]
        [::core::mem::offset_of!(qinfer_scheduler_stats, submitted) - 24usize];
    ["Offset of field: qinfer_scheduler_stats::ended"]
        [::core::mem::offset_of!(qinfer_scheduler_stats, ended) - 32usize];
    ["Offset of field: qinfer_scheduler_stats::steps"]
        [::core::mem::offset_of!(qinfer_scheduler_stats, steps) - 40usize];
    ["Offset of field: qinfer_scheduler_stats::decode_rows"]
        [::core::mem::offset_of!(qinfer_scheduler_stats, decode_rows) - 48usize];
    ["Offset of field: qinfer_scheduler_stats::prompt_rows"]
        [::core::mem::offset_of!(qinfer_scheduler_stats, prompt_rows) - 56usize];
    ["Offset of field: qinfer_scheduler_stats::last_step_ns"]
        [::core::mem::offset_of!(qinfer_scheduler_stats, last_step_ns) - 64usize];
    ["Offset of field: qinfer_scheduler_stats::parked_bytes"]
        [::core::mem::offset_of!(qinfer_scheduler_stats, parked_bytes) - 72usize];
    ["Offset of field: qinfer_scheduler_stats::times_parked"]
        [::core::mem::offset_of!(qinfer_scheduler_stats, times_parked) - 80usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct qinfer_openai_request {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct qinfer_openai_answer {
    _unused: [u8; 0],
}
pub const QINFER_OPENAI_CHAT: u32 = 1;
pub const QINFER_OPENAI_COMPLETION: u32 = 2;
pub const QINFER_OPENAI_EMBEDDINGS: u32 = 3;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct qinfer_openai_options {
    pub struct_size: u32,
    pub flags: u32,
    pub chat: *const qinfer_chat_options,
    pub seed: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of qinfer_openai_options"][::core::mem::size_of::<qinfer_openai_options>() - 24usize];
    ["Alignment of qinfer_openai_options"]
        [::core::mem::align_of::<qinfer_openai_options>() - 8usize];
    ["Offset of field: qinfer_openai_options::struct_size"]
        [::core::mem::offset_of!(qinfer_openai_options, struct_size) - 0usize];
    ["Offset of field: qinfer_openai_options::flags"]
        [::core::mem::offset_of!(qinfer_openai_options, flags) - 4usize];
    ["Offset of field: qinfer_openai_options::chat"]
        [::core::mem::offset_of!(qinfer_openai_options, chat) - 8usize];
    ["Offset of field: qinfer_openai_options::seed"]
        [::core::mem::offset_of!(qinfer_openai_options, seed) - 16usize];
};
impl Default for qinfer_openai_options {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
pub const QINFER_OPENAI_STREAM: u32 = 1;
pub const QINFER_OPENAI_PROMPT_LOGPROBS: u32 = 2;
pub const QINFER_OPENAI_NO_NEW_TOKENS: u32 = 4;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct qinfer_openai_info {
    pub struct_size: u32,
    pub kind: i32,
    pub flags: u32,
    pub n_prompts: u32,
    pub n_choices: u32,
    pub longest_prompt: u32,
    pub max_new_tokens: u32,
    pub reserved: u32,
    pub model: *const ::core::ffi::c_char,
    pub model_len: usize,
    pub schema: *const ::core::ffi::c_char,
    pub schema_len: usize,
    pub unused: *const ::core::ffi::c_char,
    pub unused_len: usize,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of qinfer_openai_info"][::core::mem::size_of::<qinfer_openai_info>() - 80usize];
    ["Alignment of qinfer_openai_info"][::core::mem::align_of::<qinfer_openai_info>() - 8usize];
    ["Offset of field: qinfer_openai_info::struct_size"]
        [::core::mem::offset_of!(qinfer_openai_info, struct_size) - 0usize];
    ["Offset of field: qinfer_openai_info::kind"]
        [::core::mem::offset_of!(qinfer_openai_info, kind) - 4usize];
    ["Offset of field: qinfer_openai_info::flags"]
        [::core::mem::offset_of!(qinfer_openai_info, flags) - 8usize];
    ["Offset of field: qinfer_openai_info::n_prompts"]
        [::core::mem::offset_of!(qinfer_openai_info, n_prompts) - 12usize];
    ["Offset of field: qinfer_openai_info::n_choices"]
        [::core::mem::offset_of!(qinfer_openai_info, n_choices) - 16usize];
    ["Offset of field: qinfer_openai_info::longest_prompt"]
        [::core::mem::offset_of!(qinfer_openai_info, longest_prompt) - 20usize];
    ["Offset of field: qinfer_openai_info::max_new_tokens"]
        [::core::mem::offset_of!(qinfer_openai_info, max_new_tokens) - 24usize];
    ["Offset of field: qinfer_openai_info::reserved"]
        [::core::mem::offset_of!(qinfer_openai_info, reserved) - 28usize];
    ["Offset of field: qinfer_openai_info::model"]
        [::core::mem::offset_of!(qinfer_openai_info, model) - 32usize];
    ["Offset of field: qinfer_openai_info::model_len"]
        [::core::mem::offset_of!(qinfer_openai_info, model_len) - 40usize];
    ["Offset of field: qinfer_openai_info::schema"]
        [::core::mem::offset_of!(qinfer_openai_info, schema) - 48usize];
    ["Offset of field: qinfer_openai_info::schema_len"]
        [::core::mem::offset_of!(qinfer_openai_info, schema_len) - 56usize];
    ["Offset of field: qinfer_openai_info::unused"]
        [::core::mem::offset_of!(qinfer_openai_info, unused) - 64usize];
    ["Offset of field: qinfer_openai_info::unused_len"]
        [::core::mem::offset_of!(qinfer_openai_info, unused_len) - 72usize];
};
impl Default for qinfer_openai_info {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct qinfer_openai_answer_options {
    pub struct_size: u32,
    pub reserved: u32,
    pub id: *const ::core::ffi::c_char,
    pub model: *const ::core::ffi::c_char,
    pub created: i64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of qinfer_openai_answer_options"]
        [::core::mem::size_of::<qinfer_openai_answer_options>() - 32usize];
    ["Alignment of qinfer_openai_answer_options"]
        [::core::mem::align_of::<qinfer_openai_answer_options>() - 8usize];
    ["Offset of field: qinfer_openai_answer_options::struct_size"]
        [::core::mem::offset_of!(qinfer_openai_answer_options, struct_size) - 0usize];
    ["Offset of field: qinfer_openai_answer_options::reserved"]
        [::core::mem::offset_of!(qinfer_openai_answer_options, reserved) - 4usize];
    ["Offset of field: qinfer_openai_answer_options::id"]
        [::core::mem::offset_of!(qinfer_openai_answer_options, id) - 8usize];
    ["Offset of field: qinfer_openai_answer_options::model"]
        [::core::mem::offset_of!(qinfer_openai_answer_options, model) - 16usize];
    ["Offset of field: qinfer_openai_answer_options::created"]
        [::core::mem::offset_of!(qinfer_openai_answer_options, created) - 24usize];
};
impl Default for qinfer_openai_answer_options {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[doc = " Totals since creation; a session counts its own share of a batch. A token that a session evaluates alone in a call\n  counts as decoded, more than one as prefill."]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct qinfer_metrics {
    pub struct_size: u32,
    pub reserved: u32,
    pub prefill_tokens: u64,
    pub decode_tokens: u64,
    pub evals: u64,
    pub cached_tokens: u64,
    pub prefill_ns: u64,
    pub decode_ns: u64,
    pub sample_ns: u64,
    pub wait_ns: u64,
    pub drafted: [u64; 16usize],
    pub accepted: [u64; 16usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of qinfer_metrics"][::core::mem::size_of::<qinfer_metrics>() - 328usize];
    ["Alignment of qinfer_metrics"][::core::mem::align_of::<qinfer_metrics>() - 8usize];
    ["Offset of field: qinfer_metrics::struct_size"]
        [::core::mem::offset_of!(qinfer_metrics, struct_size) - 0usize];
    ["Offset of field: qinfer_metrics::reserved"]
        [::core::mem::offset_of!(qinfer_metrics, reserved) - 4usize];
    ["Offset of field: qinfer_metrics::prefill_tokens"]
        [::core::mem::offset_of!(qinfer_metrics, prefill_tokens) - 8usize];
    ["Offset of field: qinfer_metrics::decode_tokens"]
        [::core::mem::offset_of!(qinfer_metrics, decode_tokens) - 16usize];
    ["Offset of field: qinfer_metrics::evals"]
        [::core::mem::offset_of!(qinfer_metrics, evals) - 24usize];
    ["Offset of field: qinfer_metrics::cached_tokens"]
        [::core::mem::offset_of!(qinfer_metrics, cached_tokens) - 32usize];
    ["Offset of field: qinfer_metrics::prefill_ns"]
        [::core::mem::offset_of!(qinfer_metrics, prefill_ns) - 40usize];
    ["Offset of field: qinfer_metrics::decode_ns"]
        [::core::mem::offset_of!(qinfer_metrics, decode_ns) - 48usize];
    ["Offset of field: qinfer_metrics::sample_ns"]
        [::core::mem::offset_of!(qinfer_metrics, sample_ns) - 56usize];
    ["Offset of field: qinfer_metrics::wait_ns"]
        [::core::mem::offset_of!(qinfer_metrics, wait_ns) - 64usize];
    ["Offset of field: qinfer_metrics::drafted"]
        [::core::mem::offset_of!(qinfer_metrics, drafted) - 72usize];
    ["Offset of field: qinfer_metrics::accepted"]
        [::core::mem::offset_of!(qinfer_metrics, accepted) - 200usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct qinfer_session_memory {
    pub struct_size: u32,
    pub reserved: u32,
    pub kv_private: u64,
    pub kv_shared: u64,
    pub kv_reserved: u64,
    pub other: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of qinfer_session_memory"][::core::mem::size_of::<qinfer_session_memory>() - 40usize];
    ["Alignment of qinfer_session_memory"]
        [::core::mem::align_of::<qinfer_session_memory>() - 8usize];
    ["Offset of field: qinfer_session_memory::struct_size"]
        [::core::mem::offset_of!(qinfer_session_memory, struct_size) - 0usize];
    ["Offset of field: qinfer_session_memory::reserved"]
        [::core::mem::offset_of!(qinfer_session_memory, reserved) - 4usize];
    ["Offset of field: qinfer_session_memory::kv_private"]
        [::core::mem::offset_of!(qinfer_session_memory, kv_private) - 8usize];
    ["Offset of field: qinfer_session_memory::kv_shared"]
        [::core::mem::offset_of!(qinfer_session_memory, kv_shared) - 16usize];
    ["Offset of field: qinfer_session_memory::kv_reserved"]
        [::core::mem::offset_of!(qinfer_session_memory, kv_reserved) - 24usize];
    ["Offset of field: qinfer_session_memory::other"]
        [::core::mem::offset_of!(qinfer_session_memory, other) - 32usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct qinfer_session_info {
    pub struct_size: u32,
    pub flags: u32,
    pub max_tokens: u32,
    pub max_logits: u32,
    pub n_tokens: u64,
    pub n_evaluated: u64,
    pub n_logits: u32,
    pub n_bias: u32,
    pub has_logits_hook: u32,
    pub max_draft: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of qinfer_session_info"][::core::mem::size_of::<qinfer_session_info>() - 48usize];
    ["Alignment of qinfer_session_info"][::core::mem::align_of::<qinfer_session_info>() - 8usize];
    ["Offset of field: qinfer_session_info::struct_size"]
        [::core::mem::offset_of!(qinfer_session_info, struct_size) - 0usize];
    ["Offset of field: qinfer_session_info::flags"]
        [::core::mem::offset_of!(qinfer_session_info, flags) - 4usize];
    ["Offset of field: qinfer_session_info::max_tokens"]
        [::core::mem::offset_of!(qinfer_session_info, max_tokens) - 8usize];
    ["Offset of field: qinfer_session_info::max_logits"]
        [::core::mem::offset_of!(qinfer_session_info, max_logits) - 12usize];
    ["Offset of field: qinfer_session_info::n_tokens"]
        [::core::mem::offset_of!(qinfer_session_info, n_tokens) - 16usize];
    ["Offset of field: qinfer_session_info::n_evaluated"]
        [::core::mem::offset_of!(qinfer_session_info, n_evaluated) - 24usize];
    ["Offset of field: qinfer_session_info::n_logits"]
        [::core::mem::offset_of!(qinfer_session_info, n_logits) - 32usize];
    ["Offset of field: qinfer_session_info::n_bias"]
        [::core::mem::offset_of!(qinfer_session_info, n_bias) - 36usize];
    ["Offset of field: qinfer_session_info::has_logits_hook"]
        [::core::mem::offset_of!(qinfer_session_info, has_logits_hook) - 40usize];
    ["Offset of field: qinfer_session_info::max_draft"]
        [::core::mem::offset_of!(qinfer_session_info, max_draft) - 44usize];
};
unsafe extern "C" {
    #[doc = " What to pass as err, so that a call that fails fills *error. Use it for nothing else: it is not the address of a\n  qinfer_error, and must not be read or written through. NULL gives NULL."]
    pub fn qinfer_full_error_arg(error: *mut qinfer_full_error) -> *mut qinfer_error;
    pub fn qinfer_version() -> u32;
    pub fn qinfer_version_string() -> *const ::core::ffi::c_char;
    pub fn qinfer_build_info() -> *const ::core::ffi::c_char;
    pub fn qinfer_status_name(status: qinfer_status) -> *const ::core::ffi::c_char;
    pub fn qinfer_get_cpu_info(out: *mut qinfer_cpu_info, err: *mut qinfer_error) -> qinfer_status;
    #[doc = " As the CPU names itself: \"AMD EPYC\"."]
    pub fn qinfer_cpu_name(
        text: *mut ::core::ffi::c_char,
        capacity: usize,
        out_n: *mut usize,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " \"avx2 fma avx512f\": all that CPU and operating system offer, in words separated by spaces."]
    pub fn qinfer_cpu_features(
        text: *mut ::core::ffi::c_char,
        capacity: usize,
        out_n: *mut usize,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    pub fn qinfer_kernel_set_count() -> usize;
    #[doc = " Below qinfer_kernel_set_count(), else QINFER_E_INVALID_ARGUMENT."]
    pub fn qinfer_kernel_set_get_info(
        index: usize,
        out: *mut qinfer_kernel_set_info,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    pub fn qinfer_kv_type_name(kv_type: i32) -> *const ::core::ffi::c_char;
    pub fn qinfer_cancel_create(
        out: *mut *mut qinfer_cancel,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " [any thread, async-signal-safe] Sticky until reset, so a request made before the call counts."]
    pub fn qinfer_cancel_request(cancel: *mut qinfer_cancel);
    pub fn qinfer_cancel_reset(cancel: *mut qinfer_cancel);
    pub fn qinfer_cancel_free(cancel: *mut qinfer_cancel);
    #[doc = " Evaluations on one runtime run one after another, each on all of its threads. options may be NULL."]
    pub fn qinfer_runtime_create(
        options: *const qinfer_runtime_options,
        out: *mut *mut qinfer_runtime,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    pub fn qinfer_runtime_free(runtime: *mut qinfer_runtime);
    pub fn qinfer_runtime_get_info(
        runtime: *const qinfer_runtime,
        out: *mut qinfer_runtime_info,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " What loading and creating with these options will take. Reads headers only; path may also be a packed model or a\n  lone config.json. Any options may be NULL."]
    pub fn qinfer_model_plan(
        path: *const ::core::ffi::c_char,
        runtime: *const qinfer_runtime_options,
        load: *const qinfer_load_options,
        cache: *const qinfer_kv_cache_options,
        session: *const qinfer_session_options,
        out: *mut qinfer_memory,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " The same, buffer by buffer, as JSON: {\"model\": {...}, \"regions\": [{\"name\", \"belongs_to\": \"model\" | \"cache\" |\n  \"session\", \"bytes\", \"buffers\": [{\"name\", \"offset\", \"end\", \"bytes\", \"shape\", \"dtype\", \"lifetime\"}]}]}. Regions that\n  belong to model and cache add up to `total`, those of a session to `per_session`. In scratch, buffers whose\n  lifetimes (first and last step of a layer) do not meet may share bytes. Bytes between buffers are alignment to 64\n  bytes, or 4096 for blocks."]
    pub fn qinfer_model_plan_map(
        path: *const ::core::ffi::c_char,
        runtime: *const qinfer_runtime_options,
        load: *const qinfer_load_options,
        cache: *const qinfer_kv_cache_options,
        session: *const qinfer_session_options,
        json: *mut ::core::ffi::c_char,
        capacity: usize,
        out_n: *mut usize,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " Reads headers only, and takes no memory that lasts; path as in qinfer_model_plan. Of the options, which may be\n  NULL, only QINFER_LOAD_NO_WEIGHTS (the tensors need not be there), packed_path, files and cancel matter. texts: room\n  for the three texts, NUL-terminated, which *out then points to; *out_n is how much they take, hardly ever more than\n  1024."]
    pub fn qinfer_model_inspect(
        path: *const ::core::ffi::c_char,
        options: *const qinfer_load_options,
        out: *mut qinfer_model_details,
        texts: *mut ::core::ffi::c_char,
        capacity: usize,
        out_n: *mut usize,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " path: a directory (config.json, *.safetensors, tokenizer.json), a GGUF file (of a split one the first part; the\n  other parts are in the same directory) or a directory that holds one, or a file that qinfer_model_pack wrote.\n  runtime NULL: a private runtime with defaults. options may be NULL. What does not matter refuses no model, such as\n  a token that the model has no row for; the log (QINFER_LOG_WARN) and the metadata \"qinfer.note.1\" and so on say\n  what was passed over or put right. A decoder without lm_head.weight gives embeddings, and no logits."]
    pub fn qinfer_model_load(
        runtime: *mut qinfer_runtime,
        path: *const ::core::ffi::c_char,
        options: *const qinfer_load_options,
        out: *mut *mut qinfer_model,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    pub fn qinfer_model_free(model: *mut qinfer_model);
    #[doc = " Writes the model directory or GGUF file `path` to one file that holds the weights as the runtime's kernel set wants\n  them, the tokenizer and the RoPE table. Loading it is a mapping, shared between processes. Needs the memory of a\n  loaded model. out_path appears whole or not at all. An existing file is replaced (links are followed) only if it is\n  empty or was written by this function, else QINFER_E_FORMAT, and if its owner may write to it, else QINFER_E_IO\n  (EACCES); a file of the model directory is QINFER_E_INVALID_ARGUMENT. Weights are converted on all threads of the\n  runtime, and written to the file on the calling one. A packed file that is cut, altered in its header, or packed\n  for other kernels is refused when loaded; QINFER_LOAD_VERIFY also checks its matrices. Both paths are the operating\n  system's: options with files are QINFER_E_UNSUPPORTED.\n\n  weight_format may also be \"q8_0\", \"q4_0\" or \"q4_k_m\", which quantise a checkpoint of f32, f16 and bf16: the mixes of\n  encodings that llama-quantize calls so, without an importance matrix. The log has a line at QINFER_LOG_INFO for each\n  matrix, with its encoding, bits and relative root mean square error. Needs the memory of the quantised model, and\n  some MiB to read. A model that is quantised already is QINFER_E_UNSUPPORTED; a weight that is not finite, or\n  beyond the range of f16, is QINFER_E_FORMAT."]
    pub fn qinfer_model_pack(
        runtime: *mut qinfer_runtime,
        path: *const ::core::ffi::c_char,
        options: *const qinfer_load_options,
        out_path: *const ::core::ffi::c_char,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " Writes the model directory or GGUF file `path` to one GGUF file, which this library and llama.cpp read: weights as\n  they are, or with weight_format quantised as qinfer_model_pack does. Some MiB at a time are in memory. The file has\n  the tokenizer as tokenizer.json (for this library) and, where llama.cpp has a name for what it does, in llama.cpp's\n  keys. The log says at QINFER_LOG_WARN what llama.cpp cannot read of the file, or reads with another meaning. The\n  header is read back before weights are written: QINFER_E_UNSUPPORTED if GGUF has no architecture, or no key, for\n  what the model is. An existing file is replaced only if it is empty or a GGUF file. The rest is as in\n  qinfer_model_pack."]
    pub fn qinfer_model_export_gguf(
        runtime: *mut qinfer_runtime,
        path: *const ::core::ffi::c_char,
        options: *const qinfer_load_options,
        out_path: *const ::core::ffi::c_char,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    pub fn qinfer_model_get_info(
        model: *const qinfer_model,
        out: *mut qinfer_model_info,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    pub fn qinfer_model_get_memory(
        model: *const qinfer_model,
        out: *mut qinfer_memory,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " 0 under QINFER_LOAD_NO_WEIGHTS."]
    pub fn qinfer_model_encoding_count(model: *const qinfer_model) -> usize;
    #[doc = " Below qinfer_model_encoding_count(), else QINFER_E_INVALID_ARGUMENT."]
    pub fn qinfer_model_encoding_info(
        model: *const qinfer_model,
        index: usize,
        out: *mut qinfer_encoding_info,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " [any thread] How many tokens each expert of a layer was chosen for since the model was loaded, for hosts that place\n  experts; during an evaluation as far as it has come. *out_n: experts of the layer, 0 where it has none. All counts\n  are 0 under QINFER_LOAD_NO_WEIGHTS. Tokens taken from a cache are not counted, nor are tokens for which the router\n  gave a number that is not finite; a token that is evaluated again is counted again. layer: below n_layers, else\n  QINFER_E_INVALID_ARGUMENT."]
    pub fn qinfer_model_expert_counts(
        model: *const qinfer_model,
        layer: u32,
        counts: *mut u64,
        capacity: usize,
        out_n: *mut usize,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " Stored metadata as text, sorted by key. Pointers live as long as the model; NULL if there is none."]
    pub fn qinfer_model_meta_count(model: *const qinfer_model) -> usize;
    pub fn qinfer_model_meta_key(
        model: *const qinfer_model,
        index: usize,
    ) -> *const ::core::ffi::c_char;
    pub fn qinfer_model_meta_value(
        model: *const qinfer_model,
        key: *const ::core::ffi::c_char,
    ) -> *const ::core::ffi::c_char;
    #[doc = " Text that is not UTF-8 is QINFER_E_INVALID_ARGUMENT; detail: offset of the first bad byte."]
    pub fn qinfer_tokenize(
        model: *const qinfer_model,
        text: *const ::core::ffi::c_char,
        len: usize,
        flags: u32,
        tokens: *mut qinfer_token,
        capacity: usize,
        out_n: *mut usize,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " The same with options, which may be NULL. Everything that the tokenizer's patterns and tables do with a text is\n  counted in steps. Beyond max_work the call ends with QINFER_E_UNSUPPORTED (detail: offset of the text that was not\n  read any more), so that no tokenizer file can make it hang. The tokenizers of known models take 4 to 16 steps for a\n  byte."]
    pub fn qinfer_tokenize_with(
        model: *const qinfer_model,
        text: *const ::core::ffi::c_char,
        len: usize,
        options: *const qinfer_tokenize_options,
        tokens: *mut qinfer_token,
        capacity: usize,
        out_n: *mut usize,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " Raw bytes of one token, perhaps part of a character. Live as long as the model."]
    pub fn qinfer_token_text(
        model: *const qinfer_model,
        token: qinfer_token,
        out_n: *mut usize,
    ) -> *const ::core::ffi::c_char;
    pub fn qinfer_token_flags(model: *const qinfer_model, token: qinfer_token) -> u32;
    #[doc = " The token whose entry in the tokenizer is exactly this text, as the file writes it: \"<|im_end|>\", or in a byte-level\n  vocabulary an entry with its stand-ins for bytes. QINFER_E_NOT_FOUND if there is none, or no tokenizer."]
    pub fn qinfer_token_find(
        model: *const qinfer_model,
        text: *const ::core::ffi::c_char,
        len: usize,
        out: *mut qinfer_token,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " The tokens that end generation, each once (QINFER_TOKEN_END); there may be none. They are those that the model's\n  files name, added tokens whose name says it (\"<|im_end|>\"), and what the chat template writes after an answer."]
    pub fn qinfer_model_end_tokens(
        model: *const qinfer_model,
        tokens: *mut qinfer_token,
        capacity: usize,
        out_n: *mut usize,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " The model's chat template, as its files have it (usually Jinja). name NULL: the template called \"default\", which is\n  also the name of a template without one. QINFER_E_NOT_FOUND if there is none."]
    pub fn qinfer_model_chat_template(
        model: *const qinfer_model,
        name: *const ::core::ffi::c_char,
        text: *mut ::core::ffi::c_char,
        capacity: usize,
        out_n: *mut usize,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " Names of its chat templates, sorted; NULL past the last. Live as long as the model."]
    pub fn qinfer_model_chat_template_name(
        model: *const qinfer_model,
        index: usize,
    ) -> *const ::core::ffi::c_char;
    #[doc = " Renders a conversation with the chat template. A conversation is a JSON object of the template's variables, such as\n  {\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], \"tools\": [...], \"enable_thinking\": false}. If it has no bos_token\n  or eos_token, the template finds the model's. The template is Jinja as transformers sets it up, in an interpreter\n  that has no access to files, environment or network. `content` gets the parts of the text that came from the\n  conversation, for qinfer_tokenize_with; it and out_n_content may be NULL. options may be NULL.\n\n  QINFER_E_NOT_FOUND if there is no template. QINFER_E_FORMAT if the template or the conversation cannot be read, with\n  line and column. QINFER_E_INVALID_ARGUMENT if the template fails on this conversation, also when it raises an error\n  itself, such as that roles must alternate. QINFER_E_UNSUPPORTED if a part of a message is an image, sound or video,\n  or the template asks for something that is refused, or goes beyond the bounds of steps, text and memory that every\n  template has (docs/security.md)."]
    pub fn qinfer_chat_render(
        model: *const qinfer_model,
        conversation: *const ::core::ffi::c_char,
        len: usize,
        options: *const qinfer_chat_options,
        text: *mut ::core::ffi::c_char,
        capacity: usize,
        out_n: *mut usize,
        content: *mut qinfer_text_part,
        content_capacity: usize,
        out_n_content: *mut usize,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " The tokens of the rendered text; no begin or end token is added. No byte that came from the conversation becomes\n  part of a control token, whatever messages, tools and documents say: see qinfer_tokenize_options.content. Otherwise\n  the ids are those of the whole text."]
    pub fn qinfer_chat_tokenize(
        model: *const qinfer_model,
        conversation: *const ::core::ffi::c_char,
        len: usize,
        options: *const qinfer_chat_options,
        tokens: *mut qinfer_token,
        capacity: usize,
        out_n: *mut usize,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " Takes the reply to a conversation apart while it is generated, into content, reasoning and calls of tools.\n  conversation, len and options->chat are those of the prompt (with QINFER_CHAT_GENERATION_PROMPT if it had that);\n  errors as in qinfer_chat_tokenize. Text that is not a call as the family writes it is content, unchanged. A reply is\n  for one thread at a time; callbacks of qinfer_generate may use it."]
    pub fn qinfer_reply_create(
        model: *const qinfer_model,
        conversation: *const ::core::ffi::c_char,
        len: usize,
        options: *const qinfer_reply_options,
        out: *mut *mut qinfer_reply,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " Adds the next token of the reply; an end token, and other control tokens that are no markers, add nothing. After\n  qinfer_reply_finish QINFER_E_STATE; after QINFER_E_NO_MEMORY the reply can only be freed."]
    pub fn qinfer_reply_push(
        reply: *mut qinfer_reply,
        token: qinfer_token,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " The reply is complete: text that was held back becomes parts."]
    pub fn qinfer_reply_finish(reply: *mut qinfer_reply, err: *mut qinfer_error) -> qinfer_status;
    #[doc = " The next part, in order. Content and reasoning come in pieces as soon as they cannot be part of a marker, calls when\n  they are complete."]
    pub fn qinfer_reply_next(
        reply: *mut qinfer_reply,
        out: *mut qinfer_reply_part,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " The reply so far as a message, in JSON, to add to the conversation's messages: {\"role\": \"assistant\", \"content\": ...,\n  \"reasoning_content\": ..., \"tool_calls\": [{\"id\", \"type\", \"function\": {\"name\", \"arguments\"}}]}, the last two only if\n  there are any. arguments is an object or, where the family's templates want a text, that object as text."]
    pub fn qinfer_reply_message(
        reply: *const qinfer_reply,
        json: *mut ::core::ffi::c_char,
        capacity: usize,
        out_n: *mut usize,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " *out: 1 while the reply is in its reasoning, whose end has not come; otherwise 0. For hosts that draw tokens with\n  qinfer_session_sample and have a grammar: it is for what comes after the reasoning."]
    pub fn qinfer_reply_in_reasoning(
        reply: *const qinfer_reply,
        out: *mut i32,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " The tokens that end its reasoning, whether it is in one or not: *out_n of them, none for a family without reasoning.\n  For such hosts, too, where they bound it: they append these tokens instead of drawing some."]
    pub fn qinfer_reply_reasoning_end(
        reply: *const qinfer_reply,
        tokens: *mut qinfer_token,
        capacity: usize,
        out_n: *mut usize,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    pub fn qinfer_reply_free(reply: *mut qinfer_reply);
    pub fn qinfer_detok_create(
        model: *const qinfer_model,
        out: *mut *mut qinfer_detok,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " Emits whole characters and holds back an unfinished one; invalid bytes become U+FFFD. A capacity of\n  max_token_bytes * 3 + 16 always suffices."]
    pub fn qinfer_detok_push(
        detok: *mut qinfer_detok,
        token: qinfer_token,
        text: *mut ::core::ffi::c_char,
        capacity: usize,
        out_n: *mut usize,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " Emits what is held back and starts over."]
    pub fn qinfer_detok_finish(
        detok: *mut qinfer_detok,
        text: *mut ::core::ffi::c_char,
        capacity: usize,
        out_n: *mut usize,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    pub fn qinfer_detok_free(detok: *mut qinfer_detok);
    pub fn qinfer_kv_cache_create(
        model: *const qinfer_model,
        options: *const qinfer_kv_cache_options,
        out: *mut *mut qinfer_kv_cache,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    pub fn qinfer_kv_cache_free(cache: *mut qinfer_kv_cache);
    pub fn qinfer_kv_cache_get_stats(
        cache: *const qinfer_kv_cache,
        out: *mut qinfer_kv_cache_stats,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " Of these tokens, how many from the first on a session of this prefix_space (qinfer_session_options) would find in\n  the cache now if more tokens followed them: whole blocks, and 0 without QINFER_CACHE_PREFIX. Nothing is held: they\n  may be evicted at any time. For hosts that choose among several caches."]
    pub fn qinfer_kv_cache_find(
        cache: *const qinfer_kv_cache,
        tokens: *const qinfer_token,
        n: usize,
        prefix_space: u32,
        out_n: *mut usize,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " Holds the cache, which must keep prefixes (QINFER_E_UNSUPPORTED). QINFER_E_STATE while another store has the folder,\n  of this process or another. Blocks of other models, kernel sets or layouts stay there and are not found."]
    pub fn qinfer_kv_store_open(
        cache: *mut qinfer_kv_cache,
        options: *const qinfer_kv_store_options,
        out: *mut *mut qinfer_kv_store,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " *out_n (may be NULL): tokens from the session's first on that are in the folder now, as far as they fill blocks.\n  tenant: NUL-terminated; NULL = \"\". A session that was loaded from a snapshot is QINFER_E_UNSUPPORTED. With a window\n  in some layers (Gemma) a conversation is found where it was kept and not at places before; with one in all layers\n  (Mistral 0.1) only as far as all its blocks were kept. After an error what was written stays."]
    pub fn qinfer_kv_store_keep(
        store: *mut qinfer_kv_store,
        session: *mut qinfer_session,
        tenant: *const ::core::ffi::c_char,
        cancel: *const qinfer_cancel,
        out_n: *mut usize,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " *out_n (may be NULL): tokens from the first on that the cache knows now, never the last one. Where it has no room\n  for more, or a file is damaged, they are fewer: that is no error. What was put into the cache is evicted as any\n  prefix without a session."]
    pub fn qinfer_kv_store_fetch(
        store: *mut qinfer_kv_store,
        tokens: *const qinfer_token,
        n: usize,
        tenant: *const ::core::ffi::c_char,
        cancel: *const qinfer_cancel,
        out_n: *mut usize,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " The same for sessions of this prefix_space (qinfer_session_options)."]
    pub fn qinfer_kv_store_fetch_into(
        store: *mut qinfer_kv_store,
        tokens: *const qinfer_token,
        n: usize,
        tenant: *const ::core::ffi::c_char,
        prefix_space: u32,
        cancel: *const qinfer_cancel,
        out_n: *mut usize,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    pub fn qinfer_kv_store_get_stats(
        store: *const qinfer_kv_store,
        out: *mut qinfer_kv_store_stats,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    pub fn qinfer_kv_store_free(store: *mut qinfer_kv_store);
    pub fn qinfer_session_create(
        cache: *mut qinfer_kv_cache,
        options: *const qinfer_session_options,
        out: *mut *mut qinfer_session,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " Copy-on-write: blocks are shared, the last one is copied when either side first writes to it. The copy also has the\n  tokens, logits, sampler and a clone of the hook; its metrics begin at 0. Charges per_session of qinfer_memory, as\n  qinfer_session_create does, although tokens and logits are shared until one side changes them."]
    pub fn qinfer_session_fork(
        session: *const qinfer_session,
        out: *mut *mut qinfer_session,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " Keeps the first n_tokens, pending ones included; 0 resets. If evaluated tokens are dropped, the last token kept\n  becomes pending again, so that evaluating gives its logits; if a sliding window has moved beyond it, all tokens\n  become pending. The sampler rewinds; its options stay."]
    pub fn qinfer_session_truncate(
        session: *mut qinfer_session,
        n_tokens: usize,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " Writes tokens, keys, values and sampler to a file of this version of the format. If the file already holds the\n  beginning of the session, only what is new is written. A crash at any moment leaves the old state or the new one.\n  QINFER_E_FORMAT for a file that is not a snapshot, which is not overwritten. QINFER_E_STATE while another process\n  saves to it."]
    pub fn qinfer_session_save(
        session: *const qinfer_session,
        path: *const ::core::ffi::c_char,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " The same with options, which may be NULL. In a host's file a snapshot that replaces another one is first written\n  where the old one is not: the file grows to hold both, and only truncate cuts it to the size of one."]
    pub fn qinfer_session_save_with(
        session: *const qinfer_session,
        path: *const ::core::ffi::c_char,
        options: *const qinfer_session_save_options,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " Needs the same weights and kv_type as when saved. max_tokens and max_logits are those of the session that was saved\n  (qinfer_session_get_info tells); its flags and its hook are not kept. The last token is pending: evaluating it gives\n  its logits. Another kernel set than the one that saved goes on from the stored keys and values, but not with the\n  same bits. The same kernel set with other options that change bits is QINFER_E_UNSUPPORTED. QINFER_E_FORMAT if the\n  file is damaged. A file holds two states; if one has a damaged record, as after a crash while it was written, the\n  other is loaded, and qinfer_session_load_with says so."]
    pub fn qinfer_session_load(
        cache: *mut qinfer_kv_cache,
        path: *const ::core::ffi::c_char,
        out: *mut *mut qinfer_session,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " The same with options and a result, each of which may be NULL."]
    pub fn qinfer_session_load_with(
        cache: *mut qinfer_kv_cache,
        path: *const ::core::ffi::c_char,
        options: *const qinfer_session_load_options,
        out: *mut *mut qinfer_session,
        result: *mut qinfer_session_load_result,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    pub fn qinfer_session_free(session: *mut qinfer_session);
    #[doc = " Adds pending tokens, computes nothing."]
    pub fn qinfer_session_append(
        session: *mut qinfer_session,
        tokens: *const qinfer_token,
        n: usize,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " Makes these the session's tokens. The common beginning with the tokens that it holds stays as it is, evaluated or\n  pending (*out_kept tokens; may be NULL). Its other tokens are cut off, as by qinfer_session_truncate, and the\n  remaining new ones are pending. So a host passes the whole conversation for the next turn of a chat, and only what\n  is new, or what the template now writes differently, is evaluated, with the bits of a new session. After an error\n  nothing has changed."]
    pub fn qinfer_session_set_tokens(
        session: *mut qinfer_session,
        tokens: *const qinfer_token,
        n: usize,
        out_kept: *mut usize,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    pub fn qinfer_session_get_tokens(
        session: *const qinfer_session,
        tokens: *mut qinfer_token,
        capacity: usize,
        out_n: *mut usize,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    pub fn qinfer_session_length(session: *const qinfer_session) -> usize;
    pub fn qinfer_session_pending(session: *const qinfer_session) -> usize;
    #[doc = " Also reseeds, and mirostat begins anew. Without it a session is greedy."]
    pub fn qinfer_session_set_sampler(
        session: *mut qinfer_session,
        options: *const qinfer_sampler_options,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " The texts that no repetition of DRY reaches over: n of them, at most 16, of 1 to 40 bytes; n 0: none. Without this\n  call a line feed, a colon, a double quote and an asterisk. They are found in the bytes of the tokens one after\n  another; a breaker ends in the token that its last byte is in. lens: their lengths; NULL = NUL-terminated. Looks\n  through the vocabulary, which takes milliseconds; a model keeps the last four lists. Forks and snapshots have them.\n  QINFER_E_NOT_FOUND for a model without a tokenizer."]
    pub fn qinfer_session_set_dry_breakers(
        session: *mut qinfer_session,
        texts: *const *const ::core::ffi::c_char,
        lens: *const usize,
        n: usize,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " Adds values[i] to the logit of tokens[i] when sampling (-infinity bans it for good; otherwise repeated tokens add\n  up, within the range of f32). Replaces the previous list; n 0 clears it; at most n_vocab entries."]
    pub fn qinfer_session_set_bias(
        session: *mut qinfer_session,
        tokens: *const qinfer_token,
        values: *const f32,
        n: usize,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " Evaluates the pending tokens of n_sessions distinct sessions of one KV cache as one batch. Under max_tokens\n  sessions with few pending tokens come first, so decoding continues while long prompts advance in chunks.\n  Sessions without pending tokens are passed over and keep their logits; QINFER_E_STATE if no session has any.\n  Blocks for the whole call are promised first: QINFER_E_KV_FULL changes nothing. Then free, truncate, or save and\n  free other sessions of the cache, or leave some out of the batch, and call again. After any other error,\n  cancellation included, no token is lost: evaluated tokens stay evaluated, the others stay pending; call again to go\n  on."]
    pub fn qinfer_eval(
        sessions: *const *mut qinfer_session,
        n_sessions: usize,
        options: *const qinfer_eval_options,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " Replaces the session's hook; NULL removes it. After a failure the session has the hook that it had, and user still\n  belongs to the caller. Snapshots hold no hook. An encoder is QINFER_E_UNSUPPORTED."]
    pub fn qinfer_session_set_logits_hook(
        session: *mut qinfer_session,
        hook: *const qinfer_logits_hook,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " Draws one token from the last logits and appends it as pending. A session that holds max_tokens is\n  QINFER_E_CONTEXT_FULL: truncate it, or go on in another one."]
    pub fn qinfer_session_sample(
        session: *mut qinfer_session,
        out: *mut qinfer_token,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " n_vocab floats for the last evaluated token, or the one `back` earlier; NULL if not kept (max_logits, keep_logits,\n  QINFER_EVAL_NO_LOGITS). Valid until the session is next evaluated, truncated or freed. A sampler of the host reads\n  this and appends a token."]
    pub fn qinfer_session_logits(session: *const qinfer_session, back: usize) -> *const f32;
    #[doc = " The same row copied into values: n_vocab floats."]
    pub fn qinfer_session_copy_logits(
        session: *const qinfer_session,
        back: usize,
        values: *mut f32,
        capacity: usize,
        out_n: *mut usize,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " Log probabilities of tokens under the model, for the row that qinfer_session_logits(session, back) gives: the\n  natural logarithm of its softmax, l[t] - m - log(sum of exp(l - m)) with m the largest, in double. Hook, bias,\n  penalties, temperature and filters play no part. After qinfer_session_sample, back 0 is the row that the token was\n  drawn from. Fills logprobs[n]. QINFER_E_STATE if the row is not kept, QINFER_E_NUMERIC if it is not finite."]
    pub fn qinfer_session_logprobs(
        session: *const qinfer_session,
        back: usize,
        tokens: *const qinfer_token,
        n: usize,
        logprobs: *mut f64,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " The n most likely tokens of such a row and their log probabilities, in descending order, equal ones by id. n: at\n  most n_vocab, else QINFER_E_INVALID_ARGUMENT."]
    pub fn qinfer_session_top_logprobs(
        session: *const qinfer_session,
        back: usize,
        tokens: *mut qinfer_token,
        logprobs: *mut f64,
        n: usize,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " The final hidden states (after the last norm) of all tokens of the session, pooled, through the model's layers after\n  pooling (its dense modules), and scaled to length 1: embedding_dims floats. Needs QINFER_SESSION_EMBEDDINGS or an\n  encoder, and no pending tokens, else QINFER_E_STATE. An encoder evaluates all tokens of a session at once: more\n  pending tokens than max_batch_tokens are QINFER_E_INVALID_ARGUMENT, and appending makes all tokens pending. Where\n  the model has layers after pooling the call waits for evaluations of the runtime, and runs on its threads."]
    pub fn qinfer_session_embedding(
        session: *const qinfer_session,
        pooling: i32,
        values: *mut f32,
        capacity: usize,
        out_n: *mut usize,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " The same with options, which may be NULL."]
    pub fn qinfer_session_embedding_with(
        session: *const qinfer_session,
        options: *const qinfer_embedding_options,
        values: *mut f32,
        capacity: usize,
        out_n: *mut usize,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " Names of the prompts that the model's files have for texts of a kind, such as \"query\" and \"document\", sorted; NULL\n  past the last. Live as long as the model."]
    pub fn qinfer_model_prompt_name(
        model: *const qinfer_model,
        index: usize,
    ) -> *const ::core::ffi::c_char;
    #[doc = " The name of the one that the files call the default; NULL = none. Lives as long as the model. Nothing is put before\n  a text unless a host asks for it."]
    pub fn qinfer_model_default_prompt(model: *const qinfer_model) -> *const ::core::ffi::c_char;
    #[doc = " The text of a prompt. QINFER_E_NOT_FOUND, with all names in the message, if there is none of this name."]
    pub fn qinfer_model_prompt(
        model: *const qinfer_model,
        name: *const ::core::ffi::c_char,
        text: *mut ::core::ffi::c_char,
        capacity: usize,
        out_n: *mut usize,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " The tokens of a text, with those that the tokenizer puts around it. options may be NULL. *out_cut (may be NULL):\n  tokens that QINFER_EMBED_TRUNCATE has cut off. Without it a text of more tokens than max_tokens is\n  QINFER_E_CONTEXT_FULL (detail: its tokens). A model whose pooling leaves out prompts takes none\n  (QINFER_E_UNSUPPORTED)."]
    pub fn qinfer_embedding_tokenize(
        model: *const qinfer_model,
        text: *const ::core::ffi::c_char,
        len: usize,
        options: *const qinfer_embedding_text_options,
        tokens: *mut qinfer_token,
        capacity: usize,
        out_n: *mut usize,
        out_cut: *mut u64,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " Makes the pair's tokens those of the session, as qinfer_session_set_tokens does. No byte of the texts becomes part\n  of a control token. options may be NULL. *out_cut (may be NULL): tokens that QINFER_SCORE_TRUNCATE has cut off,\n  of both texts together. A pair that is too long is QINFER_E_CONTEXT_FULL (detail: its tokens); QINFER_E_UNSUPPORTED\n  where neither the model's files nor options say how a pair is written."]
    pub fn qinfer_session_set_pair(
        session: *mut qinfer_session,
        query: *const ::core::ffi::c_char,
        query_len: usize,
        document: *const ::core::ffi::c_char,
        document_len: usize,
        options: *const qinfer_score_options,
        out_cut: *mut u64,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " The score of the session's tokens: between 0 and 1, or any number where the model's files, or QINFER_SCORE_RAW, say\n  so. options: those of the pair, of which flags, template_name, yes and no matter. No token may be pending, else\n  QINFER_E_STATE."]
    pub fn qinfer_session_score(
        session: *const qinfer_session,
        options: *const qinfer_score_options,
        out: *mut f32,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " Evaluates the pending tokens, then samples until done. After an error or cancellation the session keeps the tokens\n  made so far, the last one pending if it was not yet evaluated, and *out counts them, with finish 0. out may be\n  NULL."]
    pub fn qinfer_generate(
        session: *mut qinfer_session,
        options: *const qinfer_generate_options,
        out: *mut qinfer_generate_result,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " The same step by step, for hosts that draw the tokens of many sessions in turn, or stream without callbacks. Options\n  are copied, but cancel is borrowed; on_token and on_token_info must be NULL. A session may have one after\n  another. It is for one thread at a time, and so is what it uses. Until it is freed it keeps its session, with that\n  session's blocks and hook, and its reply.\n\n      while (!qinfer_generation_next(generation, &info, &err)) {\n          fwrite(info.text, 1, info.text_len, stdout);\n          if (info.finish) break;\n      }\n\n  With many sessions, call qinfer_eval for all of them as a batch, then this for each."]
    pub fn qinfer_generation_create(
        session: *mut qinfer_session,
        options: *const qinfer_generate_options,
        out: *mut *mut qinfer_generation,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " Evaluates the session's tokens if any are pending, draws the next one, and says what is new. Where finish is set, it\n  was the last step: token is the one that ended it, or -1 at a limit. Then QINFER_E_STATE, and so it is once tokens\n  were appended or taken back by other means. After another error the step can be done again (after\n  QINFER_E_NO_MEMORY a token may be there whose text is lost), and qinfer_generation_finish gives the text that was\n  held back."]
    pub fn qinfer_generation_next(
        generation: *mut qinfer_generation,
        out: *mut qinfer_token_info,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " Ends it, with QINFER_FINISH_CALLBACK if it has not ended yet: text that was held back is text after all."]
    pub fn qinfer_generation_finish(
        generation: *mut qinfer_generation,
        out: *mut qinfer_token_info,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " Takes the last n of its tokens back, as qinfer_session_truncate does, and all that was made of them; it goes on,\n  also where it has ended. *out_text_len (may be NULL): how many bytes of the texts so far, in order, are still right.\n  Parts that the reply has given stay given, and what still stands of them is not given again, unless it has become\n  something else. n: at most new_tokens. QINFER_E_STATE for one of qinfer_openai_generation_create, whose answer has\n  the text."]
    pub fn qinfer_generation_take_back(
        generation: *mut qinfer_generation,
        n: usize,
        out_text_len: *mut usize,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " What it is so far."]
    pub fn qinfer_generation_get_result(
        generation: *mut qinfer_generation,
        out: *mut qinfer_generate_result,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    pub fn qinfer_generation_free(generation: *mut qinfer_generation);
    #[doc = " What a scheduler with these options, which may be NULL, takes: it is charged to the model's memory_budget_bytes, as\n  a session is. Messages of errors and the names of files come on top, for a time."]
    pub fn qinfer_scheduler_plan(
        options: *const qinfer_scheduler_options,
        out_bytes: *mut u64,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " options may be NULL. QINFER_E_UNSUPPORTED for an encoder."]
    pub fn qinfer_scheduler_create(
        cache: *mut qinfer_kv_cache,
        options: *const qinfer_scheduler_options,
        out: *mut *mut qinfer_scheduler,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " [any thread] options may be NULL. The generation's session must be of the scheduler's cache and have a token.\n  QINFER_E_NO_MEMORY where max_waiting are waiting, QINFER_E_KV_FULL for one that may need more blocks than the cache\n  has. Free the request once it has ended, before or after its generation."]
    pub fn qinfer_scheduler_submit(
        scheduler: *mut qinfer_scheduler,
        generation: *mut qinfer_generation,
        options: *const qinfer_request_options,
        out: *mut *mut qinfer_request,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " [any thread] Blocks for n_tokens of a session that the host evaluates itself, as qinfer_openai_answer_begin does for\n  the log probabilities of a prompt, and qinfer_openai_answer_embed: what it took otherwise could be promised to\n  requests, which then found none. The reservation is a request that waits its turn with the others and has no rows;\n  from its QINFER_EVENT_RESERVED on evaluate the session, on any thread, and free the request when that is done or,\n  where the session's generation is submitted then, after that. The session must be of the scheduler's cache and hold\n  no block yet; until the event, END or the step after qinfer_request_free it must not be evaluated. Errors as\n  qinfer_scheduler_submit's, QINFER_E_STATE for a session that holds blocks."]
    pub fn qinfer_scheduler_reserve(
        scheduler: *mut qinfer_scheduler,
        session: *mut qinfer_session,
        n_tokens: u64,
        options: *const qinfer_request_options,
        out: *mut *mut qinfer_request,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " [any thread] The request ends with the step that runs, or else with the next one, with QINFER_E_CANCELLED; a step\n  that evaluates it alone stops within a layer. The qinfer_cancel of its generation ends it after a step, too."]
    pub fn qinfer_request_cancel(request: *mut qinfer_request);
    #[doc = " [any thread] paused not 0: from the next step on nothing of the request is evaluated or drawn, until it is 0 again,\n  for a client that does not take what is there. One that waits does not begin; one that runs keeps its place, and its\n  blocks, but with park_path it leaves first where blocks run out or one that waits needs them, and returns when it\n  goes on. It may be cancelled, and its deadline holds."]
    pub fn qinfer_request_pause(request: *mut qinfer_request, paused: i32);
    #[doc = " [any thread] One that has not ended is cancelled, and no events of it follow; its generation and session are free to\n  use after the next step."]
    pub fn qinfer_request_free(request: *mut qinfer_request);
    #[doc = " One step; nothing happens where there is no request. QINFER_E_STATE while events of the last one are left, or\n  another step runs. After QINFER_E_NO_MEMORY or QINFER_E_IO nothing was evaluated, and it can be called again when\n  its events were taken. What fails of one request alone is in its QINFER_EVENT_END."]
    pub fn qinfer_scheduler_step(
        scheduler: *mut qinfer_scheduler,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " [any thread] Waits until there is a request, running or not, but not longer than timeout_ns."]
    pub fn qinfer_scheduler_wait(
        scheduler: *mut qinfer_scheduler,
        timeout_ns: u64,
        out_has_requests: *mut i32,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " What the last step has brought, one after the other in the order in which it happened; then QINFER_EVENT_NONE."]
    pub fn qinfer_scheduler_next(
        scheduler: *mut qinfer_scheduler,
        out: *mut qinfer_event,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " [any thread]"]
    pub fn qinfer_scheduler_get_stats(
        scheduler: *mut qinfer_scheduler,
        out: *mut qinfer_scheduler_stats,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " Requests that have not ended give no more events; each is still to be freed."]
    pub fn qinfer_scheduler_free(scheduler: *mut qinfer_scheduler);
    #[doc = " Reads a request. What is not honoured is refused by name, and fields that ask for nothing that changes the answer,\n  such as \"user\", are named in qinfer_openai_info.unused. Beyond OpenAI's fields: top_k, min_p, repetition_penalty,\n  chat_template_kwargs (variables of the template), max_reasoning_tokens, and reasoning (false: none is looked for).\n  A schema with \"strict\": true is closed: its objects have no properties that it does not name.\n  With a schema reasoning has half of max_completion_tokens, unless max_reasoning_tokens says otherwise. Where\n  \"tool_choice\" asks for a call (\"required\", or the name of a function) the schema is that of one call.\n\n  QINFER_E_FORMAT for what is no such request, QINFER_E_UNSUPPORTED for what is not honoured, and the errors of\n  qinfer_chat_tokenize. Messages name the field."]
    pub fn qinfer_openai_request_create(
        model: *const qinfer_model,
        kind: i32,
        json: *const ::core::ffi::c_char,
        len: usize,
        options: *const qinfer_openai_options,
        out: *mut *mut qinfer_openai_request,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    pub fn qinfer_openai_request_get_info(
        request: *const qinfer_openai_request,
        out: *mut qinfer_openai_info,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " The tokens of a prompt, below n_prompts."]
    pub fn qinfer_openai_request_tokens(
        request: *const qinfer_openai_request,
        prompt: usize,
        tokens: *mut qinfer_token,
        capacity: usize,
        out_n: *mut usize,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    pub fn qinfer_openai_request_free(request: *mut qinfer_openai_request);
    #[doc = " Puts the prompt of a choice into the session (qinfer_session_set_tokens), sets its sampler and bias, and gives the\n  generation of the choice. The session's logits hook stays: a grammar is the host's to set and to remove. cancel may\n  be NULL, and is borrowed. QINFER_E_CONTEXT_FULL (detail: tokens that the session holds) if prompt and max_new_tokens\n  do not fit."]
    pub fn qinfer_openai_generation_create(
        request: *const qinfer_openai_request,
        choice: usize,
        session: *mut qinfer_session,
        cancel: *const qinfer_cancel,
        out: *mut *mut qinfer_generation,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " The generation of a choice that was begun elsewhere, from the same request (bytes, seed, template and date): the\n  session, of qinfer_session_load perhaps, begins with the choice's prompt, and what follows was drawn there. The\n  first steps of qinfer_generation_next give these tokens again, without evaluating anything, so that a new answer\n  becomes what that one was; a hook of the session is shown them. Then it goes on, with the bits that it would have\n  had there.\n  QINFER_E_INVALID_ARGUMENT for a session with another beginning, or more tokens than are asked for;\n  QINFER_E_UNSUPPORTED with log probabilities or mirostat. The rest is as in qinfer_openai_generation_create."]
    pub fn qinfer_openai_generation_resume(
        request: *const qinfer_openai_request,
        choice: usize,
        session: *mut qinfer_session,
        cancel: *const qinfer_cancel,
        out: *mut *mut qinfer_generation,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    pub fn qinfer_openai_answer_create(
        request: *const qinfer_openai_request,
        options: *const qinfer_openai_answer_options,
        out: *mut *mut qinfer_openai_answer,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " Before the first step of a choice. With \"echo\" its prompt is added, with log probabilities where they are asked for.\n  *out_ended (may be NULL): 1 if the choice has ended, since no new tokens are asked for."]
    pub fn qinfer_openai_answer_begin(
        answer: *mut qinfer_openai_answer,
        choice: usize,
        generation: *mut qinfer_generation,
        out_ended: *mut i32,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " Adds what the last qinfer_generation_next, or qinfer_generation_finish, has brought, once. *out_ended (may be NULL):\n  1 if the choice has ended; with \"parallel_tool_calls\": false the first call ends it."]
    pub fn qinfer_openai_answer_add(
        answer: *mut qinfer_openai_answer,
        choice: usize,
        generation: *mut qinfer_generation,
        out_ended: *mut i32,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " Adds an embedding: evaluates the prompt in a session with QINFER_SESSION_EMBEDDINGS, or of an encoder; prompt by\n  prompt. pooling: QINFER_POOL_*."]
    pub fn qinfer_openai_answer_embed(
        answer: *mut qinfer_openai_answer,
        prompt: usize,
        session: *mut qinfer_session,
        pooling: i32,
        cancel: *const qinfer_cancel,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " The answer ends with this error; a stream says so in an event. Nothing happens once it is complete."]
    pub fn qinfer_openai_answer_fail(
        answer: *mut qinfer_openai_answer,
        error: *const qinfer_error,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " The bytes that are ready and were not given before: of a stream events, otherwise the JSON text once all choices\n  have ended. *out_complete (may be NULL): 1 if nothing follows."]
    pub fn qinfer_openai_answer_bytes(
        answer: *mut qinfer_openai_answer,
        bytes: *mut ::core::ffi::c_char,
        capacity: usize,
        out_n: *mut usize,
        out_complete: *mut i32,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    pub fn qinfer_openai_answer_free(answer: *mut qinfer_openai_answer);
    #[doc = " {\"error\": {\"message\", \"type\", \"param\", \"code\"}} for a call that failed."]
    pub fn qinfer_openai_error_json(
        error: *const qinfer_error,
        json: *mut ::core::ffi::c_char,
        capacity: usize,
        out_n: *mut usize,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    pub fn qinfer_session_get_memory(
        session: *const qinfer_session,
        out: *mut qinfer_session_memory,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    pub fn qinfer_session_get_info(
        session: *const qinfer_session,
        out: *mut qinfer_session_info,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    pub fn qinfer_session_get_metrics(
        session: *const qinfer_session,
        out: *mut qinfer_metrics,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    pub fn qinfer_runtime_get_metrics(
        runtime: *const qinfer_runtime,
        out: *mut qinfer_metrics,
        err: *mut qinfer_error,
    ) -> qinfer_status;
}
