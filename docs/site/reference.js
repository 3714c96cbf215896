"use strict";
// openapi.js has put the document into window.openapi.
const { openapi } = window;
// An addition is marked where its path is, or it is; Redoc shows the mark in the list of operations.
for (const item of Object.values(openapi.paths)) {
  for (const operation of Object.values(item).filter((value) => value.operationId)) {
    if (item["x-origin"] || operation["x-origin"]) operation.summary += " ◆";
  }
}
openapi.info.description += "\nOperations with ◆ are such additions.";
const options = {
  expandResponses: "200",
  hideDownloadButton: true,
  jsonSampleExpandLevel: 3,
  requiredPropsFirst: true,
  showExtensions: ["x-origin", "x-choice", "x-unit", "x-default"],
};
Redoc.init(openapi, options, document.getElementById("reference"));
