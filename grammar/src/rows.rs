//! The rows of the parser that a grammar makes wherever one of its rules begins. A text goes no further than a row of
//! more than max_row_items items, and the engine takes time in proportion to the square of their number, or for ever
//! where parameters count on without end. Such grammars are refused before there is a parser.

use std::collections::HashSet;

use llguidance::earley::{CGrammar, CSymIdx, ParamExpr, ParamValue};

/// Items that are looked at in all. Rules beyond that are not looked at: texts end where their rows are too long.
const MAX_WORK: usize = 3_000_000;

/// A rule with a dot before one of its symbols or after the last one, and the rule's parameter.
#[derive(Clone, Copy)]
struct Item<'a> {
    symbols: &'a [CSymIdx],
    parameters: &'a [ParamExpr],
    dot: usize,
    parameter: ParamValue,
}

/// A row without what the text before it adds.
struct Row<'a> {
    grammar: &'a CGrammar,
    limit: usize,
    items: Vec<Item<'a>>,
    /// The address of each item's dot, and its parameter.
    seen: HashSet<(usize, u64)>,
}

impl<'a> Row<'a> {
    fn add(&mut self, item: Item<'a>) {
        if self.seen.insert((item.symbols.as_ptr().wrapping_add(item.dot) as usize, item.parameter.0)) {
            self.items.push(item);
        }
    }

    fn add_rules(&mut self, symbol: CSymIdx, parameter: ParamValue) {
        let symbol = self.grammar.sym_data(symbol);
        for (&rule, condition) in symbol.rules.iter().zip(&symbol.rules_cond) {
            if self.items.len() > self.limit {
                return;
            }
            if condition.eval(parameter) {
                let (symbols, parameters, dot) = self.grammar.rule_rhs(rule);
                self.add(Item { symbols, parameters, dot, parameter });
            }
        }
    }

    /// Adds what may come at an item's dot: the rules of the next symbol, and what follows a symbol that may be empty.
    fn expand(&mut self, item: Item<'a>) {
        let Some(&next) = item.symbols.get(item.dot) else { return };
        let symbol = self.grammar.sym_data(next);
        let passed = item.parameters[item.dot].eval(item.parameter);
        self.add_rules(next, if symbol.gen_grammar.is_some() { item.parameter } else { passed });
        if symbol.is_nullable || symbol.cond_nullable.iter().any(|condition| condition.eval(passed)) {
            self.add(Item { dot: item.dot + 1, ..item });
        }
    }

    /// Makes the row where `symbol` begins, as far as the limit. Gives the number of its items.
    fn begin(&mut self, symbol: CSymIdx) -> usize {
        self.items.clear();
        self.seen.clear();
        self.add_rules(symbol, ParamValue::default());
        let mut next = 0;
        while next < self.items.len() && self.items.len() <= self.limit {
            self.expand(self.items[next]);
            next += 1;
        }
        self.items.len()
    }
}

/// The name of a rule where a row of more than `limit` items begins.
pub fn too_long(grammar: &CGrammar, limit: usize) -> Option<&str> {
    let mut row = Row { grammar, limit, items: Vec::new(), seen: HashSet::new() };
    let (mut symbols, mut seen) = (vec![grammar.start()], HashSet::from([grammar.start()]));
    let (mut next, mut work) = (0, 0);
    while next < symbols.len() && work < MAX_WORK {
        let symbol = symbols[next];
        next += 1;
        let n_items = row.begin(symbol);
        if n_items > limit {
            return Some(grammar.sym_name(symbol));
        }
        // Which parameters other rules are reached with is not known.
        if grammar.parametric() {
            return None;
        }
        work += n_items + 1;
        for &rule in grammar.rules_of(symbol) {
            for &inner in grammar.rule_rhs(rule).0 {
                if seen.insert(inner) {
                    symbols.push(inner);
                }
            }
        }
    }
    None
}
