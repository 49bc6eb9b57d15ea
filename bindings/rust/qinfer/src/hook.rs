//! Code of the host between logits and sampler.

use std::ffi::c_void;
use std::ops::ControlFlow;
use std::ptr;

use crate::panics::{guard, guard_hook, guard_release};
use crate::{sys, Token};

/// Code between logits and sampler: grammars, watermarks. `Break` ends the call with
/// [`Status::Cancelled`](crate::Status::Cancelled), and a panic comes out of it.
///
/// A closure that changes the logits is a hook:
///
/// ```no_run
/// # fn ban(session: &mut qinfer::Session) -> Result<(), qinfer::Error> {
/// session.set_logits_hook(|logits: &mut [f32]| logits[42] = f32::NEG_INFINITY)
/// # }
/// ```
pub trait LogitsHook: Send {
    /// Before bias, penalties and filters, for every token: changes a copy of the logits, one for each token of the
    /// vocabulary. A token set to negative infinity is not drawn.
    fn apply(&mut self, logits: &mut [f32]) -> ControlFlow<()>;

    /// A token that sampling has appended.
    fn accept(&mut self, token: Token) -> ControlFlow<()> {
        let _ = token;
        ControlFlow::Continue(())
    }

    /// The last `n_tokens` of the accepted tokens are about to be taken back; after `Break` they are not.
    fn rewind(&mut self, n_tokens: usize) -> ControlFlow<()> {
        let _ = n_tokens;
        ControlFlow::Continue(())
    }
}

impl<F: FnMut(&mut [f32]) + Send> LogitsHook for F {
    fn apply(&mut self, logits: &mut [f32]) -> ControlFlow<()> {
        self(logits);
        ControlFlow::Continue(())
    }
}

/// A hook, and the session that it was last asked for: only apply() is told which one that is, and it comes first.
struct Hooked<H> {
    hook: H,
    session: *const sys::qinfer_session,
}

fn boxed<H>(hook: H) -> *mut c_void {
    let session = ptr::null();
    Box::into_raw(Box::new(Hooked { hook, session })).cast()
}

/// The struct for the library, whose user is the hook in a box. Forks of the session have no hook.
pub(crate) fn raw<H: LogitsHook + 'static>(hook: H) -> sys::qinfer_logits_hook {
    sys::qinfer_logits_hook {
        apply: Some(apply::<H>),
        accept: Some(accept::<H>),
        rewind: Some(rewind::<H>),
        release: Some(release::<H>),
        user: boxed(hook),
        ..sys::sized()
    }
}

/// The same; forks have a clone of the hook.
pub(crate) fn raw_clone<H: LogitsHook + Clone + 'static>(hook: H) -> sys::qinfer_logits_hook {
    sys::qinfer_logits_hook {
        clone: Some(clone::<H>),
        ..raw(hook)
    }
}

fn ends(flow: ControlFlow<()>) -> i32 {
    flow.is_break() as i32
}

unsafe extern "C" fn apply<H: LogitsHook>(
    session: *const sys::qinfer_session,
    logits: *mut f32,
    n_vocab: u32,
    user: *mut c_void,
) -> i32 {
    // SAFETY: user is the box, which one call at a time uses.
    let hooked = unsafe { &mut *user.cast::<Hooked<H>>() };
    hooked.session = session;
    // SAFETY: there are n_vocab logits, for this call.
    let logits = unsafe { std::slice::from_raw_parts_mut(logits, n_vocab as usize) };
    guard_hook(session, 1, || ends(hooked.hook.apply(logits)))
}

unsafe extern "C" fn accept<H: LogitsHook>(token: sys::qinfer_token, user: *mut c_void) -> i32 {
    // SAFETY: as in apply().
    let hooked = unsafe { &mut *user.cast::<Hooked<H>>() };
    guard_hook(hooked.session, 1, || ends(hooked.hook.accept(token)))
}

unsafe extern "C" fn rewind<H: LogitsHook>(n_tokens: usize, user: *mut c_void) -> i32 {
    // SAFETY: as in apply().
    let hooked = unsafe { &mut *user.cast::<Hooked<H>>() };
    guard_hook(hooked.session, 1, || ends(hooked.hook.rewind(n_tokens)))
}

unsafe extern "C" fn clone<H: LogitsHook + Clone>(user: *mut c_void, out: *mut *mut c_void) -> i32 {
    // SAFETY: as in apply(); a session is forked by the thread that uses it. out is the library's.
    guard(1, || unsafe {
        let copy = (*user.cast::<Hooked<H>>()).hook.clone();
        ptr::write(out, boxed(copy));
        0
    })
}

unsafe extern "C" fn release<H>(user: *mut c_void) {
    // SAFETY: the last call with this user, which raw() or clone() has made.
    guard_release((), || {
        drop(unsafe { Box::from_raw(user.cast::<Hooked<H>>()) })
    });
}
