// What ../peers.go speaks with its peers on Node: the program is given the URL of a database and a payload, prints "ready", and
// answers each line "create N" or "drain N" of its standard input by "done" when all is committed. It ends with its input.
const readline = require("node:readline");

exports.serve = async (open) => {
  const [url, payload] = process.argv.slice(2);
  const peer = await open(url, JSON.parse(payload));
  console.log("ready");
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [what, n] = line.split(" ");
    await peer[what](Number(n));
    console.log("done");
  }
  await peer.close();
};

// inBatches calls make with sizes of at most 1000 that make n, four at a time.
exports.inBatches = async (n, make) => {
  const next = async () => {
    while (n > 0) {
      const k = Math.min(1000, n);
      n -= k;
      await make(k);
    }
  };
  await Promise.all([next(), next(), next(), next()]);
};
