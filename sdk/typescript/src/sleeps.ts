import type { Lease } from "./client.ts";
import { Permanent } from "./failure.ts";
import { signalsOf } from "./resume.ts";
import type { Saved, Steps } from "./step.ts";
import { Suspended } from "./waits.ts";

export interface SignalWait {
  /** Of the signal, if its sender gives one. */
  key?: string;
  /** After this time the wait ends with `SignalTimeout`. */
  timeoutSeconds?: number;
}

/** Thrown by `waitFor` when the signal was not sent in time, also in later attempts. */
export class SignalTimeout extends Error {
  override readonly name = "SignalTimeout";
}

/** What is saved of a wait for a signal. */
interface Wait {
  signal: string;
  key?: string;
  until?: string;
  sent_at?: string;
  timed_out?: boolean;
}

const longest = 10 * 365 * 86400;

/** The times and signals that one attempt waits for. */
export class Sleeps {
  readonly #lease: Lease;
  readonly #steps: Steps;

  constructor(lease: Lease, steps: Steps) {
    this.#lease = lease;
    this.#steps = steps;
  }

  #after(seconds: number): string {
    if (!(seconds <= longest)) throw new RangeError(`${seconds} s is no time to wait: 0 to ${longest}`);
    return new Date(this.#steps.time() + seconds * 1000).toISOString();
  }

  /** See Job.sleep. */
  readonly sleep = (name: string, seconds: number): Promise<void> =>
    this.#steps.alone(name, async () => {
      const saved = await this.#steps.find(name);
      let wake = (saved?.snapshot as { wake_at?: string } | undefined)?.wake_at;
      if (saved && (saved.type !== "state_transition" || typeof wake !== "string")) throw taken(name, "is no sleep");
      if (!wake) {
        const until = this.#after(seconds);
        if (seconds <= 0) return;
        wake = until;
        await this.#steps.save(name, { type: "state_transition", snapshot: { wake_at: wake } });
      }
      if (this.#steps.time() < Date.parse(wake)) throw new Suspended({ until: wake });
    });

  /** See Job.waitFor. */
  readonly waitFor = <T = unknown>(name: string, signal: string, { key, timeoutSeconds }: SignalWait = {}): Promise<T> =>
    this.#steps.alone(name, async () => {
      const want: Wait = { signal, ...(key ? { key } : {}), ...(timeoutSeconds === undefined ? {} : { until: this.#after(timeoutSeconds) }) };
      const saved = await this.#steps.find(name);
      if (!saved) await this.#steps.save(name, { type: "state_transition", snapshot: null, metadata: { ...want } });
      const { wait, payload } = saved ? await this.#over(name, saved, want) : { wait: want, payload: undefined };
      if (wait.timed_out) throw new SignalTimeout(`signal ${wait.signal} was not sent in time`);
      if (!wait.sent_at) throw new Suspended({ signal, ...(key ? { key } : {}), ...(wait.until ? { until: wait.until } : {}) });
      return payload as T;
    });

  /** A saved wait, and what it came to; its end is saved too. */
  async #over(name: string, saved: Saved, want: Wait): Promise<{ wait: Wait; payload: unknown }> {
    const wait = saved.metadata as Wait | undefined;
    if (saved.type !== "state_transition" || !wait?.signal) throw taken(name, "waits for no signal");
    if (wait.signal !== want.signal || (wait.key ?? "") !== (want.key ?? "")) throw taken(name, `waited for signal ${wait.signal}`);
    if (wait.sent_at || wait.timed_out) return { wait, payload: saved.snapshot };
    const sent = (await signalsOf(this.#steps.pawl, this.#lease.id))[name];
    const late = !sent && wait.until !== undefined && this.#steps.time() >= Date.parse(wait.until);
    if (!sent && !late) return { wait, payload: undefined };
    const ended: Wait = sent ? { ...wait, sent_at: sent.sent_at } : { ...wait, timed_out: true };
    await this.#steps.save(name, { type: "state_transition", snapshot: sent?.payload ?? null, metadata: { ...ended } });
    return { wait: ended, payload: sent?.payload };
  }
}

/** The error of a name under which something else was saved: no later attempt can mend it. */
const taken = (name: string, of: string) => new Permanent(`"${name}": its name is taken by a checkpoint that ${of}; give it another name`);
