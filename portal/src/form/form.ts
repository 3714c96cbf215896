//! What has been typed into a form, what becomes of it, and what was wrong with it. The service decides
//! what is right; here only what is no number, and so could not be sent, is refused.
import type { Schemas, Violation } from "../api/client.ts";
import type { Field } from "../api/fields.ts";
import { inWords } from "../api/words.ts";

/** What stands in each control, as it was typed; a control that nobody has touched is not there. */
export type Typed = Record<string, string>;
/** The fields of one object of the document. */
export type Fields = Record<string, Field>;
/** Where a value is in a body, as `loc` has it, without `body`. */
export type Path = readonly (string | number)[];

type Value = string | number | boolean | string[];
export type Read = { body: Record<string, Value>; wrong: Violation[] };

/** An object of what was typed; empty controls are left out, so that the service fills in its defaults. */
export function read(fields: Fields, typed: Typed, path: Path = []): Read {
  const body: Record<string, Value> = {};
  const wrong: Violation[] = [];
  for (const [name, field] of Object.entries(fields)) {
    const text = typed[name]?.trim() ?? "";
    if (text === "" || field.kind === "rows") continue;
    const value = valueOf(field, text);
    if (value !== undefined) body[name] = value;
    else wrong.push(violation([...path, name], notNumber(text, field.kind === "integer" ? "whole number" : "number")));
  }
  return { body, wrong };
}

/** How the values of a record are typed; the inverse of `read`. */
export function typedOf(fields: Fields, record: Readonly<Record<string, unknown>>): Typed {
  const typed: Typed = {};
  for (const [name, field] of Object.entries(fields)) {
    const value = record[name];
    if (value === undefined || value === null || field.kind === "rows") continue;
    typed[name] = Array.isArray(value) ? value.join("\n") : String(value);
  }
  return typed;
}

export function violation(path: Path, msg: string): Violation {
  return { loc: ["body", ...path], msg, type: "value_error" };
}

/** Numbers are written with a point; `1,5` is none, and nothing is guessed. */
export function numberOf(text: string): number | undefined {
  const value = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text) ? Number(text) : NaN;
  return Number.isFinite(value) ? value : undefined;
}

function valueOf(field: Field, text: string): Value | undefined {
  switch (field.kind) {
    case "boolean":
      return text === "true";
    case "number":
      return numberOf(text);
    case "integer": {
      const value = numberOf(text);
      return Number.isSafeInteger(value) ? value : undefined;
    }
    case "texts":
      return linesOf(text).map(({ line }) => line);
    default:
      return text;
  }
}

/** The lines of a list that are sent, with the numbers that they have among all that were typed. */
export function linesOf(text: string): { line: string; number: number }[] {
  return text.split("\n").map((line, i) => ({ line: line.trim(), number: i + 1 })).filter(({ line }) => line !== "");
}

/**
 * The masks of a line, as the service tells them apart where it takes several in one text: a blank ends one that could
 * end there when what follows begins another. Between operators, and in brackets, blanks may stand.
 */
export function masksIn(line: string): string[] {
  const characters = Array.from(line);
  const starts = [0];
  let depth = 0;
  let last = "&";
  let isBlank = false;
  for (const [at, c] of characters.entries()) {
    if (isBlank && depth === 0 && ":@^*(!".includes(c) && !"&|!<>,:@^(".includes(last)) starts.push(at);
    if (c === "(") depth += 1;
    if (c === ")") depth = Math.max(0, depth - 1);
    isBlank = /\s/.test(c);
    if (!isBlank) last = c;
  }
  return starts.map((start, i) => characters.slice(start, starts[i + 1]).join("").trim());
}

/** Where in a text a violation is, which names the column, and of a list the line among those that are sent. */
export function pointedAt(typed: string, isList: boolean, wrong: string | undefined): { before: string; at: string; after: string } | undefined {
  const [, line = "1", mask, column] = wrong?.match(/(?:\bline (\d+)(?:, mask (\d+))?: )?(?:.*?: )?\bcolumn (\d+):/) ?? [];
  if (column === undefined) return undefined;
  const sent = isList ? linesOf(typed)[Number(line) - 1]?.line : typed.trim();
  const characters = [...((mask === undefined ? sent : masksIn(sent ?? "")[Number(mask) - 1]) ?? "")];
  const place = Number(column) - 1;
  // Behind the end something is missing; what is too long to be seen at once is not repeated.
  if (place > characters.length || characters.length > 80) return undefined;
  return {
    before: characters.slice(0, place).join(""),
    at: characters[place] ?? "\u00a0",
    after: characters.slice(place + 1).join(""),
  };
}

