//! openapi.json -> src/api/fields.ts: what a form has to know of each field of a request. Types know
//! nothing of units, defaults, values and ranges.
import { readFileSync, writeFileSync } from "node:fs";

const WANTED = [
  "FileRegistration",
  "SystemBuildRequest",
  "JobCreateParams",
  "EquilibrationStep",
  "ProductionParams",
  "JobExtension",
  "AnalysisRequest",
  "MarginJobRequest",
  "HistoricalSettings",
];

const document = JSON.parse(readFileSync(new URL("../openapi/openapi.json", import.meta.url), "utf8"));
const { schemas } = document.components;

/** The schema that a reference, or a reference or null, leads to. */
function resolved(schema) {
  const reference = schema.$ref ?? schema.anyOf?.[0]?.$ref;
  return reference ? schemas[reference.split("/").at(-1)] : schema;
}

function kindOf(schema) {
  if (schema.type === "string") return "text";
  if (schema.type === "array") return resolved(schema.items).type === "string" ? "texts" : "rows";
  return ["number", "integer", "boolean"].includes(schema.type) ? schema.type : "rows";
}

/** The description without the default, which the form shows where nothing has been typed. */
function helpOf(description, initial) {
  // The largest whole number that every client can write stands for no bound.
  const text = description.replaceAll(/\s+/g, " ").replace(/from (\d+) to 9007199254740992\b/, "at least $1").trim();
  return initial === undefined ? text : text.replace(` Default: ${initial}.`, "");
}

function fieldOf(property) {
  const schema = resolved(property);
  const initial = property["x-default"];
  return {
    kind: kindOf(schema),
    help: helpOf(property.description ?? schema.description ?? "", initial),
    unit: property["x-unit"],
    initial,
    values: property["x-values"] ?? schema.enum,
    isOpen: property["x-open"],
    from: property["x-from"] ?? schema.minimum,
    above: property["x-above"],
    to: property["x-to"],
  };
}

const lines = WANTED.flatMap((name) => [
  `  ${name}: {`,
  ...Object.entries(schemas[name].properties).map(
    ([field, property]) => `    ${field}: ${JSON.stringify(fieldOf(property))},`,
  ),
  "  },",
]);
writeFileSync(
  new URL("src/api/fields.ts", import.meta.url),
  `// Made of the document by \`npm run generate\`.
export type Field = {
  /** \`rows\` are objects, or lists of anything but texts: a form of their own. */
  kind: "text" | "texts" | "number" | "integer" | "boolean" | "rows";
  help: string;
  unit?: string;
  initial?: string | number | boolean;
  values?: readonly string[];
  /** Whether there are values besides. */
  isOpen?: boolean;
  from?: number;
  above?: number;
  to?: number;
};

export const fields = {
${lines.join("\n")}
} as const satisfies Record<string, Record<string, Field>>;
`,
);
