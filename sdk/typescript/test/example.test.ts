// examples/chat in a browser, started by the commands of its README in a copy of the repository.
import assert from "node:assert/strict";
import { execFile, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { cp, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { chromium, type Page } from "playwright-core";
import { must, pawl, type Message } from "../src/index.ts";
import { freePort } from "../src/port.ts";
import { databases, Fixture, until } from "./fixture.ts";

const run = promisify(execFile);
const root = join(import.meta.dirname, "../../..");
let copy = "";
let serve = "", worker = "", dev = "";

before(async () => {
  copy = await mkdtemp(join(tmpdir(), "pawl-chat-"));
  const { stdout } = await run("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard"], { cwd: root, maxBuffer: 1 << 26 });
  for (const file of stdout.split("\0").filter(Boolean)) await cp(join(root, file), join(copy, file)).catch((error) => assert.equal(error.code, "ENOENT"));
  const readme = await readFile(join(copy, "examples/chat/README.md"), "utf8");
  const [once = [], running = [], ...more] = [...readme.matchAll(/^```sh\n(.*?)^```$/gms)].map((m) => m[1]!.trim().split("\n"));
  assert.deepEqual([once.length, running.length, more.length], [1, 3, 0], "the commands of the README");
  [serve = "", worker = "", dev = ""] = running;
  await run("sh", ["-ec", once[0]!], { cwd: copy });
  await run("npm", ["run", "check"], { cwd: join(copy, "examples/chat") });
});

after(() => rm(copy, { recursive: true, force: true }));

/** A command that runs until it is killed, with all that it started. */
class Program implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #gone: Promise<unknown>;
  output = "";

  constructor(cwd: string, command: string, env: Record<string, string>) {
    const rest = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(PAWL_|DB_)|^NODE_TEST_CONTEXT$/.test(name)));
    this.#child = spawn("sh", ["-c", command], { cwd, env: { ...rest, NO_COLOR: "1", ...env }, detached: true });
    for (const stream of [this.#child.stdout, this.#child.stderr]) stream?.on("data", (text) => (this.output += text));
    this.#gone = once(this.#child, "close");
  }

  /** Waits until the command has printed something. */
  async prints(pattern: RegExp): Promise<string> {
    await until(() => pattern.test(this.output) || this.#child.exitCode !== null, `${pattern} is printed`).catch(() => {});
    const found = pattern.exec(this.output);
    assert.ok(found, `${pattern} is not printed:\n${this.output}`);
    return found[1]!;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      process.kill(-this.#child.pid!, "SIGKILL");
    } catch (error) {
      assert.equal((error as NodeJS.ErrnoException).code, "ESRCH");
    }
    await this.#gone;
  }
}

const numbers = (to: number) => Array.from({ length: to }, (_, n) => n + 1).join(" ");
const counted = (to: number) => `Let me count your words.You sent 3 words. ${numbers(to)} – done.`;

for (const database of databases) {
  test(`the chat example goes on after a reload, a stop, and a killed worker or server (${database})`, { timeout: 300_000 }, async () => {
    await using fixture = await Fixture.open(database);
    const port = await freePort();
    const url = `http://127.0.0.1:${port}`;
    await using programs = new AsyncDisposableStack();
    const start = (command: string, env: Record<string, string>) => programs.use(new Program(command === serve ? root : copy, command, env)); // the server has been built in root
    const startServer = () => start(serve, { PAWL_SERVE_ADDR: `127.0.0.1:${port}`, PAWL_DB: fixture.db });
    const startWorker = async () => Number(await start(worker, { PAWL_SERVER: url }).prints(/kill -9 (\d+)/));

    let server = startServer();
    await server.prints(/msg=(serving)/);
    let pid = await startWorker();
    const address = await start(dev, { PAWL_SERVER: url }).prints(/(http:\/\/localhost:\d+)/);
    const browser = await chromium.launchPersistentContext(join(fixture.dir, "browser"), {
      executablePath: "/usr/bin/chromium",
      args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
      viewport: { width: 380, height: 700 },
    });
    programs.defer(() => browser.close());
    const page = browser.pages()[0]!;
    const faults: Error[] = [];
    page.on("pageerror", (error) => faults.push(error));

    await page.goto(address);
    await send(page, "Hello out there");
    await page.getByRole("button", { name: "Stop" }).waitFor();
    await says(page, /^Let me count your words\.You sent 3 words\. .* what was said stays\.$/);
    assert.deepEqual(await page.locator("article .tool").allTextContents(), ['count_words → {"words":3}']);

    // A reload in the middle, while the worker is frozen: the answer is not over.
    await send(page, "Count to 200");
    await hears(page, " 20 ");
    process.kill(pid, "SIGSTOP");
    await page.reload();
    await hears(page, " 20 ");
    assert.equal((await newest(page, url)).status, "streaming");
    assert.equal(await page.locator("article").count(), 4);
    await page.getByRole("button", { name: "Stop" }).waitFor();
    process.kill(pid, "SIGCONT");
    await says(page, counted(200));
    assert.equal(await page.evaluate("document.documentElement.scrollWidth"), 380);

    // Stop ends the answer where it is written, and what was said stays.
    await send(page, "Count to 2000");
    await hears(page, " 10 ");
    await page.getByRole("button", { name: "Stop" }).click();
    await page.getByRole("button", { name: "Send" }).waitFor();
    const stopped = await answer(page);
    assert.ok(counted(2000).startsWith(stopped.trimEnd()), stopped);
    assert.equal((await newest(page, url)).status, "stopped");
    await page.reload();
    await says(page, stopped);

    // The worker is killed; another one goes on from the last step.
    await send(page, "Count to 100");
    await hears(page, " 10 ");
    process.kill(pid, "SIGKILL");
    pid = await startWorker();
    await says(page, counted(100));
    const { status, attempt } = await newest(page, url);
    assert.deepEqual([status, attempt], ["complete", 2]);
    assert.equal(await page.locator("article").last().locator(".tool").count(), 1);

    // The server is killed; the page and the worker find the next one.
    await send(page, "Count to 150");
    await hears(page, " 10 ");
    await server[Symbol.asyncDispose]();
    await page.getByRole("status").waitFor();
    server = startServer();
    await says(page, counted(150));
    await send(page, "Thank you");
    await says(page, /You sent 2 words\. .* what was said stays\.$/);
    assert.equal(await page.locator("article").count(), 12);
    assert.deepEqual(faults, []);
  });
}

async function send(page: Page, text: string): Promise<void> {
  await page.getByRole("textbox").fill(text);
  await page.getByRole("textbox").press("Enter");
  await until(async () => (await page.locator("article.user").last().textContent()) === text, `${text} is sent`);
}

/** The text of the last answer; "" while there is none. */
async function answer(page: Page): Promise<string> {
  const last = page.locator("article").last();
  if ((await last.getAttribute("class")) !== "assistant") return "";
  return (await last.locator("p").allTextContents()).join("");
}

async function hears(page: Page, words: string): Promise<void> {
  await until(async () => (await answer(page)).includes(words), `the page shows ${words}`);
}

/** The last answer comes to be this, and has ended. */
async function says(page: Page, want: string | RegExp): Promise<void> {
  const same = async () => (typeof want === "string" ? (await answer(page)) === want : want.test(await answer(page)));
  await until(same, `the page shows ${want}`).catch(async () => assert.equal(await answer(page), want));
  await page.getByRole("button", { name: "Send" }).waitFor();
  assert.ok(await same(), await answer(page));
}

/** The newest answer of the chat, as the server keeps it. */
async function newest(page: Page, url: string): Promise<Message> {
  const thread = new URL(page.url()).searchParams.get("chat")!;
  const { items } = await must(pawl(url).GET("/v1/messages", { params: { query: { thread, limit: 1000 } } }));
  return items.at(-1)!;
}
