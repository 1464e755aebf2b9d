// What would be published holds what its package.json promises, and no more.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";

const root = join(import.meta.dirname, "..");
const npm = (...args: string[]) => execFileSync("npm", args, { cwd: root, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });

test("the package can be published", async () => {
  npm("run", "--silent", "build");
  const [pack] = JSON.parse(npm("pack", "--dry-run", "--json", "--ignore-scripts")) as [{ name: string; files: { path: string }[] }];
  const files = pack.files.map((f) => f.path);
  const about = JSON.parse(await readFile(join(root, "package.json"), "utf8"));
  assert.equal(pack.name, "@pawl-work/sdk");
  assert.equal(about.private, undefined);
  for (const member of ["license", "repository", "homepage", "publishConfig"]) assert.ok(about[member], member);
  assert.deepEqual([Object.keys(about.dependencies), about.optionalDependencies], [["openapi-fetch"], undefined]);
  const entries = Object.values(about.exports as Record<string, { types: string; default: string }>).flatMap((e) => [e.types, e.default]);
  for (const path of [...entries, "package.json", "README.md"]) assert.ok(files.includes(path.replace("./", "")), path);
  assert.deepEqual(files.filter((f) => !/^(dist\/|package\.json$|README\.md$)/.test(f)), []);
});
