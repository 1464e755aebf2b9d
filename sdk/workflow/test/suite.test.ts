// The suite of the Workflow DevKit: all of its tests, on each database.
import { createTestSuite } from "@workflow/world-testing";
import { afterAll, beforeAll, describe } from "vitest";
import { databases, Server } from "../../langgraph/test/servers.ts";

for (const database of databases) {
  describe(database, () => {
    let server: Server;
    beforeAll(async () => {
      server = await Server.start(database);
      process.env.PAWL_URL = server.url; // for the application that a test starts
    });
    afterAll(() => server.stop());
    createTestSuite("./dist/index.js");
  });
}
