//! A request as code, to continue in a script.
import { useState } from "react";

import { baseUrl } from "../api/client.ts";
import { Copy } from "../part/copy.tsx";
import { codeOf, type Language, LANGUAGES, type Operation } from "./code.ts";

export function CopyAs({ operation, body }: { operation: Operation; body: object }) {
  const [language, choose] = useState<Language>("molbox");
  const code = codeOf(language, operation, body, baseUrl);
  return <details className="panel">
    <summary>Copy as code</summary>
    <div className="stack">
      <div className="spread">
        <div className="row" role="group" aria-label="Language">
          {LANGUAGES.map((name) => <button key={name} type="button" aria-pressed={name === language}
            onClick={() => choose(name)}>{name}</button>)}
        </div>
        <Copy text={code} />
      </div>
      <pre className="log" role="region" tabIndex={0} aria-label={`The request as ${language}`}>{code}</pre>
    </div>
  </details>;
}
