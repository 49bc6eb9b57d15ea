//! Jobs: what a request of an engine brings, piece by piece, and its session in the end. The engine's thread puts items
//! into a channel that takes any number of them, so it never waits for a reader.

use std::fmt;
use std::iter::FusedIterator;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::Arc;

use crate::engine::{Inner, Request};
use crate::panics::{discard, Payload};
use crate::{Error, Generated, Session, Status, Token};

/// What one token of a [`Job`] adds to its text.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq)]
pub struct JobPiece {
    /// The token that was drawn; `None` for text that was held back, after the last token. An end token comes only
    /// with log probabilities.
    pub token: Option<Token>,
    /// New whole characters, maybe none. What may begin a stop text is held back.
    pub text: String,
    /// Where [`GenerateOptions::top_logprobs`](crate::GenerateOptions::top_logprobs) is set and there is a token.
    pub logprobs: Option<JobLogprobs>,
}

/// Log probabilities under the model at one token of a [`Job`].
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq)]
pub struct JobLogprobs {
    /// That of the token that was drawn.
    pub logprob: f64,
    /// The most likely tokens and their log probabilities, in descending order.
    pub top: Vec<(Token, f64)>,
}

/// What the engine's thread puts.
pub(crate) enum Item {
    Piece(JobPiece),
    End(Box<Ended>),
}

/// The last item.
pub(crate) struct Ended {
    /// Unless the request drops it.
    pub(crate) session: Option<Session>,
    pub(crate) outcome: Result<Generated, Failure>,
}

/// Why there is no result.
pub(crate) enum Failure {
    Error(Error),
    Panic(Panicked),
}

/// What a hook has panicked with, for a reader; where none takes it, it is forgotten.
pub(crate) struct Panicked(pub(crate) Option<Payload>);

impl Drop for Panicked {
    fn drop(&mut self) {
        if let Some(payload) = self.0.take() {
            discard(payload);
        }
    }
}

/// A request of an [`Engine`](crate::Engine), as an iterator over its pieces: [`Engine::submit`](crate::Engine::submit).
/// An error is the last item. It keeps the engine; it may move between threads, and is read by one at a time. Pieces
/// wait for their reader, and the engine does not.
///
/// When the request has ended, its session is here, with its blocks of the cache: read jobs as they come, drop those
/// that are of no use, or set [`RequestOptions::drop_session`](crate::RequestOptions::drop_session). Dropping a job
/// cancels its request, and the engine drops the session once it has seen that.
pub struct Job {
    items: Receiver<Item>,
    request: Arc<Request>,
    /// Without its handle until the session is back.
    session: Session,
    generated: Option<Generated>,
    over: bool,
    engine: Arc<Inner>,
}

impl Job {
    pub(crate) fn new(
        items: Receiver<Item>,
        request: Arc<Request>,
        session: Session,
        engine: Arc<Inner>,
    ) -> Job {
        Job {
            items,
            request,
            session,
            generated: None,
            over: false,
            engine,
        }
    }

    /// The request ends with [`Status::Cancelled`] after the evaluation that runs; the pieces that were drawn before
    /// come first. Nothing happens where it has ended.
    pub fn cancel(&self) {
        self.request.cancel();
    }

    /// How the generation ended, once the iterator has, without an error.
    pub fn generated(&self) -> Option<&Generated> {
        self.generated.as_ref()
    }

    /// Reads the rest, and gives the session back with how the generation ended.
    pub fn finish(mut self) -> (Session, Result<Generated, Error>) {
        let failed = self.find_map(Result::err);
        let ended = match (failed, self.generated.take()) {
            (Some(failed), _) => Err(failed),
            (None, Some(generated)) => Ok(generated),
            (None, None) => Err(Error::new(Status::State, "the job ended with an error", 0)),
        };
        (self.put_out(), ended)
    }

    /// The session, with the tokens that were drawn. A request that has not ended is cancelled, and this waits for the
    /// evaluation that runs; what was not read is lost, a panic of a hook too.
    pub fn into_session(mut self) -> Session {
        self.request.cancel();
        while !self.over {
            match self.receive() {
                Some(Item::End(ended)) => self.put_back(ended.session),
                Some(Item::Piece(_)) => {}
                None => break,
            }
        }
        self.put_out()
    }

    fn put_back(&mut self, session: Option<Session>) {
        if let Some(session) = session {
            self.session = session;
        }
    }

    fn put_out(&mut self) -> Session {
        self.session.take()
    }

    /// The next item. `None` where none can come: an end was there, or this is the engine's own thread, which would wait
    /// for itself.
    fn receive(&mut self) -> Option<Item> {
        if self.over {
            return None;
        }
        let item = match self.items.try_recv() {
            Err(TryRecvError::Empty) if !self.engine.is_here() => self.items.recv().ok(),
            item => item.ok(),
        };
        self.over = !matches!(item, Some(Item::Piece(_)));
        item
    }
}

impl Iterator for Job {
    type Item = Result<JobPiece, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let was_over = self.over;
        let ended = match self.receive() {
            Some(Item::Piece(piece)) => return Some(Ok(piece)),
            Some(Item::End(ended)) => *ended,
            None if was_over => return None,
            None => {
                self.request.cancel();
                let message = match self.engine.is_here() {
                    true => "a hook cannot wait for requests of the engine that calls it",
                    false => "the request was lost",
                };
                return Some(Err(Error::new(Status::State, message, 0)));
            }
        };
        self.put_back(ended.session);
        match ended.outcome {
            Ok(generated) => self.generated = Some(generated),
            Err(Failure::Error(failed)) => return Some(Err(failed)),
            Err(Failure::Panic(mut panicked)) => {
                if let Some(payload) = panicked.0.take() {
                    resume_unwind(payload);
                }
            }
        }
        None
    }
}

impl FusedIterator for Job {}

impl Drop for Job {
    fn drop(&mut self) {
        self.request.cancel();
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("over", &self.over)
            .field("generated", &self.generated)
            .finish_non_exhaustive()
    }
}
