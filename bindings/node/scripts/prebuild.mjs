// Builds the addon against an installed qinfer, and puts it and the libraries where the package looks for them:
// prebuilds/linux-x64/. Of libqinfer_grammar and qinfer-server, which need not be installed, it has what there is. Needs a C++17 compiler ($CXX, or c++) and the development dependencies (npm ci).
// npm run prebuild -- PREFIX
import { execFile } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readdirSync, realpathSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { availableParallelism, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const root = fileURLToPath(new URL('..', import.meta.url));
const grammarSoname = 'libqinfer_grammar.so.0.2';
const compiler = process.env.CXX ?? 'c++';
const execute = promisify(execFile);

/** The folder of a shared library, which some systems call lib64. */
function libraryFolder(prefix, name) {
  const folders = ['lib', 'lib64', `lib/${process.arch === 'x64' ? 'x86_64' : 'aarch64'}-linux-gnu`];
  const folder = folders.map((each) => join(prefix, each)).find((each) => existsSync(join(each, name)));
  if (folder === undefined) throw new Error(`${name} is in none of ${folders.join(', ')} of ${prefix}`);
  return folder;
}

/** Copies what an installed qinfer need not have. */
function copyOptional(from, to) {
  if (!existsSync(from)) return;
  mkdirSync(dirname(to), { recursive: true });
  copyFileSync(realpathSync(from), to);
}

async function compile(source, object, prefix) {
  const headers = createRequire(import.meta.url)('node-api-headers').include_dir;
  const flags = [
    '-std=c++17',
    '-O2',
    '-fPIC',
    '-fvisibility=hidden',
    '-Wall',
    '-Wextra',
    '-Werror',
    '-DNAPI_VERSION=8',
  ];
  const include = [`-I${join(prefix, 'include')}`, `-isystem${headers}`];
  await execute(compiler, [...flags, ...include, '-c', source, '-o', object]);
}

async function build(prefix, work) {
  const sources = readdirSync(join(root, 'src')).filter((name) => name.endsWith('.cpp'));
  const objects = sources.map((name) => join(work, `${name}.o`));
  const queue = sources.map((name, at) => () => compile(join(root, 'src', name), objects[at], prefix));
  const worker = async () => {
    for (let next = queue.pop(); next !== undefined; next = queue.pop()) await next();
  };
  await Promise.all(Array.from({ length: Math.min(2, availableParallelism()) }, worker));

  const soname = 'libqinfer.so.0.2';
  const from = libraryFolder(prefix, soname);
  const folder = join(root, 'prebuilds', `${process.platform}-${process.arch}`);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(join(folder, 'lib'), { recursive: true });
  copyFileSync(realpathSync(join(from, soname)), join(folder, 'lib', soname));
  copyOptional(join(from, grammarSoname), join(folder, 'lib', grammarSoname));
  copyOptional(join(prefix, 'bin/qinfer-server'), join(folder, 'bin/qinfer-server')); // finds ../lib
  for (const name of ['LICENSE', 'copyright']) copyOptional(join(prefix, 'share/doc/qinfer', name), join(folder, name));
  const target = join(folder, 'qinfer.node');
  await execute(compiler, ['-shared', '-o', target, ...objects, join(from, soname), '-Wl,-rpath,$ORIGIN/lib', '-ldl']);
  return target;
}

const [prefix] = process.argv.slice(2);
if (prefix === undefined) {
  console.error('usage: npm run prebuild -- PREFIX');
  process.exit(2);
}
const work = mkdtempSync(join(tmpdir(), 'qinfer-prebuild-'));
try {
  console.log(await build(prefix, work));
} catch (error) {
  console.error(error.stderr || error.message);
  process.exitCode = 1;
} finally {
  rmSync(work, { recursive: true });
}
