// Prefill and decode speed of llama.cpp from its npm package, for bench/compare; prints one JSON object.
//
//   node bench_llama_cpp.mjs --npm DIR --model FILE.gguf -t 2 -p 512 -n 64 --depth 8
//
// Prefill is a prompt of -p tokens on an empty context; decode -n tokens, each sampled greedily, after --depth others.
// -p 0 or -n 0 leaves that part out. Each part runs once before it is timed. The file needs a vocabulary (a placeholder
// will do): without one the library ends the process.
import {readFileSync} from "node:fs";
import path from "node:path";
import {pathToFileURL} from "node:url";
import {parseArgs} from "node:util";

const {values} = parseArgs({
    options: {
        npm: {type: "string"},
        model: {type: "string"},
        threads: {type: "string", short: "t", default: "2"},
        prompt: {type: "string", short: "p", default: "512"},
        generate: {type: "string", short: "n", default: "64"},
        depth: {type: "string", default: "8"},
    },
});
const [threads, prompt, generate, depth] =
    [values.threads, values.prompt, values.generate, values.depth].map(Number);
const moduleDirectory = path.resolve(values.npm, "node_modules", "node-llama-cpp");
const {getLlama, LlamaLogLevel} = await import(pathToFileURL(path.join(moduleDirectory, "dist", "index.js")));

const llama = await getLlama({gpu: false, build: "never", logLevel: LlamaLogLevel.error, maxThreads: threads});
const model = await llama.loadModel({modelPath: values.model, checkTensors: false});
const context = await model.createContext({
    contextSize: Math.ceil((Math.max(prompt, depth + generate) + 8) / 256) * 256,
    batchSize: 512,
    threads,
    flashAttention: true,
});
const sequence = context.getSequence();
const tokens = (n) => Array.from({length: n}, (_, i) => (i * 37 + 11) % 1000 + 100);

async function prefill(n) {
    await sequence.clearHistory();
    const begin = performance.now();
    await sequence.evaluateWithoutGeneratingNewTokens(tokens(n));
    return (performance.now() - begin) / 1e3;
}

// The first token that comes out belongs to the last one of the prompt: the clock starts there.
async function decode(n) {
    await sequence.clearHistory();
    if (depth > 1) await sequence.evaluateWithoutGeneratingNewTokens(tokens(depth - 1));
    let begin = 0, count = 0;
    for await (const _ of sequence.evaluate([5], {temperature: 0, yieldEogToken: true})) {
        if (count === 0) begin = performance.now();
        if (count++ === n) break;
    }
    if (count <= n) throw new Error(`only ${count} tokens were generated`);
    return (performance.now() - begin) / 1e3;
}

const result = {
    package: JSON.parse(readFileSync(path.join(moduleDirectory, "package.json"), "utf8")).version,
    release: llama.llamaCppRelease.release,
};
if (prompt > 0) {
    await prefill(Math.min(prompt, 512));
    result.prefill = prompt / await prefill(prompt);
}
if (generate > 0) {
    if (prompt === 0) await prefill(8);
    result.decode = generate / await decode(generate);
}
console.log(JSON.stringify(result));
process.exit(0);
