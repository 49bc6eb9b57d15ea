//! Snapshots: sessions in files, of the operating system or of the host.

use std::path::Path;
use std::ptr;
use std::sync::Arc;

use crate::error::{call, Error};
use crate::files::FilesUser;
use crate::handle::c_path;
use crate::options::flag;
use crate::{sys, Files, KvCache, Session};

/// Where a snapshot is, and what of it is accepted.
#[derive(Clone, Default)]
pub struct SnapshotOptions {
    /// Where the path is; `None` = the operating system's files.
    pub files: Option<Arc<dyn Files>>,
    /// When loading: go on from keys and values that other options computed, too.
    pub any_bits: bool,
    /// When loading: [`Status::Format`](crate::Status::Format) instead of a state that may not be the last one.
    pub no_recovery: bool,
}

/// A session out of a snapshot, and what was found.
#[derive(Debug)]
#[non_exhaustive]
pub struct Loaded {
    /// The session; its last token is pending.
    pub session: Session,
    /// The file's other state is damaged: this may be the one before the last.
    pub recovered: bool,
    /// Another kernel set or other options computed the keys and values.
    pub other_bits: bool,
    /// Tokens, as they were saved.
    pub tokens: u64,
    /// Those that were evaluated.
    pub evaluated_tokens: u64,
}

fn pointer_of(files: &Option<Box<FilesUser>>) -> *const sys::qinfer_files {
    files.as_ref().map_or(ptr::null(), |files| files.native())
}

impl Session {
    /// Saves tokens, keys, values and sampler. To a file that holds the beginning of the session only what is new is
    /// written; a crash at any moment leaves the old state or the new one.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        self.save_with(path, &SnapshotOptions::default())
    }

    /// The same with options.
    pub fn save_with(
        &self,
        path: impl AsRef<Path>,
        options: &SnapshotOptions,
    ) -> Result<(), Error> {
        let path = c_path(path.as_ref(), "path")?;
        let files = options.files.clone().map(FilesUser::new);
        let raw = sys::qinfer_session_save_options {
            files: pointer_of(&files),
            ..sys::sized()
        };
        // SAFETY: all of it lives through the call.
        call(|error| unsafe {
            sys::qinfer_session_save_with(self.as_ptr(), path.as_ptr(), &raw, error)
        })
    }

    /// A session that goes on where [`Session::save`] was called. Its last token is pending.
    pub fn load(cache: &KvCache, path: impl AsRef<Path>) -> Result<Session, Error> {
        Session::load_with(cache, path, &SnapshotOptions::default()).map(|loaded| loaded.session)
    }

    /// The same with options, and with what was found.
    pub fn load_with(
        cache: &KvCache,
        path: impl AsRef<Path>,
        options: &SnapshotOptions,
    ) -> Result<Loaded, Error> {
        let path = c_path(path.as_ref(), "path")?;
        let files = options.files.clone().map(FilesUser::new);
        let raw = sys::qinfer_session_load_options {
            flags: flag(options.any_bits, sys::QINFER_SNAPSHOT_ANY_BITS)
                | flag(options.no_recovery, sys::QINFER_SNAPSHOT_NO_RECOVERY),
            files: pointer_of(&files),
            ..sys::sized()
        };
        let mut found = sys::sized::<sys::qinfer_session_load_result>();
        // SAFETY: all of it lives through the call; found is a struct with its size.
        let session = Session::adopt(cache, |out, error| unsafe {
            let (cache, path) = (cache.as_ptr(), path.as_ptr());
            sys::qinfer_session_load_with(cache, path, &raw, out, &mut found, error)
        })?;
        Ok(Loaded {
            session,
            recovered: found.flags & sys::QINFER_SNAPSHOT_RECOVERED != 0,
            other_bits: found.flags & sys::QINFER_SNAPSHOT_OTHER_BITS != 0,
            tokens: found.tokens,
            evaluated_tokens: found.evaluated_tokens,
        })
    }
}
