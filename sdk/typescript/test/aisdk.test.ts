// The stock client of the AI SDK, with nothing of Pawl's but the URL.
import { AbstractChat, DefaultChatTransport, type ChatState, type ChatStatus, type UIMessage } from "ai";
import assert from "node:assert/strict";
import { test } from "node:test";
import { chatMessages } from "../src/ui.ts";
import { databases, Fixture, kill, until } from "./fixture.ts";

/** What useChat keeps in React, kept in plain members. */
class Plain implements ChatState<UIMessage> {
  status: ChatStatus = "ready";
  error: Error | undefined;
  messages: UIMessage[];
  constructor(messages: UIMessage[]) {
    this.messages = messages;
  }
  pushMessage = (m: UIMessage) => void (this.messages = [...this.messages, m]);
  popMessage = () => void (this.messages = this.messages.slice(0, -1));
  replaceMessage = (n: number, m: UIMessage) => void (this.messages = this.messages.with(n, structuredClone(m)));
  snapshot = <T>(thing: T): T => structuredClone(thing);
}

/** A page with a chat, as after a load. */
class Page extends AbstractChat<UIMessage> {
  constructor(url: string, id: string, messages: UIMessage[] = []) {
    super({ id, state: new Plain(messages), transport: new DefaultChatTransport({ api: `${url}/v1/chat/talk` }), onError: () => {} });
  }
  get reply(): UIMessage | undefined {
    return this.lastMessage?.role === "assistant" ? this.lastMessage : undefined;
  }
  get words(): number {
    return textOf(this.reply).split(" ").length;
  }
  hears(words: number): Promise<void> {
    return until(() => this.words >= words, `${words} words were heard, but ${this.words}; ${this.status} ${this.error}`);
  }
}

/** Has a page come back while the test agent holds, and stay to the end. */
async function comesBack(page: Page, fixture: Fixture): Promise<void> {
  const back = page.resumeStream();
  await until(() => page.status === "streaming", "the page hears on");
  await fixture.goOn();
  await back;
}

function textOf(m: UIMessage | undefined): string {
  return (m?.parts ?? []).map((p) => (p.type === "text" ? p.text : "")).join("");
}

/** Messages as they are kept: without the numbers of parts in a stream. */
function kept(messages: UIMessage[]): unknown {
  return JSON.parse(JSON.stringify(messages.map((m) => ({ ...m, parts: m.parts.map((p) => (p.type === "reasoning" ? { ...p, id: undefined } : p)) }))));
}

const question = { text: "What is a pawl?" };

for (const database of databases) {
  test(`a reader who is cut off, leaves or loses the server ends with the same message (${database})`, { timeout: 120_000 }, async () => {
    await using fixture = await Fixture.open(database);
    let [here, there] = [await fixture.serve(), await fixture.serve()];
    fixture.testAgent();

    const whole = new Page(here.url, "uninterrupted");
    await whole.sendMessage(question);
    assert.equal(whole.status, "ready");
    const want = whole.reply!;
    assert.match(textOf(want), /^Let me see\. A pawl is .* 🦫: .* listens\.$/);
    assert.deepEqual(want.parts.map((p) => p.type), ["step-start", "reasoning", "text", "tool-lookup", "step-start", "text"]);

    // The connection drops; the same page comes back.
    await fixture.hold();
    const dropped = new Page(here.url, "dropped");
    const sent = dropped.sendMessage(question);
    await dropped.hears(6);
    await dropped.stop();
    await sent;
    assert.ok(textOf(dropped.reply).length < textOf(want).length);
    await comesBack(dropped, fixture);

    // The page is loaded anew, at another server, while the reply is made.
    await fixture.hold();
    const left = new Page(here.url, "left");
    void left.sendMessage(question);
    await left.hears(8);
    assert.deepEqual(await chatMessages(there.url, "left"), kept(left.messages.slice(0, 1))); // without the reply that is being made
    const reloaded = new Page(there.url, "left", left.messages.slice(0, 1));
    await comesBack(reloaded, fixture);

    // The server is killed; it comes up again, and so does the page.
    await fixture.hold();
    const orphan = new Page(here.url, "orphan");
    const asked = orphan.sendMessage(question);
    await orphan.hears(8);
    await kill(here.child);
    await asked;
    assert.equal(orphan.status, "error");
    here = await fixture.serve(here.port);
    await comesBack(orphan, fixture);

    for (const [name, page] of Object.entries({ dropped, reloaded, orphan })) {
      const got = page.reply!;
      assert.equal(page.status, "ready", name);
      assert.deepEqual(got.parts, want.parts, name);
      const whole = await (await fetch(`${here.url}/v1/messages/${got.id}`)).json();
      assert.equal(whole.status, "complete");
      assert.deepEqual(saidOf(whole.content), saidOf(got.parts), name);
      assert.deepEqual(await chatMessages(there.url, page.id), kept(page.messages), name);
      await page.resumeStream(); // nothing is under way
      assert.deepEqual(page.reply, got, name);
      assert.equal(page.messages.length, 2);
    }
    const again = new Page(there.url, "dropped", []);
    await again.sendMessage(dropped.messages[0]!); // the same message: the same reply
    assert.equal(again.reply?.id, dropped.reply?.id);
    assert.deepEqual(again.reply?.parts, want.parts);
  });
}

/** What a message says, in Pawl's words and the client's alike. */
function saidOf(parts: any[]): unknown[] {
  return parts.flatMap((p) => {
    if (p.type === "step-start") return [];
    if (p.type === "tool-call") return [["call", p.toolCallId, p.toolName, p.input]];
    if (p.type === "tool-result") return [["result", p.toolCallId, p.output]];
    if (p.type.startsWith("tool-")) return [["call", p.toolCallId, p.type.slice(5), p.input], ["result", p.toolCallId, p.output]];
    return [[p.type, p.text]];
  });
}
