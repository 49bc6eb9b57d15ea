// Grammars and matchers, of libqinfer_grammar: a separate library, which is loaded with the first grammar.
'use strict';

const fs = require('node:fs');
const path = require('node:path');
const { addon, folder, QinferError } = require('./native.js');
const { Handle, handleOf, tokensOf } = require('./handles.js');
const { run, runSync } = require('./calls.js');
const { Model } = require('./model.js');
const { isPlain, json, optionsOf, string, wrong } = require('./values.js');
const { kGrammar } = require('./options.js');

const kLibrary = 'libqinfer_grammar.so.0.2';
const kVariable = 'QINFER_GRAMMAR_LIBRARY'; // as in the binding for Python
const kNotFound = -7; // QINFER_E_NOT_FOUND
const kInvalidArgument = -2;
const kKinds = [undefined, 'jsonSchema', 'regex', 'lark']; // at their QINFER_GRAMMAR_*

/** What to load, and that in words: what the environment names, what the package has, or what the system finds. */
function libraryPath() {
  const named = process.env[kVariable];
  if (named) return [named, `where ${kVariable} says (${named})`];
  const own = path.join(folder, 'lib', kLibrary);
  if (fs.existsSync(own)) return [own, `in the package (${own})`];
  return [kLibrary, `in the package (${own}) and where the system has its libraries`];
}

function loadLibrary() {
  const [file, where] = libraryPath();
  const why = addon.loadGrammars(file);
  if (why === undefined) return;
  const todo =
    `install it and its header (it is built with qinfer where there is cargo, and a package of its own) and build the ` +
    `package again, or name its file in the environment variable ${kVariable}`;
  throw new QinferError(kNotFound, `grammars need ${kLibrary}, which was looked for ${where}: ${why}; ${todo}`);
}

/** A schema as JSON. */
function schemaOf(schema) {
  if (typeof schema === 'string') return schema;
  if (typeof schema !== 'boolean' && !isPlain(schema))
    throw wrong('schema', 'an object, true or false, or JSON as a string', schema);
  return json(schema, 'schema');
}

const kMade = Symbol('made');

class Grammar extends Handle {
  constructor(key, handle, model) {
    if (key !== kMade) throw new TypeError('a Grammar is made by Grammar.jsonSchema(), regex() or lark()');
    super(handle);
    this.model = model;
  }

  static async jsonSchema(model, schema, options) {
    return Grammar.#make(model, 1, () => schemaOf(schema), options, 'jsonSchema()');
  }

  static jsonSchemaSync(model, schema, options) {
    return Grammar.#makeSync(model, 1, () => schemaOf(schema), options, 'jsonSchemaSync()');
  }

  static async regex(model, pattern, options) {
    return Grammar.#make(model, 2, () => string(pattern, 'pattern'), options, 'regex()');
  }

  static regexSync(model, pattern, options) {
    return Grammar.#makeSync(model, 2, () => string(pattern, 'pattern'), options, 'regexSync()');
  }

  static async lark(model, text, options) {
    return Grammar.#make(model, 3, () => string(text, 'text'), options, 'lark()');
  }

  static larkSync(model, text, options) {
    return Grammar.#makeSync(model, 3, () => string(text, 'text'), options, 'larkSync()');
  }

  static #job(model, kind, textOf, options, of) {
    const handle = handleOf(model, Model, 'model');
    const text = textOf();
    const settings = optionsOf(options, kGrammar, of);
    loadLibrary();
    return addon.grammarCompile(handle, kind, text, settings);
  }

  static async #make(model, ...rest) {
    return new Grammar(kMade, await run(Grammar.#job(model, ...rest), {}), model);
  }

  static #makeSync(model, ...rest) {
    return new Grammar(kMade, runSync(Grammar.#job(model, ...rest), {}), model);
  }

  get info() {
    const { kind, ...info } = addon.grammarInfo(handleOf(this, Grammar));
    return { kind: kKinds[kind], ...info };
  }
}

/** A matcher that the addon has made already. */
class Cloned {
  constructor(handle, model) {
    this.handle = handle;
    this.model = model;
  }
}

class Matcher extends Handle {
  constructor(grammar) {
    const cloned = grammar instanceof Cloned ? grammar : null;
    super(cloned?.handle ?? addon.matcherCreate(handleOf(grammar, Grammar, 'grammar')));
    this.model = grammar.model;
  }

  clone() {
    return new Matcher(new Cloned(addon.matcherClone(handleOf(this, Matcher)), this.model));
  }

  mask() {
    return addon.matcherMask(handleOf(this, Matcher));
  }

  accept(tokens) {
    addon.matcherAccept(handleOf(this, Matcher), tokensOf(tokens));
  }

  rewind(nTokens) {
    addon.matcherRewind(handleOf(this, Matcher), nTokens);
  }

  get info() {
    return addon.matcherInfo(handleOf(this, Matcher));
  }

  get error() {
    return addon.matcherError(handleOf(this, Matcher)) ?? null;
  }
}

/** The handle of a matcher for a session of the model: a new one of a grammar, or the one that is given. */
function matcherOf(grammar, model) {
  const isMatcher = grammar instanceof Matcher;
  if (!isMatcher && !(grammar instanceof Grammar)) throw wrong('grammar', 'a Grammar, a Matcher or null', grammar);
  const handle = handleOf(grammar, isMatcher ? Matcher : Grammar, 'grammar');
  if (grammar.model !== model)
    throw new QinferError(kInvalidArgument, "grammar is of another Model, and must be of the session's Model");
  return isMatcher ? handle : addon.matcherCreate(handle);
}

module.exports = { Grammar, Matcher, matcherOf };
