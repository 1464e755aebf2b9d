import { createHash } from "node:crypto";
import { again, PawlError, type Pawl } from "@pawl-work/sdk";
import { unlessMissing, type Runs } from "./runs.ts";

/** The type of the tasks that hold the tokens of hooks: one for each token that is in use. */
export const TOKEN_TYPE = "workflow.hook";

interface Owner {
  runId: string;
  hookId: string;
}

/** The tokens of hooks. A token belongs to one hook at a time. */
export class Tokens {
  readonly #pawl: Pawl;
  readonly #runs: Runs;

  constructor(pawl: Pawl, runs: Runs) {
    this.#pawl = pawl;
    this.#runs = runs;
  }

  /** Takes a token for a hook. It returns the run that has it, if that is another hook's. */
  async take(token: string, owner: Owner): Promise<string | undefined> {
    for (;;) {
      const create = { type: TOKEN_TYPE, run_at: "2200-01-01T00:00:00Z", metadata: { hook: owner.hookId, run: owner.runId },
        unique: { by: "key", key: keyOf(token), on_conflict: "return" } };
      const checkpoints = [{ type: "custom" as const, name: "owner", on_conflict: "keep" as const, snapshot: owner }];
      const { results } = await again(() => this.#pawl.POST("/v1/tasks:append", { body: { items: [{ create, checkpoints }] } }));
      const { value, error } = results[0]!;
      if (error && error.code !== "conflict") throw new PawlError(error);
      if (value && !value.checkpoints[0]!.kept) return undefined;
      const held = await this.of(token);
      if (held?.runId === owner.runId && held.hookId === owner.hookId) return undefined;
      if (held && (await this.#inUse(held))) return held.runId;
      if (held) await this.free(token, held); // a process died before it freed the token
    }
  }

  /** The hook that a token belongs to. */
  async of(token: string): Promise<Owner | undefined> {
    const query = { task_type: TOKEN_TYPE, task_key: keyOf(token), own: true, limit: 1 };
    const found = await unlessMissing(again(() => this.#pawl.GET("/v1/checkpoints", { params: { query } })));
    return found?.items[0]?.snapshot as Owner | undefined;
  }

  /** The owner of the hook of an id. */
  async ofHook(hookId: string): Promise<Owner | undefined> {
    const query = { type: [TOKEN_TYPE], metadata: { hook: hookId }, limit: 1 };
    const { items } = await again(() => this.#pawl.GET("/v1/tasks", { params: { query } }));
    const runId = (items[0]?.metadata as { run?: string } | undefined)?.run;
    return runId ? { runId, hookId } : undefined;
  }

  /** Frees a token of a hook. If another hook has it by now, nothing changes. */
  async free(token: string, { runId, hookId }: Owner): Promise<void> {
    const query = { task_type: TOKEN_TYPE, task_key: keyOf(token), own: true, limit: 1 };
    const found = await unlessMissing(again(() => this.#pawl.GET("/v1/checkpoints", { params: { query } })));
    const held = found?.items[0];
    const owner = held?.snapshot as Owner | undefined;
    if (!held || owner?.runId !== runId || owner.hookId !== hookId) return;
    const params = { path: { id: held.task_id } };
    await again(() => this.#pawl.POST("/v1/tasks/{id}:cancel", { params, body: {} })).catch((error: unknown) => {
      if (!(error instanceof PawlError) || error.code !== "conflict") throw error; // another process was faster
    });
  }

  async #inUse({ runId, hookId }: Owner): Promise<boolean> {
    const { state } = this.#runs.log(runId);
    await this.#runs.log(runId).read();
    return state.run !== undefined && !state.ended && !state.disposed.has(hookId);
  }
}

function keyOf(token: string): string {
  return createHash("sha256").update(token).digest("base64url");
}
