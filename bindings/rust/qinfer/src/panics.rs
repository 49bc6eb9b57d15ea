//! Panics of callbacks: caught before they reach the library, and resumed once the call that made the callback is
//! over.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};

pub(crate) type Payload = Box<dyn Any + Send>;

thread_local! {
    // Callbacks run on the thread of the call, so each call finds what its own callbacks left.
    static CAUGHT: RefCell<Option<Payload>> = const { RefCell::new(None) };
    // While an engine steps: panics of hooks, each with the address of its session. One call works for many sessions
    // then, and what fails of one is none of the others' business.
    static OF_HOOKS: RefCell<Option<Vec<(usize, Payload)>>> = const { RefCell::new(None) };
}

/// Runs what a callback does. After a panic, its own or one of an earlier callback of the same call, the result is
/// `failed`, which ends the call.
pub(crate) fn guard<R>(failed: R, callback: impl FnOnce() -> R) -> R {
    // Where the thread ends, its CAUGHT may be gone already.
    if CAUGHT
        .try_with(|caught| caught.borrow().is_some())
        .unwrap_or(false)
    {
        return failed;
    }
    guard_release(failed, callback)
}

/// The same for callbacks that release something: they run after a panic, too.
pub(crate) fn guard_release<R>(failed: R, callback: impl FnOnce() -> R) -> R {
    // An earlier panic must not come out of a call that the callback makes.
    let earlier = take();
    let result = catch_unwind(AssertUnwindSafe(callback));
    if let Some(payload) = earlier {
        keep(payload);
    }
    result.unwrap_or_else(|payload| {
        keep(payload);
        failed
    })
}

/// What a hook of a session does: within by_session() a panic ends what is done for that session, and nothing else.
pub(crate) fn guard_hook<R, S>(session: *const S, failed: R, callback: impl FnOnce() -> R) -> R {
    // Taken out meanwhile: hooks of calls that the callback makes are none of the step's.
    let step = OF_HOOKS.try_with(|panics| panics.borrow_mut().take());
    let Some(mut panics) = step.ok().flatten() else {
        return guard(failed, callback);
    };
    let result = if panics.iter().any(|(of, _)| *of == session.addr()) {
        failed
    } else {
        let earlier = take();
        let result = catch_unwind(AssertUnwindSafe(callback));
        if let Some(payload) = earlier {
            keep(payload);
        }
        result.unwrap_or_else(|payload| {
            panics.push((session.addr(), payload));
            failed
        })
    };
    OF_HOOKS.with_borrow_mut(|of_hooks| *of_hooks = Some(panics));
    result
}

/// Makes a call that works for many sessions. Also gives the panics of their hooks, each with the address of its
/// session. A panic of another callback belongs to none of them, and is forgotten.
pub(crate) fn by_session<R>(call: impl FnOnce() -> R) -> (R, Vec<(usize, Payload)>) {
    OF_HOOKS.with_borrow_mut(|panics| *panics = Some(Vec::new()));
    let result = call();
    let panics = OF_HOOKS.with_borrow_mut(Option::take).unwrap_or_default();
    if let Some(payload) = take() {
        discard(payload);
    }
    (result, panics)
}

fn keep(payload: Payload) {
    let mut payload = Some(payload);
    let _ = CAUGHT.try_with(|caught| {
        let mut caught = caught.borrow_mut();
        if caught.is_none() {
            *caught = payload.take();
        }
    });
    // Of two panics the first counts.
    if let Some(payload) = payload {
        discard(payload);
    }
}

/// Drops a payload. That may panic in turn, where nothing may: then what it panics with is leaked.
pub(crate) fn discard(payload: Payload) {
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(again);
    }
}

/// What a callback of the call that has just returned panicked with.
pub(crate) fn take() -> Option<Payload> {
    CAUGHT.try_with(|caught| caught.borrow_mut().take()).ok()?
}

/// Goes on with the panic of a callback, if there was one.
pub(crate) fn resume() {
    if let Some(payload) = take() {
        resume_unwind(payload);
    }
}

/// Runs what is called from drop(): a panic of a callback must not leave it, and is forgotten. One that an outer call
/// waits for is kept.
pub(crate) fn quiet(release: impl FnOnce()) {
    let outer = take();
    release();
    if let Some(payload) = take() {
        discard(payload);
    }
    if let Some(payload) = outer {
        keep(payload);
    }
}
