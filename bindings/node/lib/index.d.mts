// The types of index.mjs, which are those of index.js.
export * from './index.js';
