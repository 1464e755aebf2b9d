// The Inspector's command line: a process for each call, by the revision 2026-07-28.
import { execFile } from "node:child_process";
import { promisify } from "node:util";

const run = promisify(execFile);

export async function connect(url) {
  return {
    name: "Inspector CLI, 2026-07-28",
    async call(tool, args) {
      const given = ["--tool-name", tool, "--tool-args-json", JSON.stringify(args)];
      const { stdout } = await run("mcp-inspector", ["--cli", url, "--transport", "http", "--protocol-era", "modern", "--method", "tools/call", ...given]).catch((e) => e);
      return JSON.parse(stdout);
    },
    async close() {},
  };
}
