//! The README quotes programs that are built and run.

fn is_quoted(program: &str) -> bool {
    let readme = include_str!("../../README.md");
    let code = &program[program.find("use qinfer").unwrap()..];
    readme.contains(&format!("```rust\n{code}```\n"))
}

#[test]
fn the_readme_quotes_the_quickstart() {
    assert!(is_quoted(include_str!("../examples/quickstart.rs")));
}

#[test]
fn the_readme_quotes_the_program_of_many_users() {
    assert!(is_quoted(include_str!("../examples/users.rs")));
}

#[test]
fn the_readme_quotes_the_lines_of_a_grammar() {
    let program = include_str!("../examples/json_schema.rs");
    let begin = program.find("    let vocabulary").unwrap();
    let end = begin + program[begin..].find("\n\n").unwrap();
    let lines = format!("```rust\n{}\n```\n", &program[begin..end]);
    assert!(include_str!("../../README.md").contains(&lines), "{lines}");
}
