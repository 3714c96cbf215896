// Server-sent events of a stream of bytes (HTML, section 9.2).

import { ConnectionError } from "./errors.js";

export interface Message {
  event: string;
  data: string;
}

/** A longer message is none of the service's. */
const MAX_CHARS = 16 << 20;

export async function* messages(body: ReadableStream<Uint8Array>): AsyncGenerator<Message, void, undefined> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  let event = "";
  let data: string[] = [];
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      text += decoder.decode(value, { stream: true });
      const lines = text.split(/\r\n|\n|\r(?!$)/);
      text = lines.pop() ?? "";
      if (text.length > MAX_CHARS) throw new ConnectionError("an event without end");
      for (const line of lines) {
        const [, field, content] = /^([^:]*):? ?(.*)$/s.exec(line) ?? [];
        if (line === "") {
          if (data.length > 0) yield { event: event || "message", data: data.join("\n") };
          [event, data] = ["", []];
        } else if (field === "event") event = content ?? "";
        else if (field === "data") data.push(content ?? "");
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}
