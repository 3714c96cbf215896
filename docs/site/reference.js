"use strict";
// openapi.js has put the document into window.openapi.
const { openapi } = window;
// An addition is marked where its path is, or it is; Redoc shows the mark in the list of operations.
for (const item of Object.values(openapi.paths)) {
  for (const operation of Object.values(item).filter((value) => value.operationId)) {
    if (item["x-origin"] || operation["x-origin"]) operation.summary += " ◆";
  }
}
// Of `{enum: [null]}` beside a reference Redoc says "any"; of `nullable` it says what is meant.
const plain = (value) => {
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return value.map(plain);
  const { anyOf, ...rest } = value;
  const isNull = (schema) => schema.enum?.length === 1 && schema.enum[0] === null;
  if (anyOf?.length === 2 && isNull(anyOf[1])) return { ...rest, nullable: true, allOf: [anyOf[0]] };
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, plain(inner)]));
};
openapi.components.schemas = plain(openapi.components.schemas);
openapi.info.description += "\nOperations with ◆ are such additions.";
const options = {
  expandResponses: "200",
  hideDownloadButton: true,
  jsonSampleExpandLevel: 3,
  requiredPropsFirst: true,
  showExtensions: ["x-origin", "x-choice", "x-unit", "x-default", "x-values", "x-from", "x-above", "x-to"],
};
Redoc.init(openapi, options, document.getElementById("reference"));
