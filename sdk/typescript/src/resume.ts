import { again, type Pawl, type Schemas } from "./client.ts";

/**
 * The named steps that attempts at an item saved. They come on as many pages as they
 * need, before the parts and messages.
 */
export async function savedSteps(pawl: Pawl, itemId: string, signal?: AbortSignal): Promise<{ [name: string]: Schemas["Checkpoint"] }> {
  const steps: { [name: string]: Schemas["Checkpoint"] } = {};
  for (let cursor: string | undefined; ; ) {
    const params = { path: { id: itemId }, query: cursor ? { cursor } : {} };
    const page = await again(() => pawl.GET("/v1/items/{id}/resume", { params }), signal);
    Object.assign(steps, page.steps); // what was saved again meanwhile comes later
    cursor = page.next;
    if (!cursor || page.parts.length > 0 || page.messages.length > 0) return steps;
  }
}

/** The last wait of an item for children, with all that have ended. */
export async function childrenOf(pawl: Pawl, itemId: string): Promise<Schemas["ChildrenState"] | undefined> {
  let all: Schemas["ChildrenState"] | undefined;
  for (let cursor: string | undefined; ; ) {
    const params = { path: { id: itemId }, query: cursor ? { cursor } : {} };
    const page = await again(() => pawl.GET("/v1/items/{id}/resume", { params }));
    if (page.children) all = { ...page.children, items: [...(all?.items ?? []), ...(page.children.items ?? [])] };
    cursor = page.next;
    if (!cursor) return all;
  }
}
