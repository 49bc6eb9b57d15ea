//! Patterns, as the engine reads them without mistake.
//!
//! Texts are written without `\u`, so that there is one way to write each; control characters that have no letter of their
//! own to be escaped by cannot be drawn then. The engine leaves such a character out of what it makes of a literal, and
//! the rest matches; and for a set that holds every control character, as `[^"]` does, it allows every escape, the
//! quotation mark and the backslash among them even where the set excludes those (derivre 0.3.13, regexbuilder.rs). So
//! these characters are taken out of patterns, literals that hold one with them.

use llguidance::regex_to_lark;
use regex_syntax::hir::{
    Capture, Class, ClassBytes, ClassBytesRange, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Literal, Repetition,
};
use regex_syntax::ParserBuilder;

/// The characters that cannot be drawn.
const UNDRAWN: [(u8, u8); 4] = [(0x00, 0x07), (0x0B, 0x0B), (0x0E, 0x1F), (0x7F, 0x7F)];

fn is_undrawn(byte: u8) -> bool {
    UNDRAWN.iter().any(|&(first, last)| first <= byte && byte <= last)
}

/// Whether a text can be drawn.
pub fn is_drawable(text: &str) -> bool {
    !text.bytes().any(is_undrawn)
}

fn take_out(hir: &Hir) -> Hir {
    let each = |list: &Vec<Hir>| list.iter().map(take_out).collect::<Vec<_>>();
    match hir.kind() {
        HirKind::Literal(Literal(bytes)) if bytes.iter().any(|&byte| is_undrawn(byte)) => Hir::fail(),
        HirKind::Class(Class::Unicode(class)) => {
            let mut class = class.clone();
            let range = |(first, last)| ClassUnicodeRange::new(char::from(first), char::from(last));
            class.difference(&ClassUnicode::new(UNDRAWN.map(range)));
            Hir::class(Class::Unicode(class))
        }
        HirKind::Class(Class::Bytes(class)) => {
            let mut class = class.clone();
            class.difference(&ClassBytes::new(UNDRAWN.map(|(first, last)| ClassBytesRange::new(first, last))));
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

/// `pattern` without what cannot be drawn. One that is no pattern is left to the engine, which says what is wrong.
pub fn safe(pattern: &str) -> String {
    let pattern = plain_classes(pattern);
    // As the engine has it: \d and \w are ASCII's.
    match ParserBuilder::new().utf8(false).build().parse(&regex_to_lark(&pattern, "dw")) {
        Ok(read) => take_out(&read).to_string(),
        Err(_) => pattern,
    }
}
