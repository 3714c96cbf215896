//! A request as code, to go from the screen to a script.

export const LANGUAGES = ["molbox", "curl", "Python", "Rust"] as const;
export type Language = (typeof LANGUAGES)[number];

/** What is submitted, as each language names it. */
export type Operation = { id: string; tag: string; path: string; command: string; schema: string };

export const SYSTEM_SUBMIT: Operation = {
  id: "system_submit", tag: "system", path: "/submit/system", command: "system submit", schema: "SystemBuildRequest",
};
export const JOB_SUBMIT: Operation = {
  id: "job_submit", tag: "job", path: "/submit/job", command: "job submit", schema: "JobCreateParams",
};
export const ANALYSIS_SUBMIT: Operation = {
  id: "analysis_submit", tag: "analysis", path: "/submit/analysis", command: "analysis submit", schema: "AnalysisRequest",
};

/** `body` submitted from a script; the key comes from the environment. */
export function codeOf(language: Language, { id, tag, path, command, schema }: Operation, body: object, baseUrl: string): string {
  const json = JSON.stringify(body, null, 2);
  switch (language) {
    case "molbox":
      return `molbox ${command} --file - <<'END'\n${json}\nEND\n`;
    case "curl":
      return `curl --fail-with-body ${quoted(baseUrl + path)} \\\n`
        + `  --header "x-api-key: $MOLBOX_API_KEY" --header 'content-type: application/json' \\\n`
        + `  --data-binary @- <<'END'\n${json}\nEND\n`;
    case "Python":
      return `import os\n\nfrom molbox_workflow import AuthenticatedClient\n`
        + `from molbox_workflow.api.${tag} import ${id}\nfrom molbox_workflow.models import ${schema}\n\n`
        + `molbox = AuthenticatedClient(\n    base_url=${python(baseUrl)}, token=os.environ["MOLBOX_API_KEY"],\n`
        + `    prefix="", auth_header_name="x-api-key",\n)\n`
        + `answer = ${id}.sync(client=molbox, body=${schema}.from_dict(${python(body)}))\nprint(answer)\n`;
    case "Rust":
      return `use molbox::workflow::types::${schema};\n\n`
        + `// MOLBOX_API_KEY, and MOLBOX_BASE_URL=${baseUrl}\n`
        + `let molbox = molbox::Client::from_env()?;\n`
        + `let body: ${schema} = serde_json::from_value(serde_json::json!(${json}))?;\n`
        + `let answer = molbox.${id}().body(body).send().await?;\n`;
  }
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
