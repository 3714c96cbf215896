//! A request as code, to go from the screen to a script.

export const LANGUAGES = ["molbox", "curl", "Python", "Rust"] as const;
export type Language = (typeof LANGUAGES)[number];

/** What is submitted, as each language names it. */
export type Operation = { id: string; path: string; command: string; schema: string; method: string };

export const SYSTEM_SUBMIT: Operation = {
  id: "system_submit", path: "/submit/system", command: "system submit", schema: "SystemBuildRequest", method: "build",
};
export const JOB_SUBMIT: Operation = {
  id: "job_submit", path: "/submit/job", command: "job submit", schema: "JobCreateParams", method: "submit",
};
export const ANALYSIS_SUBMIT: Operation = {
  id: "analysis_submit", path: "/submit/analysis", command: "analysis submit", schema: "AnalysisRequest", method: "analyze",
};

/** `body` submitted from a script; the key comes from the environment. */
export function codeOf(language: Language, { id, path, command, schema, method }: Operation, body: object, baseUrl: string): string {
  const json = JSON.stringify(body, null, 2);
  switch (language) {
    case "molbox":
      return `molbox ${command} --file - <<'END'\n${json}\nEND\n`;
    case "curl":
      return `curl --fail-with-body ${quoted(baseUrl + path)} \\\n`
        + `  --header "x-api-key: $MOLBOX_API_KEY" --header 'content-type: application/json' \\\n`
        + `  --data-binary @- <<'END'\n${json}\nEND\n`;
    case "Python":
      return `import molbox_client as molbox  # pip install molbox-client\n\n`
        + `client = molbox.Client(base_url=${python(baseUrl)})  # and MOLBOX_API_KEY\n`
        + `done = client.${method}(${pythonArguments(body)})\nprint(done)\n`;
    case "Rust":
      return `use molbox::workflow::types::${schema};\n\n`
        + `// MOLBOX_API_KEY, and MOLBOX_BASE_URL=${baseUrl}\n`
        + `let molbox = molbox::Client::from_env()?;\n`
        + `let body: ${schema} = serde_json::from_str(${rawString(json)})?;\n`
        + `let answer = molbox.${id}().body(body).send().await?;\n`;
  }
}

/** A text in Rust as it is, between more `#` than it has anywhere behind a quotation mark. */
function rawString(text: string): string {
  const lengths = text.match(/"#+/g)?.map(({ length }) => length) ?? [];
  const fence = "#".repeat(Math.max(1, ...lengths));
  return `r${fence}"${text}"${fence}`;
}

/** The fields of a request as arguments by name. */
function pythonArguments(body: object): string {
  const fields = Object.entries(body);
  if (fields.length === 0) return "";
  return `\n${fields.map(([name, value]) => `    ${name}=${python(value, "    ")},\n`).join("")}`;
}

/** A value as Python writes it. */
function python(value: unknown, indent = ""): string {
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value !== "object") return JSON.stringify(value);
  const inner = `${indent}    `;
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  const items = Array.isArray(value)
    ? value.map((item) => python(item, inner))
    : Object.entries(value).map(([name, item]) => `${JSON.stringify(name)}: ${python(item, inner)}`);
  if (items.length === 0) return `${open}${close}`;
  return `${open}\n${items.map((item) => `${inner}${item},\n`).join("")}${indent}${close}`;
}

/** One word of a shell, whatever is in it. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
