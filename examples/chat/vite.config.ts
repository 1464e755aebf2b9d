import react from "@vitejs/plugin-react";
import { defineConfig, type ProxyOptions } from "vite";

const pawl: ProxyOptions = {
  target: process.env.PAWL_SERVER ?? "http://127.0.0.1:7033",
  // A stream that the server breaks off breaks off at the page too: then the page connects again.
  configure: (proxy) => proxy.on("proxyRes", (from, _, to) => from.once("close", () => from.complete || to.destroy())),
};

export default defineConfig({
  plugins: [react()],
  server: {
    proxy: { "/v1": pawl }, // Host and Origin stay as they are, since the server refuses pages of other origins
    fs: { allow: [".", "../../sdk/typescript"] }, // the SDK of this repository; a package from npm needs no such line
  },
});
