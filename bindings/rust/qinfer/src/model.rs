//! Models, and the plan of what they take.

use std::ffi::c_char;
use std::fmt;
use std::path::Path;
use std::ptr;
use std::sync::Arc;

use crate::error::{call, Error};
use crate::files::FilesUser;
use crate::handle::{c_path, c_text, read_struct, read_text, text_at, Owned};
use crate::options::{RawLoad, RawRuntime};
use crate::{
    sys, KvCacheOptions, LoadOptions, Memory, ModelInfo, Runtime, RuntimeOptions, SessionOptions,
};

/// Weights, tokenizer and metadata; immutable. Clones are the same model.
#[derive(Clone)]
pub struct Model {
    inner: Arc<Inner>,
}

struct Inner {
    // First, so that it is freed before what it uses.
    handle: Owned<sys::qinfer_model>,
    info: ModelInfo,
    _files: Option<Box<FilesUser>>,
    _runtime: Option<Runtime>,
}

impl Model {
    /// Loads a model directory (config.json, safetensors, tokenizer.json), a GGUF file, or a file of [`Model::pack`].
    pub fn load(path: impl AsRef<Path>, mut options: LoadOptions<'_>) -> Result<Model, Error> {
        let path = c_path(path.as_ref(), "path")?;
        let runtime = options.runtime.clone();
        let raw = options.raw()?;
        // SAFETY: what the options refer to lives through the call; files and runtime are kept with the handle.
        let handle = Owned::create(sys::qinfer_model_free, |out, error| unsafe {
            sys::qinfer_model_load(
                runtime_pointer(&runtime),
                path.as_ptr(),
                &raw.options,
                out,
                error,
            )
        });
        let RawLoad { files, .. } = raw;
        let handle = handle?;
        // SAFETY: out is a struct with its size, and the model lives while its texts are copied.
        let info = unsafe {
            let info = read_struct::<sys::qinfer_model_info>(|out, error| {
                sys::qinfer_model_get_info(handle.as_ptr(), out, error)
            })?;
            ModelInfo::from_raw(&info)
        };
        let inner = Inner {
            handle,
            info,
            _files: files,
            _runtime: runtime,
        };
        Ok(Model {
            inner: Arc::new(inner),
        })
    }

    /// Writes a model to one file that holds the weights as the runtime's kernel set wants them. `weight_format` may
    /// also be `q8_0`, `q4_0` or `q4_k_m`, which quantise. Needs the memory of a loaded model.
    pub fn pack(
        path: impl AsRef<Path>,
        mut options: LoadOptions<'_>,
        out_path: impl AsRef<Path>,
    ) -> Result<(), Error> {
        let path = c_path(path.as_ref(), "path")?;
        let out_path = c_path(out_path.as_ref(), "out_path")?;
        let runtime = options.runtime.clone();
        let raw = options.raw()?;
        // SAFETY: all of it lives through the call.
        call(|error| unsafe {
            sys::qinfer_model_pack(
                runtime_pointer(&runtime),
                path.as_ptr(),
                &raw.options,
                out_path.as_ptr(),
                error,
            )
        })
    }

    /// What the model is.
    pub fn info(&self) -> &ModelInfo {
        &self.inner.info
    }

    /// Bytes in use, as [`plan`] says beforehand.
    pub fn memory(&self) -> Result<Memory, Error> {
        // SAFETY: the handle lives; out is a struct with its size.
        read_struct::<sys::qinfer_memory>(|out, error| unsafe {
            sys::qinfer_model_get_memory(self.as_ptr(), out, error)
        })
        .map(|memory| Memory::from(&memory))
    }

    /// Stored metadata as text, sorted by key.
    pub fn metadata(&self) -> Vec<(String, String)> {
        // SAFETY: the handle lives, and with it keys and values.
        unsafe {
            (0..sys::qinfer_model_meta_count(self.as_ptr()))
                .map(|index| sys::qinfer_model_meta_key(self.as_ptr(), index))
                .map(|key| (key, sys::qinfer_model_meta_value(self.as_ptr(), key)))
                .map(|(key, value)| (text_at(key).into_owned(), text_at(value).into_owned()))
                .collect()
        }
    }

