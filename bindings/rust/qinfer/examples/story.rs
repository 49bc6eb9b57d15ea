//! Tells a story: the beginning from the command line, the rest drawn piece by piece, and what it took.
//!
//!     cargo run --example story -- MODEL [PROMPT [SEED]]

use std::io::{stdout, Write};
use std::ops::ControlFlow;
use std::process::ExitCode;

use qinfer::{Error, GenerateOptions, LoadOptions, Model, SamplerOptions, Session};

fn tell(path: &str, prompt: &str, seed: u64) -> Result<(), Error> {
    let model = Model::load(path, LoadOptions::default())?;
    let mut session = Session::for_model(&model)?;
    session.set_sampler(&SamplerOptions {
        temperature: 0.7,
        top_p: 0.95,
        seed,
        ..Default::default()
    })?;
    session.append_text(prompt)?;
    print!("{prompt}");
    let options = GenerateOptions {
        max_tokens: 120,
        ..Default::default()
    };
    let done = session.generate_with(&options, |piece| {
        // A reader that has gone away ends the story.
        match write!(stdout(), "{}", piece.text).and_then(|()| stdout().flush()) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    })?;
    println!(
        "\n({} tokens, {:?}, {:.1?})",
        done.new_tokens, done.finish, done.decode
    );
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let Some(path) = arguments.get(1) else {
        eprintln!("usage: story MODEL [PROMPT [SEED]]");
        return ExitCode::from(2);
    };
    let prompt = arguments.get(2).map_or("Once upon a time", String::as_str);
    let seed = arguments
        .get(3)
        .and_then(|seed| seed.parse().ok())
        .unwrap_or(1);
    match tell(path, prompt, seed) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("story: {error}");
            ExitCode::FAILURE
        }
    }
}
