//! The lines that the README quotes: a story, piece by piece.
//!
//!     cargo run --example quickstart [-- MODEL]

use qinfer::{GenerateOptions, LoadOptions, Model, Session};

/// A model, unless the command line names one.
const MODEL: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../../examples/models/tiny-stories"
);

fn main() -> Result<(), qinfer::Error> {
    let path = std::env::args().nth(1).unwrap_or(MODEL.into());
    let model = Model::load(path, LoadOptions::default())?;
    let mut session = Session::for_model(&model)?;
    session.append_text("Once upon a time")?;
    let options = GenerateOptions {
        max_tokens: 40,
        stop: vec!["\n".into()],
        ..Default::default()
    };
    for piece in session.stream(&options)? {
        print!("{}", piece?);
    }
    println!();
    Ok(())
}
