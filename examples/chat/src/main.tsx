import { chatMessages } from "@pawl-work/sdk/ui";
import type { UIMessage } from "ai";
import { StrictMode, useCallback, useEffect, useState } from "react";
import { createRoot } from "react-dom/client";
import { Chat } from "./Chat.tsx";
import "./style.css";

/** The chat that the address names, or a new one. */
function chatId(): string {
  const url = new URL(location.href);
  let id = url.searchParams.get("chat");
  if (!id) {
    url.searchParams.set("chat", (id = crypto.randomUUID()));
    history.replaceState(null, "", url);
  }
  return id;
}

/** Reads the chat, also after its connection was lost, then shows it. */
function App({ id }: { id: string }) {
  const [loaded, setLoaded] = useState<{ messages: UIMessage[]; nth: number }>();
  const [lost, setLost] = useState(0);
  useEffect(() => {
    const over = new AbortController();
    chatMessages("", id, { signal: over.signal }).then(
      (messages) => setLoaded({ messages, nth: lost }),
      () => over.signal.aborted || setTimeout(() => over.signal.aborted || setLost(lost + 1), 1000),
    );
    return () => over.abort();
  }, [id, lost]);
  const onLost = useCallback(() => setLost((n) => n + 1), []);
  return (
    <>
      <header>
        <h1>Pawl chat</h1>
        <a href="/">New chat</a>
      </header>
      {loaded && <Chat key={loaded.nth} id={id} messages={loaded.messages} lost={loaded.nth !== lost} onLost={onLost} />}
      {loaded?.nth !== lost && <p role="status" className="banner">The server cannot be reached. Trying again …</p>}
    </>
  );
}

createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <App id={chatId()} />
  </StrictMode>,
);
