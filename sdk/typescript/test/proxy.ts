// A network between a client and a server that a test breaks.
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";

export class Proxy implements AsyncDisposable {
  readonly #server: Server;
  readonly #open = new Set<Socket>();
  #cut = false;
  #silent = false;
  #dropping = 0;
  #swallowing = "";
  dropped = 0;

  private constructor(target: number) {
    this.#server = createServer((near) => {
      if (this.#cut) return void near.destroy();
      const far = connect(target, "127.0.0.1");
      for (const s of [near, far]) {
        this.#open.add(s);
        s.on("error", () => s.destroy());
        s.on("close", () => (this.#open.delete(s), near.destroy(), far.destroy()));
      }
      near.on("data", (bytes) => {
        if (this.#swallowing && bytes.includes(this.#swallowing)) this.#swallowing = "";
        else far.write(bytes);
      });
      far.on("data", (bytes) => {
        if (this.#silent) return;
        if (this.#dropping > 0) {
          this.#dropping--;
          this.dropped++;
          near.destroy();
        } else near.write(bytes);
      });
    });
  }

  static async before(target: number): Promise<Proxy> {
    const p = new Proxy(target);
    await new Promise<void>((resolve) => p.#server.listen(0, "127.0.0.1", resolve));
    return p;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** The next n answers are lost on their way. */
  dropAnswers(n: number): void {
    this.#dropping = n;
  }

  /** No answer comes back any more; connections stay open. */
  silence(): void {
    this.#silent = true;
  }

  /** The next request with a text is lost on its way; its connection stays open. */
  swallow(text: string): void {
    this.#swallowing = text;
  }

  cut(): void {
    this.#cut = true;
    for (const s of this.#open) s.destroy();
  }

  mend(): void {
    this.#cut = false;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.cut();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
