//! The README quotes a program that is built and run.

#[test]
fn the_readme_quotes_the_quickstart() {
    let readme = include_str!("../../README.md");
    let program = include_str!("../examples/quickstart.rs");
    let code = &program[program.find("use qinfer").unwrap()..];
    assert!(readme.contains(&format!("```rust\n{code}```\n")));
}
