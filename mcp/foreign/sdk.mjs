// The TypeScript SDK's client, which holds answers against the tools' schemas.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

export async function connect(url) {
  const client = new Client({ name: "stranger", version: "1.0.0" });
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  await client.listTools(); // from which it knows the schemas
  return {
    name: `TypeScript SDK, ${client.transport.protocolVersion}`,
    call: (name, args) => client.callTool({ name, arguments: args }),
    close: () => client.close(),
  };
}
