//! Patterns, as the engine reads them without mistake.
//!
//! The engine turns a pattern for text into one for JSON strings, byte set by byte set. For a set that holds every control
//! character (or all but the line's end), as `[^"]` does, it allows every escape, and with them the quotation mark and the
//! backslash even where the set excludes them (derivre 0.3.13, regexbuilder.rs). A set without one of the control
//! characters is turned right. So where a pattern may have such a set, U+0001 is taken out of all of it.

use llguidance::regex_to_lark;
use regex_syntax::hir::{
    Capture, Class, ClassBytes, ClassBytesRange, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Literal, Repetition,
};
use regex_syntax::ParserBuilder;

const TAKEN_OUT: u8 = 1;
const LINE_END: u32 = 10;

/// What the pattern speaks of: a bit for each control character, and whether a set has some and not both of those that
/// JSON escapes.
#[derive(Default)]
struct Seen {
    controls: u32,
    partial: bool,
}

impl Seen {
    fn class(&mut self, ranges: impl Iterator<Item = (u32, u32)>) {
        let (mut controls, mut quote, mut backslash) = (0u32, false, false);
        for (first, last) in ranges {
            let has = |c: u32| first <= c && c <= last;
            (0..32).filter(|&c| has(c)).for_each(|c| controls |= 1 << c);
            quote |= has(u32::from(b'"'));
            backslash |= has(u32::from(b'\\'));
        }
        self.controls |= controls;
        self.partial |= controls != 0 && !(quote && backslash);
    }

    fn look(&mut self, hir: &Hir) {
        match hir.kind() {
            HirKind::Literal(Literal(bytes)) => {
                for &byte in bytes.iter().filter(|&&byte| byte < 32) {
                    self.controls |= 1 << byte;
                    self.partial = true;
                }
            }
            HirKind::Class(Class::Unicode(class)) => {
                self.class(class.iter().map(|range| (range.start().into(), range.end().into())));
            }
            HirKind::Class(Class::Bytes(class)) => {
                self.class(class.iter().map(|range| (range.start().into(), range.end().into())));
            }
            HirKind::Repetition(repetition) => self.look(&repetition.sub),
            HirKind::Capture(capture) => self.look(&capture.sub),
            HirKind::Concat(list) | HirKind::Alternation(list) => list.iter().for_each(|one| self.look(one)),
            HirKind::Empty | HirKind::Look(_) => {}
        }
    }
}

fn take_out(hir: &Hir) -> Hir {
    let each = |list: &Vec<Hir>| list.iter().map(take_out).collect::<Vec<_>>();
    match hir.kind() {
        HirKind::Literal(Literal(bytes)) if bytes.contains(&TAKEN_OUT) => Hir::fail(),
        HirKind::Class(Class::Unicode(class)) => {
            let (mut class, out) = (class.clone(), char::from(TAKEN_OUT));
            class.difference(&ClassUnicode::new([ClassUnicodeRange::new(out, out)]));
            Hir::class(Class::Unicode(class))
        }
        HirKind::Class(Class::Bytes(class)) => {
            let mut class = class.clone();
            class.difference(&ClassBytes::new([ClassBytesRange::new(TAKEN_OUT, TAKEN_OUT)]));
            Hir::class(Class::Bytes(class))
        }
        HirKind::Repetition(one) => Hir::repetition(Repetition { sub: Box::new(take_out(&one.sub)), ..one.clone() }),
        HirKind::Capture(one) => Hir::capture(Capture { sub: Box::new(take_out(&one.sub)), ..one.clone() }),
        HirKind::Concat(list) => Hir::concat(each(list)),
        HirKind::Alternation(list) => Hir::alternation(each(list)),
        HirKind::Empty | HirKind::Look(_) | HirKind::Literal(_) => hir.clone(),
    }
}

/// A pattern of ECMAScript, as JSON schema has them, for a reader that knows classes in classes and `&&` and `~~` between
/// them: in a class those characters are no more than themselves.
fn plain_classes(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let (mut in_class, mut escaped) = (false, false);
    for c in pattern.chars() {
        if in_class && !escaped && matches!(c, '[' | '&' | '~') {
            out.push('\\');
        }
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '[' => in_class = true,
            ']' => in_class = false,
            _ => {}
        }
        out.push(c);
    }
    out
}

/// `pattern`, or the same without U+0001. One that is no pattern is left to the engine, which says what is wrong.
pub fn safe(pattern: &str) -> String {
    let pattern = plain_classes(pattern);
    // As the engine has it: \d and \w are ASCII's.
    let read = ParserBuilder::new().utf8(false).build().parse(&regex_to_lark(&pattern, "dw"));
    let Ok(hir) = read else { return pattern };
    let mut seen = Seen::default();
    seen.look(&hir);
    if seen.controls | 1 << LINE_END == u32::MAX && seen.partial {
        return take_out(&hir).to_string();
    }
    pattern
}
