//! What is read from a `User-Agent`.
import assert from "node:assert/strict";
import { test } from "node:test";

import { browserOf } from "../src/part/browser.ts";

const SAID: [userAgent: string, words: string][] = [
  ["Mozilla/5.0 (X11; Linux x86_64; rv:150.0) Gecko/20100101 Firefox/150.0", "Firefox 150 on Linux"],
  ["Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/145.0.0.0 Safari/537.36", "Chrome 145 on Linux"],
  ["Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/145.0.0.0 Safari/537.36 Edg/145.0.3000.1", "Edge 145 on Windows"],
  ["Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.1 Safari/605.1.15", "Safari 26 on macOS"],
  ["Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1", "Safari 18 on iPhone"],
  ["Mozilla/5.0 (Linux; Android 16) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/145.0.0.0 Mobile Safari/537.36", "Chrome 145 on Android"],
  ["curl/8.14.1", "curl/8.14.1"],
  ["", "Something without a name"],
];

test("a browser is called what people call it", () => {
  for (const [userAgent, words] of SAID) assert.equal(browserOf(userAgent), words);
});

test("whoever sends a long name is cut short", () => {
  assert.equal(browserOf("x".repeat(500)).length, 61);
});
