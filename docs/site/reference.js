"use strict";
// openapi.js has put the document into window.openapi.
const options = {
  disableSearch: false,
  expandResponses: "200",
  hideDownloadButton: true,
  jsonSampleExpandLevel: 3,
  requiredPropsFirst: true,
  showExtensions: ["x-origin", "x-choice", "x-unit", "x-default"],
};
Redoc.init(window.openapi, options, document.getElementById("reference"));
