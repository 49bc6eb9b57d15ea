// Which public functions no test calls, by what test/calls.cjs noted while the tests ran. Ends with 1 if there is one.
// node scripts/uncalled.mjs FOLDER [EXEMPT]: EXEMPT is a regular expression for names that need no call.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const [folder, exempt] = process.argv.slice(2);
if (folder === undefined) {
  console.error('usage: node scripts/uncalled.mjs FOLDER [EXEMPT]');
  process.exit(2);
}
const notes = readdirSync(folder).map((name) => JSON.parse(readFileSync(join(folder, name), 'utf8')));
const all = new Set(notes.flatMap((note) => note.all));
const called = new Set(notes.flatMap((note) => note.called));
const isExempt = (name) => exempt !== undefined && new RegExp(exempt).test(name);
const uncalled = [...all].filter((name) => !called.has(name) && !isExempt(name));
if (called.size === 0) {
  console.error(`no test called anything, by what is in ${folder}`);
  process.exitCode = 1;
} else if (uncalled.length > 0) {
  console.error(`no test calls ${uncalled.sort().join(', ')}`);
  process.exitCode = 1;
} else {
  console.log(`every one of ${all.size} public functions is called by a test`);
}
