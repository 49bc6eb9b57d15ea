// Tells a story: streams what a model makes of a prompt, and stops it where a sentence ends.
// node story.mjs [MODEL [PROMPT]]      without MODEL: one of the repository, wherever this runs
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Model, Session } from 'qinfer';

const ours = fileURLToPath(new URL('../../../examples/models/tiny-stories', import.meta.url));
const [path = ours, prompt = 'Once upon a time'] = process.argv.slice(2);
if (!existsSync(path)) {
  console.error(`usage: node story.mjs [MODEL [PROMPT]] (there is no ${path})`);
  process.exit(2);
}

const model = await Model.load(path);
const session = new Session(model);
session.setSampler({ temperature: 0.8, topP: 0.95, seed: 5 });
session.append(prompt);
process.stdout.write(prompt);

let written = 0;
const story = session.stream({ signal: AbortSignal.timeout(60_000) });
for await (const text of story) {
  process.stdout.write(text);
  written += text.length;
  if (written > 200 && text.endsWith('.')) break;
}
const { newTokens, decodeNs, finish } = story.result;
console.log(`\n\n${newTokens} tokens, ${((newTokens / decodeNs) * 1e9).toFixed(0)} a second; ended by "${finish}"`);
session.close();
model.close();
