export { again, fence, must, pawl, PawlError, type Chunk, type Lease, type Message, type Pawl, type PawlOptions, type Problem, type Schemas } from "./client.ts";
export { conversation, toModel, type Part } from "./conversation.ts";
export { pawlStream, type PawlStream, type PawlStreamOptions, type StepSnapshot } from "./stream.ts";
export { Permanent, RetryAfter } from "./failure.ts";
export type { Refusal } from "./handin.ts";
export { once } from "./once.ts";
export { Cancelled, work, type Job, type Log, type WorkOptions } from "./worker.ts";
export { Stopped } from "./writer.ts";
