//! The declarations against the headers: by name against their text, and by value, layout and type through the C
//! compiler. The offsets in bindings.rs and grammar.rs are those of this crate's structs, because they assert each with
//! offset_of!.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Of the headers, in the order of HEADERS; what qinfer_grammar.h declares is there without the feature `grammar`, too.
const BINDINGS: &str = concat!(
    include_str!("../src/bindings.rs"),
    include_str!("../src/grammar.rs")
);
const HEADERS: [&str; 2] = ["qinfer/qinfer.h", "qinfer/qinfer_grammar.h"];

fn include_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../include")
}

/// The headers without comments and directives, but with the names that #define gives numbers.
fn headers() -> String {
    let text: String = HEADERS
        .iter()
        .map(|name| std::fs::read_to_string(include_folder().join(name)).unwrap())
        .collect();
    let mut code = String::new();
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once("/*") {
        code.push_str(before);
        rest = after.split_once("*/").unwrap().1;
    }
    code.push_str(rest);
    code.lines()
        .filter(|line| !line.starts_with('#') || line.starts_with("#define QINFER_VERSION"))
        .map(|line| format!("{line}\n"))
        .collect()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
}

/// What stands after `keyword` in the bindings, up to the first of `ends`.
fn declared<'a>(keyword: &'a str, ends: &'a [char]) -> impl Iterator<Item = &'a str> {
    BINDINGS
        .lines()
        .filter_map(move |line| line.trim_start().strip_prefix(keyword))
        .map(move |rest| rest.split(ends).next().unwrap().trim())
}

#[test]
fn every_function_of_the_headers_is_declared() {
    let code = headers();
    let in_header: BTreeSet<&str> = code
        .split("\nQINFER_")
        .filter(|text| text.starts_with("API ") || text.starts_with("STATUS "))
        .filter_map(|text| {
            words(text.split('(').next().unwrap())
                .filter(|w| !w.is_empty())
                .last()
        })
        .collect();
    let here: BTreeSet<&str> = declared("pub fn ", &['(']).collect();
    assert!(in_header.len() > 80 && in_header.contains("qinfer_runtime_get_metrics"));
    assert!(in_header.contains("qinfer_grammar_matcher_error"));
    assert_eq!(in_header, here);
}

#[test]
fn every_constant_and_struct_of_the_headers_is_declared() {
    let code = headers();
    let constants: BTreeSet<&str> = words(&code)
        .filter(|word| word.starts_with("QINFER_"))
        .filter(|word| !["QINFER_API", "QINFER_STATUS"].contains(word))
        .collect();
    let here: BTreeSet<&str> = declared("pub const ", &[':']).collect();
    assert!(constants.len() > 80);
    assert_eq!(constants, here);
    let structs: BTreeSet<&str> = code
        .split("typedef struct ")
        .skip(1)
        .filter_map(|text| words(text).next())
        .collect();
    let here: BTreeSet<&str> = declared("pub struct ", &[' ']).collect();
    assert_eq!(structs, here);
}

/// A type as C writes it.
fn c_type(rust: &str) -> String {
    let rust = rust.trim();
    if let Some(inner) = rust.strip_prefix("*const ") {
        return format!("{} const *", c_type(inner));
    }
    if let Some(inner) = rust.strip_prefix("*mut ") {
        return format!("{} *", c_type(inner));
    }
    if let Some(function) = rust.strip_prefix("::core::option::Option<") {
        let (arguments, result) = signature(function.trim_end_matches('>'));
        return format!("__typeof__({result} (*)({arguments}))");
    }
    if let Some((element, n)) = rust
        .strip_prefix('[')
        .and_then(|array| array.split_once(';'))
    {
        let n = n.trim().trim_end_matches("usize]");
        return format!("__typeof__({}[{n}])", c_type(element));
    }
    match rust.trim_start_matches("::core::ffi::") {
        "c_char" => "char".into(),
        "c_void" => "void".into(),
        "f32" => "float".into(),
        "f64" => "double".into(),
        "usize" => "size_t".into(),
        number @ ("u32" | "u64") => format!("uint{}_t", &number[1..]),
        number @ ("i32" | "i64") => format!("int{}_t", &number[1..]),
        name => name
            .strip_suffix("_fn")
            .map_or(name.into(), |_| format!("__typeof__({name})")),
    }
}

/// Arguments and result of `fn(a: T, b: U) -> R` as C writes them.
fn signature(function: &str) -> (String, String) {
    let (arguments, result) = function
        .split_once('(')
        .unwrap()
        .1
        .rsplit_once(')')
        .unwrap();
    let types: Vec<String> = arguments
        .split(',')
        .filter_map(|argument| argument.split_once(':'))
        .map(|(_, rust)| c_type(rust))
        .collect();
    let result = result
        .trim()
        .strip_prefix("->")
        .map_or("void".into(), c_type);
    let none = types.is_empty();
    (
        if none {
            "void".into()
        } else {
            types.join(", ")
        },
        result,
    )
}

