//! A button that copies a text.
import { useState } from "react";

export function Copy({ text, label = "Copy" }: { text: string; label?: string }) {
  const [said, say] = useState("");
  async function copy(): Promise<void> {
    try {
      await navigator.clipboard.writeText(text);
      say("Copied");
    } catch {
      // Browsers refuse it on plain HTTP.
      say("Select the text and copy it");
    }
    setTimeout(() => say(""), 3000);
  }
  return <button type="button" onClick={() => void copy()}><span aria-live="polite">{said || label}</span></button>;
}
