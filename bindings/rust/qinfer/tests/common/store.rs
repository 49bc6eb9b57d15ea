//! A store of files in memory, which counts what is open, maps files at multiples of 64, and fails where a test asks
//! it to.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use qinfer::{File, FileMode, Files, Status};

/// A multiple of 64 bytes at a multiple of 64.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// The copy of a file that is mapped.
struct Mapped {
    lines: Vec<Line>,
    len: usize,
    shared: Arc<Shared>,
}

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: a line is 64 bytes without padding, and there are enough of them for len.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.len) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        self.shared.mapped.fetch_sub(1, Ordering::SeqCst);
        self.shared.fail_at("unmap").ok();
    }
}

/// What a callback does instead of its work.
#[derive(Clone, Copy)]
pub enum Fault {
    Fail(Status),
    Panic,
}

#[derive(Default)]
struct Shared {
    files: Mutex<HashMap<String, Vec<u8>>>,
    fault: Mutex<Option<(&'static str, Fault)>>,
    open: AtomicI64,
    mapped: AtomicI64,
}

impl Shared {
    fn fail_at(&self, callback: &str) -> Result<(), Status> {
        let fault = *self.fault.lock().unwrap();
        match fault {
            Some((at, Fault::Fail(status))) if at == callback => Err(status),
            Some((at, Fault::Panic)) if at == callback => panic!("{callback} of the store"),
            _ => Ok(()),
        }
    }
}

/// A clone is the same store.
#[derive(Clone, Default)]
pub struct Store {
    shared: Arc<Shared>,
    maps: bool,
}

impl Store {
    /// One whose files are mapped.
    pub fn mapped() -> Store {
        Store {
            maps: true,
            ..Default::default()
        }
    }

    pub fn insert(&self, name: &str, bytes: Vec<u8>) {
        self.shared.files.lock().unwrap().insert(name.into(), bytes);
    }

    pub fn handle(&self) -> Option<Arc<dyn Files>> {
        Some(Arc::new(self.clone()))
    }

    /// From now on `callback` does this.
    pub fn set_fault(&self, callback: &'static str, fault: Fault) {
        *self.shared.fault.lock().unwrap() = Some((callback, fault));
    }

    pub fn clear_fault(&self) {
        *self.shared.fault.lock().unwrap() = None;
    }

    /// Files that are open now.
    pub fn open_files(&self) -> i64 {
        self.shared.open.load(Ordering::SeqCst)
    }

    /// Files that are mapped now.
    pub fn mapped_files(&self) -> i64 {
        self.shared.mapped.load(Ordering::SeqCst)
    }

    pub fn names(&self) -> Vec<String> {
        self.shared.files.lock().unwrap().keys().cloned().collect()
    }
}

impl Files for Store {
    fn open(&self, name: &str, mode: FileMode) -> Result<Box<dyn File>, Status> {
        self.shared.fail_at("open")?;
        let mut files = self.shared.files.lock().unwrap();
        if mode == FileMode::Write {
            files.entry(name.into()).or_default();
        }
        if !files.contains_key(name) {
            return Err(Status::NotFound);
        }
        self.shared.open.fetch_add(1, Ordering::SeqCst);
        Ok(Box::new(Opened {
            name: name.into(),
            shared: self.shared.clone(),
        }))
    }

    fn maps(&self) -> bool {
        self.maps
    }
}

struct Opened {
    name: String,
    shared: Arc<Shared>,
}

impl Opened {
    fn with<T>(&self, callback: &str, work: impl FnOnce(&mut Vec<u8>) -> T) -> Result<T, Status> {
        self.shared.fail_at(callback)?;
        let mut files = self.shared.files.lock().unwrap();
        Ok(work(files.get_mut(&self.name).unwrap()))
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.shared.open.fetch_sub(1, Ordering::SeqCst);
    }
}

impl File for Opened {
    fn size(&mut self) -> Result<u64, Status> {
        self.with("size", |bytes| bytes.len() as u64)
    }

    fn read_at(&mut self, offset: u64, data: &mut [u8]) -> Result<(), Status> {
        let begin = offset as usize;
        self.with("read_at", |bytes| {
            data.copy_from_slice(&bytes[begin..begin + data.len()])
        })
    }

    fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<(), Status> {
        let (begin, end) = (offset as usize, offset as usize + data.len());
        self.with("write_at", |bytes| {
            bytes.resize(bytes.len().max(end), 0);
            bytes[begin..end].copy_from_slice(data);
        })
    }

    fn sync(&mut self) -> Result<(), Status> {
        self.with("sync", |_| ())
    }

    fn truncate(&mut self, n_bytes: u64) -> Result<(), Status> {
        self.with("truncate", |bytes| bytes.truncate(n_bytes as usize))
    }

    fn map(&mut self, n_bytes: u64) -> Result<Arc<dyn AsRef<[u8]> + Send + Sync>, Status> {
        let mapped = self.with("map", |bytes| {
            assert_eq!(bytes.len() as u64, n_bytes);
            let lines = bytes.chunks(64).map(|chunk| {
                let mut line = Line([0; 64]);
                line.0[..chunk.len()].copy_from_slice(chunk);
                line
            });
            Mapped {
                lines: lines.collect(),
                len: bytes.len(),
                shared: self.shared.clone(),
            }
        })?;
        self.shared.mapped.fetch_add(1, Ordering::SeqCst);
        Ok(Arc::new(mapped))
    }

    fn close(self: Box<Self>) -> Result<(), Status> {
        self.shared.fail_at("close")
    }
}
