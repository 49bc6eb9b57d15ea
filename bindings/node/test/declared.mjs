// What lib/index.d.ts declares, as data: functions and classes with their parameters, and the members of
// interfaces. A type is the text that is written there.
import { readFileSync } from 'node:fs';
import ts from 'typescript';

const path = new URL('../lib/index.d.ts', import.meta.url);
const source = ts.createSourceFile('index.d.ts', readFileSync(path, 'utf8'), ts.ScriptTarget.Latest, true);

const typeOf = (node) => node.type?.getText() ?? 'any';
const parametersOf = (node) =>
  node.parameters.map((each) => ({
    name: each.name.getText(),
    type: typeOf(each),
    isOptional: each.questionToken !== undefined,
  }));
const has = (node, kind) => node.modifiers?.some((modifier) => modifier.kind === kind) ?? false;

/** {name: {extended: [names], members: {name: type}}} */
const interfaces = {};
/** {name: parameters} */
export const functions = {};
/** {name: {construct: parameters or null, statics: {name: parameters}, methods: the same, properties: {name: type}}} */
export const classes = {};

function declareClass(node) {
  const declared = { construct: [], statics: {}, methods: {}, properties: {} };
  for (const member of node.members) {
    const name = member.name?.getText();
    if (ts.isConstructorDeclaration(member))
      declared.construct = has(member, ts.SyntaxKind.PrivateKeyword) ? null : parametersOf(member);
    else if (ts.isMethodDeclaration(member))
      (has(member, ts.SyntaxKind.StaticKeyword) ? declared.statics : declared.methods)[name] = parametersOf(member);
    else declared.properties[name] = typeOf(member);
  }
  classes[node.name.text] = declared;
}

function declareInterface(node) {
  const extended = (node.heritageClauses ?? []).flatMap((clause) => clause.types.map((each) => each.getText()));
  const members = {};
  for (const member of node.members) {
    const isFunction = ts.isMethodSignature(member);
    members[member.name.getText()] = isFunction ? '() => unknown' : typeOf(member);
  }
  interfaces[node.name.text] ??= { extended: [], members: {} };
  interfaces[node.name.text].extended.push(...extended);
  Object.assign(interfaces[node.name.text].members, members);
}

for (const node of source.statements) {
  if (ts.isFunctionDeclaration(node)) functions[node.name.text] = parametersOf(node);
  if (ts.isClassDeclaration(node)) declareClass(node);
  if (ts.isInterfaceDeclaration(node)) declareInterface(node);
}

/** Members of an interface with those that it extends: {name: type}. */
export function membersOf(name) {
  const { extended, members } = interfaces[name];
  return Object.assign({}, ...extended.filter((each) => each in interfaces).map(membersOf), members);
}

/** Options of a type, which may be an intersection, an Omit<> or a Pick<>: {name: type}; null if it is no options. */
export function optionsOf(type) {
  const parts = type.split('&').map((part) => part.trim());
  if (parts.length > 1) return Object.assign({}, ...parts.map(optionsOf));
  if (type.startsWith('{')) return inlineOptions(type);
  const [, kind, base, keys] = /^(Omit|Pick)<\s*(\w+),([^>]*)>$/.exec(type) ?? [];
  if (kind === undefined) return /Options$|^WithFiles$/.test(type) ? membersOf(type) : null;
  const names = [...keys.matchAll(/'(\w+)'/g)].map((match) => match[1]);
  for (const [, extended] of keys.matchAll(/keyof (\w+)/g)) names.push(...Object.keys(membersOf(extended)));
  const isWanted = ([name]) => names.includes(name) === (kind === 'Pick');
  return Object.fromEntries(Object.entries(membersOf(base)).filter(isWanted));
}

/** Of "{ special?: boolean; parseSpecial?: boolean }". */
function inlineOptions(type) {
  return Object.fromEntries([...type.matchAll(/(\w+)\?: ([^;}]+)/g)].map(([, name, of]) => [name, of.trim()]));
}
