// Calls with the types of the document: a path and a method know what they take and give.

import { Connection, type Call, type ConnectionOptions } from "./connection.js";
import { ConnectionError, MolboxError } from "./errors.js";
import type { paths as MarginPaths } from "./margin.js";

export type { MarginPaths };

type Method = "get" | "post" | "delete";

/** Paths that have an operation of a method. */
export type PathsWith<Paths, M extends Method> = {
  [P in keyof Paths]: Paths[P] extends { [K in M]: Record<string, unknown> | object } ? P : never;
}[keyof Paths] &
  string;

type Operation<Paths, P extends keyof Paths, M extends Method> = Paths[P] extends { [K in M]: infer O } ? O : never;
type Parameters<O, Place extends string> = O extends { parameters: { [K in Place]?: infer T } }
  ? Exclude<T, undefined>
  : never;
type Body<O> = O extends { requestBody: { content: { "application/json": infer T } } }
  ? T
  : O extends { requestBody?: { content: { "application/json": infer T } } }
    ? T | undefined
    : never;
/** What an operation answers as JSON; nothing where it answers without a content. */
type Json<O> = O extends { responses: { 200: { content: { "application/json": infer T } } } }
  ? T
  : O extends { responses: { 204: unknown } }
    ? undefined
    : unknown;

type Place<Name extends string, T> = [T] extends [never]
  ? unknown
  : object extends T
    ? { [K in Name]?: T }
    : { [K in Name]: T };

/** What a call takes: parameters of the path and the query, the body, and a signal that ends it. */
export type Arguments<O> = Place<"path", Parameters<O, "path">> &
  Place<"query", Parameters<O, "query">> &
  Place<"body", Body<O>> & {
    signal?: AbortSignal;
    headers?: Record<string, string>;
  };

/** The arguments can be left out when none of them is needed. */
type Rest<A> = object extends A ? [call?: A] : [call: A];

type Loose = { path?: Record<string, unknown>; query?: Record<string, unknown>; body?: unknown } & Pick<
  Call,
  "signal" | "headers"
>;

/** A client of one address, with the operations that its document has. */
export class Client<Paths extends object> {
  protected readonly connection: Connection;

  constructor(options: ConnectionOptions) {
    this.connection = new Connection(options);
  }

  get<P extends PathsWith<Paths, "get">>(
    path: P,
    ...[call]: Rest<Arguments<Operation<Paths, P, "get">>>
  ): Promise<Json<Operation<Paths, P, "get">>> {
    return this.#json("GET", path, call as Loose);
  }

  post<P extends PathsWith<Paths, "post">>(
    path: P,
    ...[call]: Rest<Arguments<Operation<Paths, P, "post">>>
  ): Promise<Json<Operation<Paths, P, "post">>> {
    return this.#json("POST", path, call as Loose);
  }

  delete<P extends PathsWith<Paths, "delete">>(
    path: P,
    ...[call]: Rest<Arguments<Operation<Paths, P, "delete">>>
  ): Promise<Json<Operation<Paths, P, "delete">>> {
    return this.#json("DELETE", path, call as Loose);
  }

  async #json<T>(method: string, template: string, { path, ...rest }: Loose = {}): Promise<T> {
    const filled = template.replace(/\{(\w+)\}/g, (_, name: string) => {
      const value = path?.[name];
      // Of these a URL makes the path of another operation.
      if (value === undefined || ["", ".", ".."].includes(String(value))) {
        throw new MolboxError(`${template}: ${name} is missing`);
      }
      return encodeURIComponent(String(value));
    });
    const answer = await this.connection.send({ method, path: filled, ...rest });
    return (answer.status === 204 ? undefined : await read(answer, `${method} ${template}`)) as T;
  }
}

/** What an answer has as JSON. */
async function read(answer: Response, call: string): Promise<unknown> {
  let text: string;
  try {
    text = await answer.text();
  } catch (cause) {
    throw new ConnectionError(`${call}: the answer broke off`, { cause });
  }
  try {
    return JSON.parse(text) as unknown;
  } catch (cause) {
    throw new MolboxError(`${call}: what answered is not the service: ${text.slice(0, 200)}`, { cause });
  }
}

/** A margin may wait a minute for its turn and be calculated for five, in which nothing is sent. */
const LONGEST_MARGIN_MS = 420_000;

/** A client of the margin endpoint. */
export class MolboxMargin extends Client<MarginPaths> {
  constructor(options: ConnectionOptions) {
    super({ ...options, timeout: options.timeout ?? LONGEST_MARGIN_MS });
  }
}
