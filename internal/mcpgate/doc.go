// Package mcpgate stands between an MCP client and an MCP server. It passes messages on as they are, but
// for calls of tools that change something: each is an effect, which is recorded before it is sent.
package mcpgate
