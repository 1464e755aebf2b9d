// The worker: it claims the replies that the page asks for, and writes them.
import { pawl, work } from "@pawl-work/sdk";
import { pawlStream } from "@pawl-work/sdk/ai";
import { tool } from "ai";
import { z } from "zod";
import { scripted } from "./model.ts";
import { type } from "./src/type.ts";

const model = process.env.MODEL ?? scripted; // any model of the AI SDK, such as openai("gpt-5") of @ai-sdk/openai

const tools = {
  count_words: tool({
    description: "Counts the words of a text",
    inputSchema: z.object({ text: z.string() }),
    execute: ({ text }) => ({ words: text.split(/\s+/).filter(Boolean).length }),
  }),
};

const server = process.env.PAWL_SERVER ?? "http://127.0.0.1:7033";
const stop = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => stop.abort());

console.log(`The worker has the process id ${process.pid}: kill -9 ${process.pid} in the middle of an answer, and start it again.`);
// When a worker dies, its reply waits for the end of its lease: 5 s.
await work(pawl(server), { workerId: `chat-${process.pid}`, types: [type], concurrency: 4, leaseSeconds: 5, signal: stop.signal }, async (job) => {
  const { message } = await pawlStream({ ...job, model, tools, instructions: "You are brief and friendly." });
  await message;
});
