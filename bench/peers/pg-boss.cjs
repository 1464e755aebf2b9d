// pg-boss for ../peers.go, in the set-up of its pages about workers: batches that are fetched as long as they are full, several
// workers in the process, a table of the queue's own, jobs inserted in batches.
const { PgBoss } = require("pg-boss");
const { serve, inBatches } = require("./serve.cjs");

serve(async (url, data) => {
  const boss = new PgBoss({ connectionString: url, max: 20 });
  boss.on("error", (err) => { throw err; });
  await boss.start();
  await boss.createQueue("bench", { partition: true });
  let done = 0;
  return {
    create: (n) => inBatches(n, (k) => boss.insert("bench", Array.from({ length: k }, () => ({ data })))),
    async drain(n) {
      await boss.work("bench", { batchSize: 1000, localConcurrency: 4, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 },
        async (jobs) => { done += jobs.length; });
      while (done < n) await new Promise((resolve) => setTimeout(resolve, 1));
      await boss.offWork("bench", { wait: true }); // until the last batches are completed
    },
    close: () => boss.stop(),
  };
});
