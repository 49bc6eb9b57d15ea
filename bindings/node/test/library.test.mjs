// What the addon makes of a library that does not keep its word.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { modelPath, temporaryFolder } from './support.mjs';

const run = promisify(execFile);

/** Says of whatever room it gets that it is too small and one is needed, and ends the process the second time. */
const source = `
  #include <stddef.h>
  #include <unistd.h>
  static int complain(size_t *out_n) {
    static int n_calls;
    if (n_calls++ == 1) _exit(99);
    *out_n = 1;
    return -9;
  }
  int qinfer_model_chat_template(const void *model, const char *name, char *text, size_t room, size_t *n, void *err) {
    return complain(n);
  }
  int qinfer_model_end_tokens(const void *model, int *tokens, size_t room, size_t *n, void *err) { return complain(n); }
`;

test('a size that fits into the room that was given is an error, and not tried again with more', async (t) => {
  const folder = temporaryFolder(t);
  const [file, library] = [join(folder, 'complain.c'), join(folder, 'complain.so')];
  writeFileSync(file, source);
  await run(process.env.CC ?? 'cc', ['-shared', '-fPIC', '-o', library, file]);
  for (const use of ['model.chatTemplate()', 'model.endTokens']) {
    const code = `
      const { Model } = require('qinfer');
      const model = Model.loadSync(${JSON.stringify(modelPath)}, { weights: false });
      try {
        ${use};
      } catch (error) {
        console.log(error.code);
      }`;
    const options = { cwd: fileURLToPath(new URL('.', import.meta.url)), env: { ...process.env, LD_PRELOAD: library } };
    const { stdout } = await run(process.execPath, ['-e', code], options);
    assert.equal(stdout, 'QINFER_E_BUFFER_TOO_SMALL\n', use);
  }
});
