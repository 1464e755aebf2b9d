// For programs that use the AI SDK (`ai`), which the core does not import.
export { conversation, toModel } from "./conversation.ts";
export { pawlStream, type PawlStream, type PawlStreamOptions, type StepSnapshot } from "./stream.ts";
