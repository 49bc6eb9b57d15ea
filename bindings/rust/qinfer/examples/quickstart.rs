//! The lines that the README quotes: a story, piece by piece. Run it at the top of the checkout.

use qinfer::{GenerateOptions, LoadOptions, Model, Session};

fn main() -> Result<(), qinfer::Error> {
    let model = Model::load("examples/models/tiny-stories", LoadOptions::default())?;
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
