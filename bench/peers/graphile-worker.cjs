// graphile-worker for ../peers.go, in the set-up of its page about performance: a local queue, completions in batches, jobs
// added in batches.
const { run, runMigrations, makeWorkerUtils, Logger } = require("graphile-worker");
const { Pool } = require("pg");
const { serve, inBatches } = require("./serve.cjs");

serve(async (url, payload) => {
  const logger = new Logger(() => () => {}); // it writes lines about each start
  const pgPool = new Pool({ connectionString: url, max: 25 });
  pgPool.on("error", () => {}); // the drop of the database, in the end
  pgPool.on("connect", (client) => client.on("error", () => {}));
  await runMigrations({ pgPool, logger });
  const utils = await makeWorkerUtils({ pgPool, logger });
  let runner, done = 0;
  return {
    create: (n) => inBatches(n, (k) => utils.addJobs(Array.from({ length: k }, () => ({ identifier: "bench", payload })))),
    async drain(n) {
      runner = await run({
        pgPool, logger, noHandleSignals: true, taskList: { bench: () => { done++; } },
        preset: { worker: { concurrentJobs: 24, localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 } },
      });
      while (done < n) await new Promise((resolve) => setTimeout(resolve, 1));
      await runner.stop(); // which sends the last batch of completions
    },
    async close() {
      await utils.release();
      await pgPool.end();
    },
  };
});
