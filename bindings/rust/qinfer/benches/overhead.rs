//! What the binding costs for each token over C: the same generation through qinfer_generate with a C callback that
//! does nothing, through `generate_with` with a closure, and through `stream`, in turns. Prints medians, and what a
//! tenth of the runs is below, which says more on a busy machine.
//!
//!     cargo bench -p qinfer [-- MODEL]        (examples/models/tiny-stories by default)
#![allow(missing_docs)]

use std::ffi::{c_char, c_void};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use qinfer::{
    sys, Error, GenerateOptions, LoadOptions, Model, Runtime, RuntimeOptions, Session, Token,
};

const TOKENS: u32 = 200;
const RUNS: usize = 201;

unsafe extern "C" fn nothing(
    _: *const c_char,
    _: usize,
    _: sys::qinfer_token,
    _: *mut c_void,
) -> i32 {
    0
}

fn with_c(session: &mut Session) -> Result<u32, Error> {
    let options = sys::qinfer_generate_options {
        max_tokens: TOKENS,
        on_token: Some(nothing),
        ..sys::sized()
    };
    let mut out = sys::sized::<sys::qinfer_generate_result>();
    // SAFETY: all of it lives through the call.
    let status = unsafe {
        sys::qinfer_generate(
            session.as_mut_ptr(),
            &options,
            &mut out,
            std::ptr::null_mut(),
        )
    };
    assert_eq!(status, sys::QINFER_OK);
    Ok(out.new_tokens)
}

fn options() -> GenerateOptions {
    GenerateOptions {
        max_tokens: TOKENS,
        ..Default::default()
    }
}

fn with_closure(session: &mut Session) -> Result<u32, Error> {
    let mut bytes = 0;
    let done = session.generate_with(&options(), |piece| {
        bytes += piece.text.len();
        ControlFlow::Continue(())
    })?;
    assert_eq!(bytes, done.text.len());
    Ok(done.new_tokens)
}

fn with_stream(session: &mut Session) -> Result<u32, Error> {
    Ok(session.stream(&options())?.finish()?.new_tokens)
}

fn main() -> Result<(), Error> {
    let default =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/models/tiny-stories");
    let named = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with('-'));
    let one_thread = RuntimeOptions {
        threads: 1,
        ..Default::default()
    };
    let load = LoadOptions {
        runtime: Some(Runtime::new(&one_thread)?),
        ..Default::default()
    };
    let model = Model::load(named.map_or(default, Into::into), load)?;
    let mut session = Session::for_model(&model)?;
    session.append_text("Once upon a time")?;
    let prompt = session.len();
    // Stories of one length.
    let banned: Vec<(Token, f32)> = model
        .end_tokens()?
        .iter()
        .map(|&end| (end, f32::NEG_INFINITY))
        .collect();
    session.set_bias(&banned)?;

    type Way = fn(&mut Session) -> Result<u32, Error>;
    let ways: [(&str, Way); 3] = [
        ("qinfer_generate, C callback", with_c),
        ("Session::generate_with", with_closure),
        ("Session::stream", with_stream),
    ];
    let mut times = [const { Vec::<f64>::new() }; 3];
    for run in 0..RUNS + 1 {
        for (at, (_, way)) in ways.iter().enumerate() {
            session.truncate(prompt)?;
            let begin = Instant::now();
            let n = way(&mut session)?;
            let ns = begin.elapsed().as_nanos() as f64;
            assert_eq!(n, TOKENS);
            if run > 0 {
                times[at].push(ns / f64::from(n));
            }
        }
    }
    println!("ns per token, {TOKENS} tokens, {RUNS} runs in turns:         median  fastest tenth");
    let mut of_c = None;
    for ((name, _), times) in ways.iter().zip(&mut times) {
        times.sort_by(f64::total_cmp);
        let (median, fast) = (times[RUNS / 2], times[RUNS / 10]);
        let (c_median, c_fast) = *of_c.get_or_insert((median, fast));
        println!("{name:<52} {median:8.0} {fast:14.0}");
        if (median, fast) != (c_median, c_fast) {
            println!(
                "{:<52} {:+8.0} {:+14.0}",
                "  over C",
                median - c_median,
                fast - c_fast
            );
        }
    }
    Ok(())
}
