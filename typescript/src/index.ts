// What a program imports: the two clients, the errors, and the records by their names.

import type { components as MarginComponents } from "./margin.js";
import type { components as WorkflowComponents } from "./workflow.js";

export { MolboxMargin, type MarginPaths } from "./client.js";
export {
  Molbox,
  type TransferOptions,
  type UploadOptions,
  type WaitOptions,
  type WorkflowPaths,
} from "./molbox.js";
export {
  ConnectionError,
  DamagedError,
  MolboxError,
  RefusedError,
  TaskFailedError,
  TimedOutError,
  type Violation,
} from "./errors.js";
export type { ConnectionOptions } from "./connection.js";

/** Schemas of the simulation workflow: `Schemas["JobRecord"]`. */
export type Schemas = WorkflowComponents["schemas"];
/** Schemas of the margin endpoint: `MarginSchemas["MarginReport"]`. */
export type MarginSchemas = MarginComponents["schemas"];
