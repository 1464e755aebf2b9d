import { useChat } from "@ai-sdk/react";
import { DefaultChatTransport, isToolUIPart, type UIMessage } from "ai";
import { useEffect, useRef, useState, type FormEvent, type KeyboardEvent } from "react";
import { type } from "./type.ts";

const transport = new DefaultChatTransport({ api: `/v1/chat/${type}` });

interface Props {
  id: string;
  messages: UIMessage[];
  /** The server cannot be reached. */
  lost: boolean;
  onLost: () => void;
}

export function Chat({ id, messages: before, lost, onLost }: Props) {
  const { messages, status, error, sendMessage, regenerate } = useChat({
    id,
    messages: before,
    transport,
    resume: true, // a reply that is being made goes on where the page is loaded
    onFinish: ({ isDisconnect }) => isDisconnect && onLost(),
  });
  const [text, setText] = useState("");
  const busy = status === "submitted" || status === "streaming";
  const reply = messages.at(-1)?.role === "assistant" ? messages.at(-1) : undefined;

  const view = useRef<HTMLElement>(null);
  const atEnd = useRef(true); // until somebody scrolls up
  useEffect(() => {
    if (atEnd.current) view.current?.scrollTo({ top: view.current.scrollHeight });
  }, [messages]);

  function send(event: FormEvent | KeyboardEvent) {
    event.preventDefault();
    atEnd.current = true;
    if (busy || lost || !text.trim()) return;
    void sendMessage({ text: text.trim() });
    setText("");
  }

  /** useChat's own stop() only leaves: this ends the reply, wherever it is written. */
  function stop() {
    if (reply) void fetch(`/v1/messages/${reply.id}:stop`, { method: "POST", headers: { "Content-Type": "application/json" }, body: "{}" });
  }

  return (
    <>
      <main ref={view} onScroll={({ currentTarget: v }) => (atEnd.current = v.scrollHeight - v.scrollTop - v.clientHeight < 80)}>
        {messages.length === 0 && (
          <div className="empty">
            <p>Ask something, for example:</p>
            <button type="button" onClick={() => void sendMessage({ text: "Please count to 200" })}>Please count to 200</button>
          </div>
        )}
        {messages.map((m) => (
          <article key={m.id} className={m.role} data-streaming={busy && m === reply}>
            {m.parts.map((p, n) => {
              if (p.type === "text") return <p key={n}>{p.text}</p>;
              if (p.type === "reasoning") return <p key={n} className="reasoning">{p.text}</p>;
              if (isToolUIPart(p)) return <code key={n} className="tool">{p.type.replace("tool-", "")} {p.state === "output-available" ? `→ ${JSON.stringify(p.output)}` : "…"}</code>;
              return null;
            })}
          </article>
        ))}
        {error && !lost && (
          <p role="alert" className="banner">
            {error.message} <button type="button" onClick={() => void (reply ? regenerate() : sendMessage())}>Try again</button>
          </p>
        )}
      </main>
      <form onSubmit={send}>
        <textarea
          aria-label="Message"
          placeholder="Message"
          rows={1}
          autoFocus
          value={text}
          onChange={(e) => setText(e.target.value)}
          onKeyDown={(e) => e.key === "Enter" && !e.shiftKey && !e.nativeEvent.isComposing && send(e)}
        />
        {busy ? <button type="button" onClick={stop} disabled={lost || !reply}>Stop</button> : <button type="submit" disabled={lost || !text.trim()}>Send</button>}
      </form>
    </>
  );
}
