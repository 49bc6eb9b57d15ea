//! The thread of an engine: steps its scheduler while there are requests, and hands out what each step has brought.
//! Requests that have not ended are here, so that no lock is held while items are made and sessions dropped.

use std::collections::HashMap;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::mpsc::Sender;
use std::sync::{Arc, PoisonError};

use crate::engine::{Request, Scheduler, Shared};
use crate::error::{attempt, Error, Status};
use crate::handle::{slice_at, text_at, Owned};
use crate::job::{Ended, Failure, Item, JobLogprobs, JobPiece, Panicked};
use crate::panics::{by_session, discard, Payload};
use crate::{sys, Cancel, GenerateOptions, Generated, RequestOptions, Session};

/// Where nothing can be done until other sessions give blocks back, the scheduler waits, and less than this.
const WAIT_NS: u64 = 100_000_000;

/// A request that has not ended.
pub(crate) struct Running {
    generation: Owned<sys::qinfer_generation>,
    session: Session,
    /// Borrowed by the generation.
    _cancel: Option<Cancel>,
    with_logprobs: bool,
    drops_session: bool,
    request: Arc<Request>,
    items: Sender<Item>,
    /// So far.
    text: String,
    /// Of a step, which ends all requests.
    failed: Option<Error>,
    /// What its hook has panicked with.
    panicked: Option<Payload>,
}

type All = HashMap<usize, Running>;

pub(crate) fn run(shared: &Shared, scheduler: Arc<Scheduler>) {
    let mut running = All::new();
    let mut thread = Thread {
        shared,
        scheduler: &scheduler,
        running: &mut running,
    };
    let served = catch_unwind(AssertUnwindSafe(|| {
        let broken = thread.serve();
        thread.end_by_close(broken);
    }));
    if let Err(payload) = served {
        discard(payload);
    }
    let (incoming, requests) = {
        let mut state = shared.lock();
        state.closing = true;
        state.scheduler = None;
        (
            std::mem::take(&mut state.incoming),
            std::mem::take(&mut state.requests),
        )
    };
    drop(requests);
    for (_, left) in running.into_iter().chain(incoming) {
        let message = "the engine's thread has ended";
        left.end(Err(Error::new(Status::Internal, message, 0)));
    }
    // Before what waits for the end goes on.
    drop(scheduler);
    shared.lock().over = true;
    shared.over.notify_all();
}

struct Thread<'a> {
    shared: &'a Shared,
    scheduler: &'a Scheduler,
    running: &'a mut All,
}

impl Thread<'_> {
    /// Until the engine is closed, or cannot go on, which says why.
    fn serve(&mut self) -> Option<Error> {
        while self.has_work() {
            // What can be wrong with the wait is wrong with the step, too.
            let mut any = 0;
            let scheduler = self.scheduler.handle.as_ptr();
            // SAFETY: the handle lives.
            let _ = attempt(|error| unsafe {
                sys::qinfer_scheduler_wait(scheduler, WAIT_NS, &mut any, error)
            });
            if let Err(failed) = self.step() {
                // Of the system, such as no memory: nothing was evaluated. What is cancelled ends with the next step.
                if self.running.values().any(|one| one.failed.is_some()) {
                    return Some(failed);
                }
                for one in self.running.values_mut() {
                    one.failed = Some(failed.clone());
                    one.request.cancel();
                }
            }
        }
        None
    }

    /// Waits for a request; false: the engine is closed.
    fn has_work(&self) -> bool {
        let mut state = self.shared.lock();
        while !state.closing && self.running.is_empty() && state.incoming.is_empty() {
            let waited = self.shared.wake.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        !state.closing
    }

    fn step(&mut self) -> Result<(), Error> {
        let scheduler = self.scheduler.handle.as_ptr();
        let (stepped, panics) = by_session(|| {
            // SAFETY: the handle lives, and no other thread steps.
            attempt(|error| unsafe { sys::qinfer_scheduler_step(scheduler, error) })
        });
        let closing = {
            let mut state = self.shared.lock();
            self.running.extend(state.incoming.drain());
            state.closing
        };
        for (session, payload) in panics {
            self.keep_panic(session, payload);
        }
        let taken = self.take_events(closing);
        stepped.and(taken)
    }

    /// The request ends with it, if it has not ended by that.
    fn keep_panic(&mut self, session: usize, payload: Payload) {
        let mut all = self.running.values_mut();
        match all.find(|one| one.session.as_ptr().addr() == session) {
            Some(one) if one.panicked.is_none() => {
                one.panicked = Some(payload);
                one.request.cancel();
            }
            _ => discard(payload),
        }
    }

    fn take_events(&mut self, closing: bool) -> Result<(), Error> {
        let scheduler = self.scheduler.handle.as_ptr();
        let mut event = sys::sized::<sys::qinfer_event>();
        loop {
            // SAFETY: the handle lives, and this is the thread that steps; event is a struct with its size.
            attempt(|error| unsafe { sys::qinfer_scheduler_next(scheduler, &mut event, error) })?;
            let id = event.user.addr();
            match event.kind as u32 {
                sys::QINFER_EVENT_NONE => return Ok(()),
                sys::QINFER_EVENT_TOKEN => {
                    if let Some(one) = self.running.get_mut(&id) {
                        one.give(&event.token);
                    }
                }
                sys::QINFER_EVENT_END => {
                    self.shared.lock().requests.remove(&id);
                    if let Some(mut one) = self.running.remove(&id) {
                        let ended = one.outcome(&event, closing);
                        one.end(ended);
                    }
                }
                _ => {}
            }
        }
    }

    /// Requests that are cancelled end with the next step, which evaluates none.
    fn end_by_close(&mut self, broken: Option<Error>) {
        {
            let mut state = self.shared.lock();
            state.closing = true;
            self.running.extend(state.incoming.drain());
        }
        for one in self.running.values() {
            one.request.cancel();
        }
        if broken.is_none() && !self.running.is_empty() {
            // What is left after one that fails is ended here: nothing uses the sessions without a step.
            let _ = self.step();
        }
        for (_, left) in self.running.drain() {
            left.end(Err(broken.clone().unwrap_or_else(was_closed)));
        }
    }
}

