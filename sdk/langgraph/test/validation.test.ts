// The validation suite of LangGraph: all of its tests, on each database.
import { validate } from "@langchain/langgraph-checkpoint-validation";
import { randomUUID } from "node:crypto";
import { PawlSaver } from "../src/index.ts";
import { databases, Server } from "./servers.ts";

for (const database of databases) {
  let server: Server;
  validate({
    checkpointerName: `@pawl-work/langgraph on ${database}`,
    beforeAll: async () => void (server = await Server.start(database)),
    beforeAllTimeout: 60_000,
    afterAll: () => server.stop(),
    createCheckpointer: () => new PawlSaver(server.url, { namespace: randomUUID() }), // an empty one each time
  });
}
