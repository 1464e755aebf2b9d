import { createHash } from "node:crypto";
import http from "node:http";
import https from "node:https";
import { hostname } from "node:os";
import { again, Permanent, RetryAfter, work, type Job, type Pawl, type Schemas } from "@pawl-work/sdk";
import { parseQueueName, type MessageId, type Queue, type QueueOptions, type QueuePayload, type ValidQueueName } from "@workflow/world";
import { decode, encode } from "./codec.ts";
import { END_SIGNAL, RUN_TYPE } from "./runs.ts";

/** The type of the tasks that are messages of a queue. */
export const MESSAGE_TYPE = "workflow.message";

export interface QueueConfig {
  /** Where the application answers; by default the port of the environment variable PORT on this machine. */
  baseUrl?: string | undefined;
  /** How many messages this process delivers at once; 20 by default. */
  concurrency?: number | undefined;
  /** How long a message of a process that died is not delivered by another one; 60 s by default. */
  leaseSeconds?: number | undefined;
  /** How long `close` waits for messages that are being delivered; 30 s by default. Then they are given back. */
  graceMs?: number | undefined;
}

interface Payload {
  queue: ValidQueueName;
  message: unknown;
  headers?: Record<string, string>;
}

/** What a run's item ends with. */
export interface RunEnd {
  status: "completed" | "failed";
  value: unknown;
}

const maxDeliveries = 1000; // the runtime gives up before that
const retrySeconds = 5;

/** The queue: each message is a task, delivered to the application by whichever process claims it. */
export class Deliveries implements Pick<Queue, "queue" | "createQueueHandler" | "getDeploymentId"> {
  readonly #pawl: Pawl;
  readonly #config: QueueConfig;
  readonly #closing = new AbortController();
  #working: Promise<void> | undefined;

  constructor(pawl: Pawl, config: QueueConfig) {
    this.#pawl = pawl;
    this.#config = config;
  }

  getDeploymentId = async (): Promise<string> => "pawl";

  queue = async (queueName: ValidQueueName, message: QueuePayload, options: QueueOptions = {}): Promise<{ messageId: MessageId | null }> => {
    const payload = encode({ queue: queueName, message, headers: options.headers } satisfies Payload);
    const about = message as { runId?: string; workflowRunId?: string };
    const task: Schemas["NewTask"] = { type: MESSAGE_TYPE, title: queueName.slice(0, 200), payload, max_attempts: maxDeliveries,
      metadata: { queue: queueName, run: about.runId ?? about.workflowRunId ?? "" } };
    if (options.delaySeconds) task.run_at = new Date(Date.now() + options.delaySeconds * 1000).toISOString();
    if (options.idempotencyKey) task.unique = { by: "key", key: hash(`${queueName} ${options.idempotencyKey}`), on_conflict: "return" };
    const header = { "Idempotency-Key": crypto.randomUUID() };
    const { id } = await again(() => this.#pawl.POST("/v1/tasks", { params: { header }, body: task }));
    return { messageId: id as MessageId };
  };

  createQueueHandler: Queue["createQueueHandler"] = (prefix, handler) => async (request) => {
    const queueName = request.headers.get("x-pawl-queue") as ValidQueueName | null;
    const messageId = request.headers.get("x-pawl-message") as MessageId | null;
    const attempt = Number(request.headers.get("x-pawl-attempt"));
    if (!queueName || !messageId || !(attempt > 0)) return Response.json({ error: "this is no message of Pawl" }, { status: 400 });
    if (!queueName.startsWith(prefix)) return Response.json({ error: `no handler for queue ${queueName}` }, { status: 400 });
    try {
      const result = await handler(decode(await request.json()), { attempt, queueName, messageId });
      return Response.json(typeof result?.timeoutSeconds === "number" ? { timeoutSeconds: result.timeoutSeconds } : { ok: true });
    } catch (error) {
      return Response.json({ error: String(error) }, { status: 500 });
    }
  };

  /** Begins to deliver. */
  start(): void {
    this.#working ??= work(
      this.#pawl,
      { workerId: `workflow-${hostname()}-${process.pid}`, name: "workflow-world", types: [MESSAGE_TYPE, RUN_TYPE], leaseSeconds: this.#config.leaseSeconds ?? 60,
        concurrency: this.#config.concurrency ?? 20, graceMs: this.#config.graceMs ?? 30_000, signal: this.#closing.signal, log: { ...console, info() {} } },
      (job) => (job.lease.type === RUN_TYPE ? untilEnd(job) : this.#deliver(job)),
    );
    this.#working.catch((error: unknown) => console.error("workflow-world: messages are not delivered:", error));
  }

  /** Ends the deliveries: what is under way is given back, and another process delivers it. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.#working?.catch(() => {});
  }

  async #deliver(job: Job): Promise<undefined> {
    const { queue, message, headers } = decode(job.lease.input) as Payload;
    const url = `${this.#baseUrl()}/.well-known/workflow/v1/${routeOf(queue)}`;
    for (;;) {
      const { status, text } = await post(url, job.abortSignal, JSON.stringify(encode(message)), { ...headers, "content-type": "application/json",
        "x-pawl-queue": queue, "x-pawl-message": job.lease.task_id, "x-pawl-attempt": String(job.lease.failures + 1) }).catch((error: unknown) => {
        throw new RetryAfter(retrySeconds, `the application does not answer: ${error}`, { cause: error });
      });
      if (status !== 200) throw new RetryAfter(retrySeconds, `the application answered ${status}: ${text.slice(0, 1000)}`);
      const { timeoutSeconds } = JSON.parse(text) as { timeoutSeconds?: number };
      if (timeoutSeconds === undefined) return undefined;
      if (timeoutSeconds > 0) await job.sleep(`delivery ${job.lease.attempt}`, timeoutSeconds); // without a lease
    }
  }

  #baseUrl(): string {
    const url = this.#config.baseUrl ?? process.env.WORKFLOW_BASE_URL ?? (process.env.PORT ? `http://localhost:${process.env.PORT}` : "");
    if (!url) throw new Error("workflow-world: where the application answers is not known: set PORT, WORKFLOW_BASE_URL or baseUrl");
    return url.replace(/\/+$/, "");
  }
}

/** Posts a message. Unlike fetch, it waits for the answer without a limit: a step may take hours. */
function post(url: string, signal: AbortSignal, body: string, headers: Record<string, string>): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const { request } = url.startsWith("https:") ? https : http;
    const asking = request(url, { method: "POST", headers, signal }, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (part: string) => (text += part)).on("error", reject);
      response.on("end", () => resolve({ status: response.statusCode ?? 0, text }));
    });
    asking.on("error", reject).end(body);
  });
}

/** The item of a run waits, without a lease, for what the run ends with. */
async function untilEnd(job: Job): Promise<unknown> {
  const { runId } = job.lease.input as { runId: string };
  const end = await job.waitFor<RunEnd>("end", END_SIGNAL, { key: runId });
  if (end.status === "failed") throw new Permanent("the workflow failed; its last event has the error");
  return end.value;
}

function routeOf(queue: ValidQueueName): string {
  return parseQueueName(queue).kind === "workflow" ? "flow" : "step";
}

function hash(text: string): string {
  return createHash("sha256").update(text).digest("base64url");
}