    /// The value of one key of the metadata.
    pub fn metadata_value(&self, key: &str) -> Option<String> {
        let key = c_text(key, "key").ok()?;
        // SAFETY: the handle lives, and with it the value.
        let value = unsafe { sys::qinfer_model_meta_value(self.as_ptr(), key.as_ptr()) };
        (!value.is_null()).then(|| unsafe { text_at(value) }.into_owned())
    }

    /// The handle of the C ABI, which lives as long as any clone, and as what was made from it.
    pub fn as_ptr(&self) -> *const sys::qinfer_model {
        self.inner.handle.as_ptr()
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Model").field(&self.info().name).finish()
    }
}

fn runtime_pointer(runtime: &Option<Runtime>) -> *mut sys::qinfer_runtime {
    runtime
        .as_ref()
        .map_or(ptr::null_mut(), |runtime| runtime.as_ptr())
}

/// What [`plan`] assumes; what is absent has the defaults of the library, and without a cache none is planned.
#[derive(Debug, Default)]
pub struct PlanOptions<'a> {
    /// The runtime that the model would be loaded on.
    pub runtime: Option<RuntimeOptions>,
    /// How it would be loaded.
    pub load: LoadOptions<'a>,
    /// A cache.
    pub cache: Option<KvCacheOptions>,
    /// A session.
    pub session: Option<SessionOptions>,
}

/// The same as the library reads it.
struct RawPlan<'o, 'a> {
    runtime: Option<RawRuntime>,
    load: RawLoad<'o, 'a>,
    cache: Option<sys::qinfer_kv_cache_options>,
    session: Option<sys::qinfer_session_options>,
}

impl<'a> PlanOptions<'a> {
    fn raw(&mut self) -> Result<RawPlan<'_, 'a>, Error> {
        let runtime = self.runtime.as_ref().map(RuntimeOptions::raw).transpose()?;
        Ok(RawPlan {
            runtime,
            load: self.load.raw()?,
            cache: self.cache.as_ref().map(KvCacheOptions::raw),
            session: self.session.as_ref().map(SessionOptions::raw),
        })
    }
}

fn optional<T>(options: &Option<T>) -> *const T {
    options.as_ref().map_or(ptr::null(), ptr::from_ref)
}

impl RawPlan<'_, '_> {
    fn runtime(&self) -> *const sys::qinfer_runtime_options {
        self.runtime
            .as_ref()
            .map_or(ptr::null(), |runtime| &runtime.options)
    }
}

/// What loading a model and creating a cache and sessions with these options will take. Reads headers only.
pub fn plan(path: impl AsRef<Path>, mut options: PlanOptions<'_>) -> Result<Memory, Error> {
    let path = c_path(path.as_ref(), "path")?;
    let raw = options.raw()?;
    // SAFETY: all of it lives through the call; out is a struct with its size.
    read_struct::<sys::qinfer_memory>(|out, error| unsafe {
        sys::qinfer_model_plan(
            path.as_ptr(),
            raw.runtime(),
            &raw.load.options,
            optional(&raw.cache),
            optional(&raw.session),
            out,
            error,
        )
    })
    .map(|memory| Memory::from(&memory))
}

/// The same, buffer by buffer, as JSON.
pub fn plan_map(path: impl AsRef<Path>, mut options: PlanOptions<'_>) -> Result<String, Error> {
    let path = c_path(path.as_ref(), "path")?;
    let raw = options.raw()?;
    read_text(16384, |json: *mut c_char, capacity, n, error| {
        // SAFETY: all of it lives through the call, and json has the room that is told.
        unsafe {
            sys::qinfer_model_plan_map(
                path.as_ptr(),
                raw.runtime(),
                &raw.load.options,
                optional(&raw.cache),
                optional(&raw.session),
                json,
                capacity,
                n,
                error,
            )
        }
    })
}
