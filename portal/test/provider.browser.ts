//! Signing in by an identity provider, whose pages are on another origin.
import assert from "node:assert/strict";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import path from "node:path";
import { after, before, test } from "node:test";

import { Browser } from "./browser.ts";
import { toAccount } from "./person.ts";
import { Service } from "./service.ts";

const LABEL = "With the university";

let provider: Server;
let issuer: string;
let service: Service;
let browser: Browser;
let nonce = "";

/** A provider with one person, Ada, who is asked on a page of its own. */
async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = new URL(request.url ?? "/", issuer);
  const json = (value: unknown) => {
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify(value));
  };
  if (url.pathname === "/.well-known/openid-configuration") {
    json({ issuer, authorization_endpoint: `${issuer}/authorize`, token_endpoint: `${issuer}/token` });
  } else if (url.pathname === "/authorize") {
    nonce = url.searchParams.get("nonce") ?? "";
    const back = new URL(url.searchParams.get("redirect_uri") ?? "");
    const state = url.searchParams.get("state") ?? "";
    const way = (given: Record<string, string>) =>
      `${back}?${new URLSearchParams({ ...given, state })}`.replaceAll("&", "&amp;");
    response.setHeader("content-type", "text/html");
    response.end(`<!doctype html><title>University</title>
      <a href="${way({ code: "a-code" })}">I am Ada</a> <a href="${way({ error: "access_denied" })}">Cancel</a>`);
  } else if (url.pathname === "/token") {
    const now = Math.floor(Date.now() / 1000);
    const claims = { iss: issuer, aud: "molbox", sub: "1", iat: now, exp: now + 60, nonce, preferred_username: "ada" };
    const token = ["{}", JSON.stringify(claims), ""].map((part) => Buffer.from(part).toString("base64url")).join(".");
    json({ id_token: token, access_token: "a-token" });
  } else {
    response.statusCode = 404;
    response.end();
  }
}

before(async () => {
  provider = createServer((request, response) => void answer(request, response)).listen(0, "127.0.0.1");
  await once(provider, "listening");
  const address = provider.address();
  assert(typeof address === "object" && address !== null);
  issuer = `http://localhost:${address.port}`;
  service = await Service.start();
  await service.stop();
  const secret = path.join(service.folder, "secret");
  writeFileSync(secret, "a secret");
  await service.resume(
    `public_url=${service.origin}`, `oidc.issuer=${issuer}`, "oidc.client_id=molbox",
    `oidc.client_secret_file=${secret}`, `oidc.label=${LABEL}`,
    "oidc.admit_claim=iss", `oidc.admit_values=["${issuer}"]`,
  );
  browser = await Browser.open(service.origin);
});

after(async () => {
  await browser?.close();
  await service?.close();
  provider?.closeAllConnections();
  provider?.close();
});

test("who cancels at the provider is told so, where they were", async () => {
  const { page } = browser;
  await page.goto(`${service.portal}systems?name=water`);
  await page.getByRole("link", { name: LABEL }).click();
  await page.getByRole("link", { name: "Cancel" }).click();
  await page.getByRole("alert").filter({ hasText: "it was cancelled, or refused there" }).waitFor();
  assert.match(page.url(), /\/portal\/systems\?name=water#/);
});

test("who signs in at the provider goes on where they were", async () => {
  const { page } = browser;
  await page.getByRole("link", { name: LABEL }).click();
  await page.getByRole("link", { name: "I am Ada" }).click();
  await page.getByRole("heading", { name: "Systems" }).waitFor();
  await page.getByRole("button", { name: "ada" }).waitFor();
  assert.equal(page.url(), `${service.portal}systems?name=water`);
});

test("who is signed out in the middle keeps what was typed", async () => {
  const { page } = browser;
  await toAccount(browser, "ada");
  await page.getByRole("button", { name: "New key" }).click();
  await page.getByLabel("Name").fill("typed before");
  await page.context().clearCookies();
  await page.getByRole("button", { name: "Make the key" }).click();
  const dialog = page.getByRole("dialog", { name: "You have been signed out" });
  const opened = page.waitForEvent("popup");
  await dialog.getByRole("link", { name: LABEL }).click();
  const popup = await opened;
  await popup.getByRole("link", { name: "I am Ada" }).click();
  await popup.getByRole("heading", { name: "Jobs" }).waitFor();
  await popup.close();
  // Without a screen every page has the focus all the time.
  await page.evaluate(() => dispatchEvent(new Event("focus")));
  await page.getByRole("dialog", { name: "Your new key" }).waitFor();
  await page.getByRole("button", { name: "I have it" }).click();
  await page.getByRole("row", { name: "typed before" }).waitFor();
});
