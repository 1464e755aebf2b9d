import { hashOf } from "./canonical.ts";

const mostHashes = 32; // of single arguments
const mostName = 64; // bytes of a member's name
const mostNamed = 5; // in an error

/** A step's arguments. The hash of all is compared; those of single ones, by JSON Pointer, only name what differs. */
export interface StepArgs {
  hash: string;
  parts: { [pointer: string]: string };
}

export function argsOf(args: unknown[]): StepArgs {
  if (args.length > mostHashes) return { hash: hashOf(args), parts: {} };
  const json = JSON.parse(JSON.stringify(args)) as unknown[];
  let parts = hashes(json, true);
  if (Object.keys(parts).length > mostHashes) parts = hashes(json, false);
  return { hash: hashOf(args), parts };
}

function hashes(args: unknown[], members: boolean): StepArgs["parts"] {
  const out: [string, string][] = [];
  const add = (pointer: string, value: unknown) => out.push([pointer, hashOf(value).slice(0, 16)]);
  args.forEach((arg, n) => {
    const split = members && typeof arg === "object" && arg !== null && !Array.isArray(arg) ? Object.entries(arg) : [];
    if (split.length === 0 || split.some(([name]) => Buffer.byteLength(name) > mostName)) add(`/${n}`, arg);
    else for (const [name, value] of split) add(`/${n}/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`, value);
  });
  return Object.fromEntries(out);
}

/** What differs between the arguments and saved ones, in brackets; "" if that is not known. */
export function differing({ parts }: StepArgs, saved: unknown): string {
  if (typeof saved !== "object" || saved === null || Object.keys(parts).length === 0) return "";
  const before = saved as StepArgs["parts"];
  const names = [...new Set([...Object.keys(before), ...Object.keys(parts)])].sort().filter((p) => before[p] !== parts[p]);
  const more = names.length > mostNamed ? [`and ${names.length - mostNamed} more`] : [];
  return names.length > 0 ? ` (${[...names.slice(0, mostNamed), ...more].join(", ")})` : "";
}
