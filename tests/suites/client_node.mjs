// Clients in JavaScript against a server: run by suite_clients.py as `client_node.mjs URL KEY`, in the folder of their
// packages. Prints a line of JSON for each check: its name, and what is wrong or null.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(process.cwd() + "/");
const load = (name) => import(pathToFileURL(require.resolve(name)));
const { default: OpenAI } = await load("openai");
const { default: Anthropic } = await load("@anthropic-ai/sdk");
const { createOpenAICompatible } = await load("@ai-sdk/openai-compatible");
const { createOpenAI } = await load("@ai-sdk/openai");
const { createAnthropic } = await load("@ai-sdk/anthropic");
const ai = await load("ai");
globalThis.AI_SDK_LOG_WARNINGS = false;

const [url, key] = process.argv.slice(2);
const question = "What is the capital of France?", answer = "The capital of France is Paris.";
const messages = [{ role: "user", content: question }];
const weather = "What is the weather in Paris?";
const city = { type: "object", properties: { city: { type: "string", description: "The city" } }, required: ["city"] };
const description = "Get the current weather in a city";
const model = "tiny-chat";

const openai = (apiKey = key) => new OpenAI({ baseURL: url + "/v1", apiKey, maxRetries: 0 });
const anthropic = () => new Anthropic({ baseURL: url, apiKey: key, maxRetries: 0 });
const compatible = createOpenAICompatible({ name: "qinfer", baseURL: url + "/v1", apiKey: key, includeUsage: true,
                                            supportsStructuredOutputs: true });
const tools = { get_weather: ai.tool({ description, inputSchema: ai.jsonSchema(city),
                                       execute: async () => ({ temperature: 21, sky: "clear" }) }) };

async function running() {
  const text = await (await fetch(url + "/metrics", { headers: { Authorization: `Bearer ${key}` } })).text();
  return Number(text.match(/^vllm:num_requests_running\{[^}]*\} (\S+)$/m)[1]);
}

async function mustEndSoon() {
  for (let i = 0; (await running()) !== 0; ++i) {
    assert(i < 100, "a request goes on whose client has left");
    await new Promise((done) => setTimeout(done, 50));
  }
}

async function all(stream) {
  const events = [];
  for await (const event of stream) events.push(event);
  return events;
}

// The AI SDK over any of its providers. It has to be told that nothing is stored: otherwise it sends references to items.
async function generates(from) {
  const given = await ai.generateText({ model: from, prompt: question, temperature: 0, maxOutputTokens: 100, maxRetries: 0 });
  assert.equal(given.text, answer);
  assert.equal(given.finishReason, "stop");
  assert(given.usage.inputTokens > 0 && given.usage.outputTokens > 0);
}

async function streams(from) {
  const given = ai.streamText({ model: from, prompt: question, temperature: 0, maxOutputTokens: 100, maxRetries: 0 });
  assert.equal((await all(given.textStream)).join(""), answer);
  assert((await given.usage).outputTokens > 0);
}

async function callsTool(from) {
  const given = await ai.generateText({ model: from, prompt: weather, temperature: 0, tools, maxRetries: 0,
                                        maxOutputTokens: 100, stopWhen: ai.stepCountIs(2),
                                        providerOptions: { openai: { store: false } } });
  assert.deepEqual(given.steps[0].toolCalls.map((call) => [call.toolName, call.input]),
                   [["get_weather", { city: "Paris" }]]);
  assert.match(given.text, /Paris/);
}

async function makesObject(from) {
  const schema = { type: "object", properties: { n: { type: "integer", minimum: 0, maximum: 9 } }, required: ["n"],
                   additionalProperties: false };
  const given = await ai.generateObject({ model: from, prompt: question, temperature: 0, maxRetries: 0,
                                          maxOutputTokens: 60, schema: ai.jsonSchema(schema) });
  assert.deepEqual(Object.keys(given.object), ["n"]);
}

