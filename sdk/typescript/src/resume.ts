import { again, type Pawl, type Schemas } from "./client.ts";

type State = Schemas["ResumeState"];

/** What earlier attempts at an item left, page by page: steps by number, then parts and messages. */
async function* pages(pawl: Pawl, itemId: string, signal?: AbortSignal): AsyncGenerator<State> {
  for (let cursor: string | undefined; ; ) {
    const params = { path: { id: itemId }, query: cursor ? { cursor } : {} };
    const page = await again(() => pawl.GET("/v1/items/{id}/resume", { params }), signal, 60_000);
    yield page;
    cursor = page.next;
    if (!cursor) return;
  }
}

/** The named steps that attempts at an item saved. */
export async function savedSteps(pawl: Pawl, itemId: string, signal?: AbortSignal): Promise<State["steps"]> {
  const steps: State["steps"] = {};
  for await (const page of pages(pawl, itemId, signal)) {
    Object.assign(steps, page.steps); // what was saved again meanwhile comes later
    if (page.parts.length > 0 || page.messages.length > 0) break; // after the steps
  }
  return steps;
}

/** The last wait of an item for children, with all that have ended. */
export async function childrenOf(pawl: Pawl, itemId: string): Promise<Schemas["ChildrenState"] | undefined> {
  let all: Schemas["ChildrenState"] | undefined;
  for await (const { children } of pages(pawl, itemId)) {
    if (children) all = { ...children, items: [...(all?.items ?? []), ...(children.items ?? [])] };
  }
  return all;
}

/** The signals that were sent to waits of an item, by the names of the waits. */
export async function signalsOf(pawl: Pawl, itemId: string): Promise<State["signals"]> {
  const all: State["signals"] = {};
  for await (const page of pages(pawl, itemId)) Object.assign(all, page.signals);
  return all;
}

/** The messages of an item, oldest first. */
export async function messagesOf(pawl: Pawl, itemId: string): Promise<State["messages"]> {
  const all = new Map<string, State["messages"][number]>();
  for await (const page of pages(pawl, itemId)) for (const m of page.messages) all.set(m.id, m);
  return [...all.values()];
}