fn was_closed() -> Error {
    Error::new(Status::State, "the engine was closed", 0)
}

impl Running {
    pub(crate) fn new(
        generation: Owned<sys::qinfer_generation>,
        session: Session,
        options: (&GenerateOptions, &RequestOptions),
        request: Arc<Request>,
        items: Sender<Item>,
    ) -> Running {
        Running {
            generation,
            session,
            _cancel: options.0.cancel.clone(),
            with_logprobs: options.0.top_logprobs.is_some(),
            drops_session: options.1.drop_session,
            request,
            items,
            text: String::new(),
            failed: None,
            panicked: None,
        }
    }

    /// Hands over what a token has brought, as qinfer_generate would.
    fn give(&mut self, info: &sys::qinfer_token_info) {
        // SAFETY: text and arrays live until the next step.
        let (text, tokens, logprobs) = unsafe {
            let n_top = info.n_top as usize;
            (
                slice_at(info.text.cast::<u8>(), info.text_len),
                slice_at(info.top_tokens, n_top),
                slice_at(info.top_logprobs, n_top),
            )
        };
        let text = String::from_utf8_lossy(text).into_owned();
        let is_told = info.token >= 0 && (self.with_logprobs || !self.is_end(info));
        if !is_told && text.is_empty() {
            return;
        }
        self.text.push_str(&text);
        let piece = JobPiece {
            token: is_told.then_some(info.token),
            text,
            logprobs: (is_told && self.with_logprobs).then(|| JobLogprobs {
                logprob: info.logprob,
                top: tokens
                    .iter()
                    .copied()
                    .zip(logprobs.iter().copied())
                    .collect(),
            }),
        };
        // Where nobody reads any more, the request has been cancelled.
        let _ = self.items.send(Item::Piece(piece));
    }

    /// Whether it is a token that is no text, but ends it.
    fn is_end(&self, info: &sys::qinfer_token_info) -> bool {
        match info.finish as u32 {
            sys::QINFER_FINISH_END => true,
            sys::QINFER_FINISH_STOP => self.session.model().token_flags(info.token).control,
            _ => false,
        }
    }

    /// What its last event says.
    fn outcome(&mut self, event: &sys::qinfer_event, closing: bool) -> Result<Generated, Error> {
        let generation = self.generation.as_ptr();
        let mut result = sys::sized::<sys::qinfer_generate_result>();
        // SAFETY: the handle lives; result is a struct with its size.
        attempt(|error| unsafe {
            sys::qinfer_generation_get_result(generation, &mut result, error)
        })?;
        let mut rest = sys::sized::<sys::qinfer_token_info>();
        // SAFETY: as above.
        attempt(|error| unsafe { sys::qinfer_generation_finish(generation, &mut rest, error) })?;
        rest.token = -1;
        self.give(&rest);
        if event.status == sys::QINFER_OK {
            return Ok(Generated::new(std::mem::take(&mut self.text), &result));
        }
        if let Some(failed) = self.failed.take() {
            return Err(failed);
        }
        if closing && event.status == sys::QINFER_E_CANCELLED {
            return Err(was_closed());
        }
        // SAFETY: the message lives as long as the request.
        let message = unsafe { text_at(event.message) };
        Err(Error::new(Status::from_code(event.status), message, 0))
    }

    /// Gives the session away: to the reader, or where there is none, it is dropped.
    fn end(mut self, ended: Result<Generated, Error>) {
        let outcome = match self.panicked.take() {
            Some(payload) => Err(Failure::Panic(Panicked(Some(payload)))),
            None => ended.map_err(Failure::Error),
        };
        // The session's blocks must be its alone when the reader has it.
        drop(self.generation);
        let session = (!self.drops_session).then_some(self.session);
        let _ = self
            .items
            .send(Item::End(Box::new(Ended { session, outcome })));
    }
}