const checks = {
  async openai_list() {
    assert.deepEqual((await openai().models.list()).data.map((one) => one.id), [model]);
  },
  async openai_chat() {
    const given = await openai().chat.completions.create({ model, messages, temperature: 0 });
    assert.equal(given.choices[0].message.content, answer);
  },
  async openai_connection_is_kept() {
    const client = openai();
    for (let i = 0; i < 20; ++i) {
      const given = await client.chat.completions.create({ model, messages, temperature: 0 });
      assert.equal(given.choices[0].message.content, answer);
    }
  },
  async openai_stream_with_usage() {
    const chunks = await all(await openai().chat.completions.create({ model, messages, temperature: 0, stream: true,
                                                                      stream_options: { include_usage: true } }));
    assert.equal(chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join(""), answer);
    assert(chunks.at(-1).usage.completion_tokens > 0);
  },
  async openai_run_tools() {
    const run = openai().chat.completions.runTools({
      model, temperature: 0, messages: [{ role: "user", content: weather }],
      tools: [{ type: "function", function: { name: "get_weather", description, parameters: city, parse: JSON.parse,
                                              function: async () => ({ temperature: 21, sky: "clear" }) } }] });
    assert.match(await run.finalContent(), /Paris/);
  },
  async openai_embeddings() {
    const given = await openai().embeddings.create({ model, input: ["a dog", "a cat"] });
    assert.equal(given.data.length, 2);
    assert(Math.abs(given.data[0].embedding.reduce((sum, x) => sum + x * x, 0) - 1) < 1e-4);
  },
  async openai_wrong_key() {
    await assert.rejects(openai("wrong").models.list(), OpenAI.AuthenticationError);
  },
  async openai_context_too_long() {
    const long = [{ role: "user", content: "word ".repeat(3000) }];
    await assert.rejects(openai().chat.completions.create({ model, messages: long }),
                         (error) => error instanceof OpenAI.BadRequestError && error.code === "context_length_exceeded");
  },
  async openai_abort() {
    const stream = await openai().completions.create({ model, prompt: "Once", max_tokens: 900, n: 8, stream: true,
                                                      logit_bias: { 1271: -100, 1273: -100 } });
    for await (const _ of stream) break;
    stream.controller.abort();
    await mustEndSoon();
  },
  async openai_responses() {
    const given = await openai().responses.create({ model, input: question, temperature: 0, store: false });
    assert.equal(given.output_text, answer);
  },
  async openai_responses_stream() {
    const events = await all(await openai().responses.create({ model, input: question, temperature: 0, store: false,
                                                               stream: true }));
    assert.equal(events.at(-1).type, "response.completed");
    assert.equal(events.map((event) => (event.type === "response.output_text.delta" ? event.delta : "")).join(""), answer);
  },
  async anthropic_message() {
    const given = await anthropic().messages.create({ model, messages, max_tokens: 60, temperature: 0 });
    assert.equal(given.content[0].text, answer);
    assert.equal(given.stop_reason, "end_turn");
  },
  async anthropic_stream() {
    const given = await anthropic().messages.stream({ model, messages, max_tokens: 60, temperature: 0 }).finalMessage();
    assert.equal(given.content[0].text, answer);
  },
  async anthropic_count_tokens() {
    assert((await anthropic().messages.countTokens({ model, messages })).input_tokens > 0);
  },
  async ai_compatible_generate() { await generates(compatible(model)); },
  async ai_compatible_stream() { await streams(compatible(model)); },
  async ai_compatible_tool() { await callsTool(compatible(model)); },
  async ai_compatible_object() { await makesObject(compatible(model)); },
  async ai_compatible_completion() {
    const from = compatible.completionModel(model);
    assert((await ai.generateText({ model: from, prompt: "The capital of", maxOutputTokens: 5, maxRetries: 0 })).text);
  },
  async ai_compatible_embed() {
    const given = await ai.embedMany({ model: compatible.textEmbeddingModel(model), values: ["a dog", "a cat"], maxRetries: 0 });
    assert.equal(given.embeddings.length, 2);
  },
  async ai_compatible_abort() {
    const left = new AbortController();
    const given = ai.streamText({ model: compatible(model), prompt: "Tell me a story.", abortSignal: left.signal, onError() {} });
    for await (const _ of given.textStream) left.abort();
    await mustEndSoon();
  },
  async ai_openai_chat() { await generates(createOpenAI({ baseURL: url + "/v1", apiKey: key }).chat(model)); },
  async ai_openai_responses() { await generates(createOpenAI({ baseURL: url + "/v1", apiKey: key }).responses(model)); },
  async ai_openai_responses_stream() { await streams(createOpenAI({ baseURL: url + "/v1", apiKey: key }).responses(model)); },
  async ai_openai_responses_tool() { await callsTool(createOpenAI({ baseURL: url + "/v1", apiKey: key }).responses(model)); },
  async ai_anthropic() { await generates(createAnthropic({ baseURL: url + "/v1", apiKey: key })(model)); },
  async ai_anthropic_stream() { await streams(createAnthropic({ baseURL: url + "/v1", apiKey: key })(model)); },
  async ai_anthropic_tool() { await callsTool(createAnthropic({ baseURL: url + "/v1", apiKey: key })(model)); },
};

for (const [name, check] of Object.entries(checks)) {
  let problem = null;
  try {
    await check();
  } catch (failed) {
    problem = `${failed?.name}: ${failed?.message}`.slice(0, 600);
  }
  console.log(JSON.stringify({ test: "node " + name, problem }));
}
process.exit(0);
