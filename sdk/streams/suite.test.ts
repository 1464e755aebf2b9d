// The suite of the protocol, against a real server on each database.
import { runConformanceTests } from "@durable-streams/server-conformance-tests";
import { afterAll, beforeAll, describe } from "vitest";

import { databases, Server } from "../langgraph/test/servers.ts";

describe.each(databases)("%s", (database) => {
  const options = { baseUrl: "" };
  let server: Server;
  beforeAll(async () => {
    server = await Server.start(database);
    options.baseUrl = `${server.url}/v1/streams`; // the paths of the suite are names of streams
  });
  afterAll(() => server.stop());
  runConformanceTests(options);
});
