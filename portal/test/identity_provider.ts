//! An identity provider, `oidc-provider`, on another origin: people say there who they are, and agree to it.
import assert from "node:assert/strict";
import { generateKeyPairSync, randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { text } from "node:stream/consumers";

import Provider, { type Configuration, type JWK } from "oidc-provider";

/** How ID tokens are signed, and how molbox proves that it is molbox. */
export interface Ways {
  signed: "RS256" | "ES256";
  proof: "client_secret_basic" | "client_secret_post";
}

/** One that is encoded differently in a header, in a form and in neither. */
const SECRET = "a secret+of/molbox";
/** Who is known, and the groups that they are in. */
const PEOPLE: ReadonlyMap<string, string[]> = new Map([["ada", ["staff", "md"]], ["bob", ["staff"]]]);

export class IdentityProvider {
  readonly clientId = "molbox";
  readonly secret = SECRET;
  private readonly redirectUri: string;
  private server: Server | undefined;
  private port = 0;
  private provider: Provider | undefined;

  private constructor(redirectUri: string) {
    this.redirectUri = redirectUri;
  }

  /** `redirectUri` is where people go back to. */
  static async start(redirectUri: string, ways: Ways): Promise<IdentityProvider> {
    const started = new IdentityProvider(redirectUri);
    await started.resume();
    started.renew(ways);
    return started;
  }

  /** Another host than the portal's 127.0.0.1, so that a browser takes it for another site. */
  get issuer(): string {
    return `http://localhost:${this.port}`;
  }

  /** Signs with a new key from now on, and forgets the old one. */
  renew({ signed, proof }: Ways): void {
    const configuration: Configuration = {
      clients: [{
        client_id: this.clientId,
        client_secret: this.secret,
        redirect_uris: [this.redirectUri],
        token_endpoint_auth_method: proof,
        id_token_signed_response_alg: signed,
      }],
      clientAuthMethods: [proof],
      jwks: { keys: [key(signed)] },
      pkce: { required: () => true },
      claims: { openid: ["sub"], profile: ["preferred_username", "groups"] },
      cookies: { keys: [randomUUID()] },
      features: { devInteractions: { enabled: false } },
      interactions: { url: (_, { uid }) => `/interaction/${uid}` },
      findAccount: (_, id) => {
        const groups = PEOPLE.get(id);
        return groups && { accountId: id, claims: () => ({ sub: id, preferred_username: id, groups }) };
      },
    };
    this.provider = new Provider(this.issuer, configuration);
  }

  /** Listens, at the same address as before. */
  async resume(): Promise<void> {
    this.server = createServer((request, response) => void this.answer(request, response));
    this.server.listen(this.port, "127.0.0.1");
    await once(this.server, "listening");
    const address = this.server.address();
    assert(typeof address === "object" && address !== null);
    this.port = address.port;
  }

  async stop(): Promise<void> {
    const server = this.server;
    this.server = undefined;
    if (!server) return;
    const closed = once(server, "close");
    server.close();
    server.closeAllConnections();
    await closed;
  }

  /** Identifiers of the keys that tokens may be signed with. */
  async keys(): Promise<string[]> {
    const answer = await fetch(`${this.issuer}/jwks`);
    const { keys } = await answer.json() as { keys: { kid: string }[] };
    return keys.map(({ kid }) => kid);
  }

  /** What is answered to somebody who comes without a challenge of PKCE. */
  async withoutChallenge(): Promise<string | null> {
    const query = new URLSearchParams({
      client_id: this.clientId, redirect_uri: this.redirectUri, response_type: "code", scope: "openid", state: "a",
    });
    const answer = await fetch(`${this.issuer}/auth?${query}`, { redirect: "manual" });
    return new URL(answer.headers.get("location") ?? "", this.issuer).searchParams.get("error");
  }

  private async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const provider = this.provider;
    assert(provider);
    if (!request.url?.startsWith("/interaction/")) return provider.callback()(request, response);
    const { prompt, session, grantId } = await provider.interactionDetails(request, response);
    if (request.method !== "POST") {
      response.setHeader("content-type", "text/html");
      response.end(page(prompt.name === "login"));
      return;
    }
    const form = new URLSearchParams(await text(request));
    let result;
    if (form.has("cancel")) {
      result = { error: "access_denied", error_description: "<b>it was cancelled</b>" };
    } else if (prompt.name === "login") {
      result = { login: { accountId: form.get("name") ?? "" } };
    } else {
      const known = grantId === undefined ? undefined : await provider.Grant.find(grantId);
      const grant = known ?? new provider.Grant({ accountId: session?.accountId ?? "", clientId: this.clientId });
      const missing = prompt.details["missingOIDCScope"];
      if (Array.isArray(missing)) grant.addOIDCScope(missing.join(" "));
      result = { consent: { grantId: await grant.save() } };
    }
    await provider.interactionFinished(request, response, result);
  }
}

/** A new key to sign with. */
function key(alg: Ways["signed"]): JWK {
  const { privateKey } = alg === "RS256"
    ? generateKeyPairSync("rsa", { modulusLength: 2048 })
    : generateKeyPairSync("ec", { namedCurve: "P-256" });
  return { ...privateKey.export({ format: "jwk" }), kid: randomUUID(), alg, use: "sig" } as JWK;
}

/** Asks who somebody is, or whether molbox may know it. */
function page(isLogin: boolean): string {
  const question = isLogin
    ? '<label>Name at the university <input name="name"></label> <button>Go on</button>'
    : "<p>molbox wants to know who you are.</p> <button>Agree</button>";
  return `<!doctype html><html lang="en"><title>University</title>
    <form method="post">${question} <button name="cancel">Cancel</button></form></html>`;
}