/** The same with the numbers that the lines have where they were typed. */
export function inTypedLines(typed: string, wrong: string): string {
  const lines = linesOf(typed);
  return wrong.replaceAll(/(^|; )line (\d+)(?=: |, mask)/g, (_, before: string, n: string) => `${before}line ${lines[Number(n) - 1]?.number ?? n}`);
}

const LONGEST_SHOWN = 40;

/** Why a text is no number, with the likely reason. */
export function notNumber(text: string, kind: "number" | "whole number" = "number"): string {
  const shown = text.length > LONGEST_SHOWN ? `${text.slice(0, LONGEST_SHOWN)}…` : text;
  if (/^[+-]?\d+\.?\d*(e\+?\d+)?$/i.test(text) && Math.abs(Number(text)) > Number.MAX_SAFE_INTEGER) return `${shown} is too large`;
  return `${shown} is not a ${kind}${hintOf(text, kind === "whole number")}`;
}

function hintOf(text: string, isWhole: boolean): string {
  const joined = text.replaceAll(/[,\s]/g, "");
  const isInThousands = /^[+-]?\d{1,3}([,\s]\d{3})+$/.test(text);
  if (isInThousands && (isWhole || joined !== text.replace(",", ""))) return `; it is written without commas and blanks, ${joined}`;
  if (isInThousands) return `; write ${joined}, or ${text.replace(",", ".")} if the comma stands for a point`;
  return !isWhole && /^[+-]?\d+,\d+$/.test(text) ? `; decimals are written with a point, ${text.replace(",", ".")}` : "";
}

/** Violations by the control that they belong to; at `""` those that no control has. */
export class Wrong {
  readonly #byKey: ReadonlyMap<string, string[]>;
  readonly #noted: ReadonlyMap<string, string[]>;
  readonly #keys: ReadonlySet<string>;

  /** `keys` are the paths of the controls that are shown, joined by points. Warnings belong to controls as well. */
  constructor(violations: readonly Violation[], keys: ReadonlySet<string>, warnings: readonly Schemas["Notice"][] = []) {
    this.#byKey = byControl(violations.map((violation) => ({ loc: violation.loc, text: inWords(violation) })), keys);
    this.#keys = keys;
    this.#noted = byControl(warnings.map(({ loc = [], message }) => ({ loc, text: message })), keys);
  }

  at(...path: Path): string | undefined {
    return this.#byKey.get(path.join("."))?.join("; ");
  }

  /** What should be known of a control that is not wrong. */
  notedAt(...path: Path): string | undefined {
    return this.#noted.get(path.join("."))?.join("; ");
  }

  /** Whether a warning stands at a control, and need not be told elsewhere. */
  isNoted({ loc = [] }: Schemas["Notice"]): boolean {
    return keyOf(loc, this.#keys) !== "";
  }

  get top(): readonly string[] {
    return this.#byKey.get("") ?? [];
  }
}

function byControl(all: readonly { loc: Violation["loc"]; text: string }[], keys: ReadonlySet<string>): Map<string, string[]> {
  const byKey = new Map<string, string[]>();
  for (const { loc, text } of all) {
    const key = keyOf(loc, keys);
    const rest = placeOf(loc.slice(key === "" ? 1 : 1 + key.split(".").length));
    byKey.set(key, [...(byKey.get(key) ?? []), rest === "" ? text : `${rest}: ${text}`]);
  }
  return byKey;
}

/** The control that a place of a request belongs to; "" for none. */
function keyOf(loc: Violation["loc"], keys: ReadonlySet<string>): string {
  const path = loc[0] === "body" ? loc.slice(1) : [];
  while (path.length > 0 && !keys.has(path.join("."))) path.pop();
  return path.join(".");
}

/** Where in a control something is; the items of a list are typed a line each, and of lists of masks with blanks between. */
function placeOf(path: Path): string {
  const [first, second] = path;
  if (typeof first === "number" && typeof second === "number") return `line ${first + 1}, mask ${second + 1}`;
  return typeof first === "number" ? `line ${first + 1}` : path.join(".");
}