/// A C program that compiles only if the bindings say what the headers say.
fn program() -> String {
    let mut c: String = HEADERS
        .iter()
        .map(|name| format!("#include <{name}>\n"))
        .collect();
    for line in BINDINGS
        .lines()
        .filter_map(|line| line.strip_prefix("pub const "))
    {
        let (name, rest) = line.split_once(':').unwrap();
        let value = rest.split_once('=').unwrap().1;
        writeln!(
            c,
            "_Static_assert({name} == {}, \"{name}\");",
            value.trim_end_matches(';')
        )
        .unwrap();
    }
    let flat: Vec<&str> = BINDINGS
        .lines()
        .map(str::trim)
        .filter(|line| !line.starts_with("#["))
        .collect();
    let flat = flat.join(" ");
    for text in flat.split("[\"Size of ").skip(1) {
        let (name, bytes) = (text.split('"').next().unwrap(), number_after(text, " - "));
        writeln!(c, "_Static_assert(sizeof({name}) == {bytes}, \"{name}\");").unwrap();
    }
    for text in flat.split("[\"Offset of field: ").skip(1) {
        let (name, offset) = (text.split('"').next().unwrap(), number_after(text, " - "));
        let member = name.replace("::", ", ");
        writeln!(
            c,
            "_Static_assert(offsetof({member}) == {offset}, \"{name}\");"
        )
        .unwrap();
    }
    members(&flat, &mut c);
    for text in flat.split("pub fn ").skip(1) {
        let declaration = text.split(';').next().unwrap();
        let (name, (arguments, result)) = (
            declaration.split('(').next().unwrap(),
            signature(declaration),
        );
        writeln!(c, "{result} {name}({arguments});").unwrap();
    }
    c
}

fn number_after<'a>(text: &'a str, mark: &str) -> &'a str {
    text.split_once(mark)
        .unwrap()
        .1
        .split("usize")
        .next()
        .unwrap()
}

/// The types of all members.
fn members(flat: &str, c: &mut String) {
    for text in flat.split("pub struct ").skip(1) {
        let (name, rest) = text.split_once(" { ").unwrap();
        let body = rest.split(" }").next().unwrap();
        for member in body.split("pub ").skip(1) {
            let (member, rust) = member.split_once(':').unwrap();
            let rust = rust
                .trim()
                .trim_end_matches(',')
                .replace(", >", ">")
                .replace(",>", ">");
            let known = match rust.strip_suffix("_fn") {
                Some(_) => rust.clone(),
                None => c_type(&rust),
            };
            writeln!(
                c,
                "_Static_assert(__builtin_types_compatible_p(__typeof__((({name} *)0)->{member}), {known}), \
                 \"{name}.{member}\");"
            )
            .unwrap();
        }
    }
}

#[test]
fn the_c_compiler_agrees_with_every_value_layout_and_type() {
    let program = program();
    assert!(program.lines().count() > 600, "{program}");
    let mut compiler = Command::new("cc")
        .args(["-std=c11", "-fsyntax-only", "-Wno-unused-result", "-I"])
        .arg(include_folder())
        .args(["-xc", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    compiler
        .stdin
        .take()
        .unwrap()
        .write_all(program.as_bytes())
        .unwrap();
    let done = compiler.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
}

#[test]
fn the_library_that_is_linked_is_the_one_of_the_header() {
    // SAFETY: no arguments.
    let version = unsafe { qinfer_sys::qinfer_version() };
    assert!(version >= qinfer_sys::QINFER_VERSION, "{version}");
}

#[cfg(feature = "grammar")]
#[test]
fn the_library_of_grammars_is_the_one_of_the_header() {
    // SAFETY: no arguments.
    let version = unsafe { qinfer_sys::qinfer_grammar_version() };
    assert!(version >= qinfer_sys::QINFER_VERSION, "{version}");
    let options: qinfer_sys::qinfer_grammar_options = qinfer_sys::sized();
    assert_eq!(options.struct_size as usize, size_of_val(&options));
}

#[test]
fn sized_structs_are_zero_but_for_their_size() {
    let options: qinfer_sys::qinfer_load_options = qinfer_sys::sized();
    assert_eq!(options.struct_size as usize, size_of_val(&options));
    assert_eq!((options.flags, options.memory_budget_bytes), (0, 0));
    assert!(options.progress.is_none() && options.files.is_null());
}
