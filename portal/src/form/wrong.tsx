//! What is wrong with a request and belongs to no control.
import { sentence } from "../api/words.ts";
import { Notice } from "../part/notice.tsx";
import type { Wrong } from "./form.ts";

export function WrongAtTop({ wrong }: { wrong: Wrong }) {
  if (wrong.top.length === 0) return null;
  return <Notice kind="bad">{wrong.top.map((text) => <p key={text}>{sentence(text)}</p>)}</Notice>;
}
