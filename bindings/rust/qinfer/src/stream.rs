//! Streams: iterators over what a generation gives. Stop texts are held back and decided inside qinfer_generate,
//! which pushes; an iterator pulls. So the generation runs on a separate thread, with the session moved there, and
//! hands over each item through a channel without room: it waits until the item is read, and so is at most one token
//! ahead.

use std::iter::FusedIterator;
use std::ops::ControlFlow;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, sync_channel, Receiver};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use crate::panics::discard;
use crate::{Error, GenerateOptions, Generated, Session, Status};

/// What the thread ends with: the session, and the result or what the work panicked with.
type Ended<R> = Option<(Session, std::thread::Result<R>)>;

/// Work with a session on a separate thread, which gives items and in the end a result. The session is back when
/// the work is joined or dropped. If it is forgotten (`std::mem::forget`) the session stays away, and calls with it
/// fail.
pub(crate) struct Worker<'a, T, R> {
    session: &'a mut Session,
    items: Option<Receiver<T>>,
    /// Nobody reads any more.
    left: Arc<AtomicBool>,
    thread: Option<JoinHandle<Ended<R>>>,
}

impl<'a, T: Send + 'static, R: Send + 'static> Worker<'a, T, R> {
    /// `work` gets a function that hands an item over, if there is one, and says `Break` once nobody reads any more.
    pub(crate) fn start<W>(session: &'a mut Session, work: W) -> Result<Worker<'a, T, R>, Error>
    where
        W: FnOnce(&mut Session, &mut dyn FnMut(Option<T>) -> ControlFlow<()>) -> R + Send + 'static,
    {
        let (give, take) = channel::<Session>();
        let (sender, items) = sync_channel(0);
        let left = Arc::new(AtomicBool::new(false));
        let is_left = left.clone();
        let run = move || {
            // The session comes once the thread is there: a thread that cannot be made takes none along.
            let mut session = take.recv().ok()?;
            let mut put = |item: Option<T>| {
                let sent = item.is_none_or(|item| sender.send(item).is_ok());
                match sent && !is_left.load(Ordering::Relaxed) {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                }
            };
            let result = catch_unwind(AssertUnwindSafe(|| work(&mut session, &mut put)));
            Some((session, result))
        };
        let thread = Builder::new()
            .name("qinfer-stream".into())
            .spawn(run)
            .map_err(|failed| {
                let message = format!("no thread for the stream: {failed}");
                Error::new(Status::NoMemory, message, 0)
            })?;
        let taken = session.take();
        if let Err(back) = give.send(taken) {
            *session = back.0;
        }
        Ok(Worker {
            session,
            items: Some(items),
            left,
            thread: Some(thread),
        })
    }

    /// The next item; `None` when the work is over.
    pub(crate) fn next(&mut self) -> Option<T> {
        self.items.as_ref()?.recv().ok()
    }

    /// Ends the work and gives its result, once. What it panicked with goes on here.
    pub(crate) fn join(&mut self) -> Option<R> {
        match self.put_back()? {
            Ok(result) => Some(result),
            Err(payload) => resume_unwind(payload),
        }
    }
}

impl<T, R> Worker<'_, T, R> {
    /// Waits for the thread, which ends after its present token, and puts the session back.
    fn put_back(&mut self) -> Option<std::thread::Result<R>> {
        self.left.store(true, Ordering::Relaxed);
        self.items = None;
        let (session, result) = self.thread.take()?.join().ok()??;
        *self.session = session;
        Some(result)
    }
}

impl<T, R> Drop for Worker<'_, T, R> {
    fn drop(&mut self) {
        // A panic that no call waited for was reported when it happened.
        if let Some(Err(payload)) = self.put_back() {
            discard(payload);
        }
    }
}

/// The text of a generation, piece by piece: [`Session::stream`].
pub struct Stream<'a> {
    worker: Worker<'a, String, Result<Generated, Error>>,
    generated: Option<Generated>,
}

impl Session {
    /// The text of [`Session::generate`] as an iterator. Dropping it ends the generation after its present token, and
    /// waits for that; the session keeps the tokens that were drawn, and goes on. (To leave a long prompt sooner,
    /// request the [`Cancel`](crate::Cancel) of the options first.)
    ///
    /// The generation runs on a separate thread. It is at most one piece ahead of the reader. Callbacks of the
    /// session, such as its logits hook, run on that thread; what they panic with comes out of `next`.
    pub fn stream(&mut self, options: &GenerateOptions) -> Result<Stream<'_>, Error> {
        let options = options.clone();
        let worker = Worker::start(self, move |session, put| {
            session.generate_with(&options, |piece| {
                let text = piece.text.into_owned();
                put((!text.is_empty()).then_some(text))
            })
        })?;
        Ok(Stream {
            worker,
            generated: None,
        })
    }
}

impl Stream<'_> {
    /// How the generation ended, once the iterator has.
    pub fn generated(&self) -> Option<&Generated> {
        self.generated.as_ref()
    }

    /// Reads the rest, and says how the generation ended.
    pub fn finish(mut self) -> Result<Generated, Error> {
        for piece in &mut self {
            piece?;
        }
        let ended = self.generated.take();
        ended.ok_or_else(|| Error::new(Status::State, "the stream ended with an error", 0))
    }
}

impl Iterator for Stream<'_> {
    type Item = Result<String, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(piece) = self.worker.next() {
            return Some(Ok(piece));
        }
        match self.worker.join()? {
            Ok(generated) => self.generated = Some(generated),
            Err(failed) => return Some(Err(failed)),
        }
        None
    }
}

impl FusedIterator for Stream<'_> {}
