// The head of a module of all examples in docs/reference, which is only type-checked.
import createClient from "openapi-fetch";

import type * as Margin from "./margin.js";
import type * as Workflow from "./workflow.js";

const headers = { "x-api-key": process.env.MOLBOX_API_KEY };
const molbox = createClient<Workflow.paths>({ baseUrl: process.env.MOLBOX_BASE_URL, headers });
const margin = createClient<Margin.paths>({ baseUrl: process.env.MOLBOX_MARGIN_URL, headers });
