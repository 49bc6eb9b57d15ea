// Makes up children: every answer is a document that fulfils a JSON schema. Needs libqinfer_grammar.
// node schema.mjs [MODEL]      a model for chats; without MODEL: one of the repository, wherever this runs
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Chat, Grammar, Model } from 'qinfer';

const ours = fileURLToPath(new URL('../../../examples/models/tiny-chat', import.meta.url));
const [path = ours] = process.argv.slice(2);
if (!existsSync(path)) {
  console.error(`usage: node schema.mjs [MODEL] (there is no ${path})`);
  process.exit(2);
}

const model = await Model.load(path);
const grammar = await Grammar.jsonSchema(model, {
  type: 'object',
  properties: { name: { enum: ['Lily', 'Tom', 'Sue'] }, age: { type: 'integer', minimum: 3, maximum: 9 } },
  required: ['name', 'age'],
  additionalProperties: false,
});
for (let seed = 0; seed < 3; seed++) {
  const chat = new Chat(model, { grammar, sampler: { temperature: 1, seed } });
  const { name, age } = JSON.parse(await chat.send('Make up a child, as JSON with a name and an age.'));
  console.log(`${name} is ${age} years old`);
  chat.close();
}
grammar.close();
model.close();
